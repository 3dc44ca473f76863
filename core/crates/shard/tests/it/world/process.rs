//! One process: its shards, its catalog, and the inputs that it has yet to process.

use std::{collections::VecDeque, num::NonZeroU16, sync::Arc};

use headrace_buffer::BufferPool;
use headrace_catalog::{Catalog, CatalogWriter};
use headrace_model::ShardId;
use headrace_partition::PartitionConfig;
use headrace_proto::catalog::v1 as records;
use headrace_shard::{
    ClientRegistry, ClusterView, Hosting, Input, LinksConfig, Memory, NodeContacts, NodeView,
    RetentionConfig, Shard, ShardConfig, WebSocketConfig,
};
use headrace_ticket::Key;

use super::{SHARDS, node::SECRET, partition};

/// Id of this run of the process.
pub const GATEWAY_ID: u64 = 77;
/// Maximum number of connections of clients.
pub const CONNECTIONS_MAX: usize = 16;
/// Maximum wait for messages.
pub const WAIT_MICROS_MAX: u64 = 30_000_000;
/// Maximum lifetime of a ticket.
pub const TICKET_SECONDS_MAX: u64 = 86_400;
/// Maximum number of partitions that the requests of one shard may wait for.
pub const WAITED_PARTITIONS_MAX: usize = 16;
/// Time that an unsent call waits for a node.
pub const TIMEOUT_MICROS: u64 = 2_000_000;
/// Time of silence after which a link with unanswered calls is closed.
/// Silence after which a member that repeats its request for its partitions leaves its group.
pub const MEMBER_SILENCE_MICROS: u64 = 30_000_000;
pub const SILENCE_MICROS: u64 = 5_000_000;
/// Maximum bytes in flight on one link.
pub const IN_FLIGHT_BYTES_MAX: u64 = 64 * 1024;
/// Limit of bytes in the write queue, above which batches have to wait.
const QUEUE_BYTES_MAX: u64 = 64 * 1024;

/// Key that signs the tickets of the world's cluster.
pub fn ticket_key() -> Key {
    Key::derive(SECRET, "cluster")
}

/// Differences between processes.
#[derive(Clone)]
pub struct Setup {
    pub hosting: Hosting,
    pub shards: u16,
    pub ticket_key: Option<Key>,
    /// Clients silent for longer than 1.2 times this interval are removed from the registry.
    pub heartbeat_interval_micros: Option<u64>,
    pub tracing: bool,
    /// Memory that the shards share.
    pub memory_bytes: u64,
    pub connections_max: usize,
    pub waited_partitions_max: usize,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            hosting: Hosting::Everything,
            shards: SHARDS,
            ticket_key: Some(ticket_key()),
            heartbeat_interval_micros: None,
            tracing: false,
            memory_bytes: 1 << 30,
            connections_max: CONNECTIONS_MAX,
            waited_partitions_max: WAITED_PARTITIONS_MAX,
        }
    }
}

impl Setup {
    /// A gateway with one shard, which hosts nothing.
    pub fn gateway() -> Self {
        Self {
            hosting: Hosting::Nothing,
            shards: 1,
            tracing: true,
            connections_max: 1024,
            waited_partitions_max: 512,
            ..Self::default()
        }
    }

    fn config(&self, shard: ShardId, shards: NonZeroU16) -> ShardConfig {
        let node = NodeView {
            name: "node".into(),
            ip: "127.0.0.1".into(),
            tcp_port: 8090,
            quic_port: 0,
            http_port: 0,
            websocket_port: 0,
        };
        ShardConfig {
            shard,
            shards,
            hosting: self.hosting.clone(),
            links: LinksConfig {
                unsent_timeout_micros: TIMEOUT_MICROS,
                silence_timeout_micros: SILENCE_MICROS,
                in_flight_bytes_max: IN_FLIGHT_BYTES_MAX,
            },
            ticket_key: self.ticket_key.clone(),
            ticket_seconds_max: TICKET_SECONDS_MAX,
            partition: PartitionConfig {
                queue_bytes_max: QUEUE_BYTES_MAX,
                ..PartitionConfig::new(partition(0), 0)
            },
            connections_max: self.connections_max,
            send_payload_bytes_max: 4 << 20,
            websocket: WebSocketConfig::default(),
            heartbeat_interval_micros: self.heartbeat_interval_micros,
            member_silence_micros_max: MEMBER_SILENCE_MICROS,
            login_timeout_micros: Some(10_000_000),
            wait_micros_max: WAIT_MICROS_MAX,
            waited_partitions_max: self.waited_partitions_max,
            gateway: GATEWAY_ID,
            retention: RetentionConfig::default(),
            tracing: self.tracing,
            cluster: ClusterView {
                name: "single-node".into(),
                nodes: vec![node],
            },
            version: (0, 8, 0),
        }
    }
}

pub struct Process {
    setup: Setup,
    pub shards: Vec<Shard>,
    pub inputs: Vec<VecDeque<Input>>,
    pub writer: CatalogWriter,
    /// Catalog versions that the process has not received yet.
    pub news: VecDeque<records::Update>,
    pub clients: ClientRegistry,
    pub contacts: NodeContacts,
    pub memory: Memory,
    /// Number of connections so far.
    pub connections: u32,
    /// Shard of the last connection from another process.
    pub last_shard: usize,
}

impl Process {
    pub fn new(setup: Setup, seed: u64) -> Self {
        let mut process = Self {
            memory: Memory::new(BufferPool::new(setup.memory_bytes)),
            setup,
            shards: Vec::new(),
            inputs: Vec::new(),
            writer: CatalogWriter::new(Catalog::default()),
            news: VecDeque::new(),
            clients: ClientRegistry::default(),
            contacts: NodeContacts::default(),
            connections: 0,
            last_shard: 0,
        };
        process.start(seed);
        process
    }

    /// Start shards that know nothing but the catalog.
    pub fn start(&mut self, seed: u64) {
        self.clients = ClientRegistry::default();
        self.contacts = NodeContacts::default();
        self.memory = Memory::new(BufferPool::new(self.setup.memory_bytes));
        let count = NonZeroU16::new(self.setup.shards).unwrap();
        self.shards = (0..self.setup.shards)
            .map(|index| {
                let config = self.setup.config(ShardId(index), count);
                Shard::new(
                    Arc::new(config),
                    self.writer.reader(),
                    self.clients.clone(),
                    self.contacts.clone(),
                    self.memory.clone(),
                    seed.wrapping_add(index.into()),
                )
            })
            .collect();
        self.inputs = self.shards.iter().map(|_| VecDeque::new()).collect();
        self.put(|| Input::CatalogChanged);
    }

    /// Return whether it hosts no partitions.
    pub fn is_gateway(&self) -> bool {
        matches!(self.setup.hosting, Hosting::Nothing)
    }

    /// Give every shard an input.
    pub fn put(&mut self, input: impl Fn() -> Input) {
        for inputs in &mut self.inputs {
            inputs.push_back(input());
        }
    }

    /// Process the next version of the catalog.
    pub fn hear(&mut self) -> bool {
        let Some(update) = self.news.pop_front() else {
            return false;
        };
        self.writer.publish_update(&update).expect("a sound update");
        self.put(|| Input::CatalogChanged);
        true
    }

    /// Process the newest catalog instead of the changes that lead to it.
    pub fn renew(&mut self, snapshot: &records::Snapshot) {
        self.news.clear();
        let published = self.writer.publish_snapshot(snapshot);
        published.expect("a sound snapshot");
        self.put(|| Input::CatalogChanged);
    }
}
