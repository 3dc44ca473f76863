//! One process: its shards, its catalog, and the inputs that it has yet to process.

use std::{collections::VecDeque, num::NonZeroU16, sync::Arc};

use headrace_buffer::BufferPool;
use headrace_catalog::{Catalog, CatalogWriter};
use headrace_model::{Namespace, PartitionId, ShardId, StreamId, TopicId};
use headrace_partition::PartitionConfig;
use headrace_proto::catalog::v1 as records;
use headrace_shard::{
    ClientRegistry, ClusterView, Hosting, Input, LinksConfig, Memory, NodeView, RetentionConfig,
    Shard, ShardConfig, WebSocketConfig,
};
use headrace_ticket::Key;

/// Time that an unsent call waits for a node.
pub const TIMEOUT_MICROS: u64 = 3_000_000;
/// Time of silence after which a link with unanswered calls is closed.
pub const SILENCE_MICROS: u64 = 8_000_000;

pub fn partition(id: u32) -> Namespace {
    Namespace::new(StreamId(0), TopicId(0), PartitionId(id)).unwrap()
}

pub struct Process {
    pub hosting: Hosting,
    pub shards: Vec<Shard>,
    pub inputs: Vec<VecDeque<Input>>,
    pub writer: CatalogWriter,
    /// Catalog versions that the process has not received yet.
    pub news: VecDeque<records::Update>,
    /// Number of the last connection.
    pub connections: u32,
    pub next_shard: usize,
}

impl Process {
    pub fn new(hosting: Hosting, shards: u16, seed: u64) -> Self {
        let mut process = Self {
            hosting,
            shards: Vec::new(),
            inputs: Vec::new(),
            writer: CatalogWriter::new(Catalog::default()),
            news: VecDeque::new(),
            connections: 0,
            next_shard: 0,
        };
        process.start(shards, seed);
        process
    }

    /// Start shards that know nothing but the catalog.
    pub fn start(&mut self, shards: u16, seed: u64) {
        let (clients, memory) = (
            ClientRegistry::default(),
            Memory::new(BufferPool::new(1 << 30)),
        );
        let count = NonZeroU16::new(shards).unwrap();
        self.shards = (0..shards)
            .map(|index| {
                let config = config(ShardId(index), count, &self.hosting);
                Shard::new(
                    Arc::new(config),
                    self.writer.reader(),
                    clients.clone(),
                    memory.clone(),
                    seed.wrapping_add(index.into()),
                )
            })
            .collect();
        self.inputs = (0..shards)
            .map(|_| VecDeque::from([Input::CatalogChanged]))
            .collect();
    }

    /// Process the next version of the catalog.
    pub fn hear(&mut self) -> bool {
        let Some(update) = self.news.pop_front() else {
            return false;
        };
        self.writer.publish_update(&update).expect("a sound update");
        for inputs in &mut self.inputs {
            inputs.push_back(Input::CatalogChanged);
        }
        true
    }
}

fn config(shard: ShardId, shards: NonZeroU16, hosting: &Hosting) -> ShardConfig {
    let name = match hosting {
        Hosting::Placed { node } => node.to_string(),
        _ => "gateway".into(),
    };
    ShardConfig {
        shard,
        shards,
        hosting: hosting.clone(),
        links: LinksConfig {
            unsent_timeout_micros: TIMEOUT_MICROS,
            silence_timeout_micros: SILENCE_MICROS,
            in_flight_bytes_max: 256 * 1024,
        },
        ticket_key: Some(Key::derive(b"a secret of the cluster", "cluster")),
        ticket_seconds_max: 86_400,
        partition: PartitionConfig::new(partition(0), 0),
        connections_max: 64,
        send_payload_bytes_max: 4 << 20,
        websocket: WebSocketConfig::default(),
        heartbeat_interval_micros: None,
        login_timeout_micros: None,
        wait_micros_max: 30_000_000,
        waited_partitions_max: 64,
        gateway: 77,
        retention: RetentionConfig::default(),
        tracing: false,
        cluster: ClusterView {
            name: "cluster".into(),
            nodes: vec![NodeView {
                name,
                ip: "127.0.0.1".into(),
                tcp_port: 8090,
                quic_port: 0,
                http_port: 0,
                websocket_port: 0,
            }],
        },
        version: (0, 8, 0),
    }
}
