//! Host for one shard of a gateway, with everything outside it: clients, nodes, and the bytes between them.

mod wire;

use std::{
    collections::{BTreeMap, VecDeque},
    net::SocketAddr,
    num::NonZeroU16,
    sync::Arc,
};

use headrace_buffer::{Buffer, BufferPool, Slice};
use headrace_catalog::{Catalog, CatalogWriter};
use headrace_model::{
    Namespace, NodeId, PartitionId, ShardId, StreamId, Timestamp, TopicId, UserId,
};
use headrace_partition::PartitionConfig;
use headrace_proto::catalog::v1::{self as records, delta::Change};
use headrace_shard::{
    Arrival, ClientRegistry, ClusterView, ConnectionKey, Hosting, Input, LinkNumber, LinksConfig,
    Memory, NodeView, RetentionConfig, Shard, ShardConfig, WebSocketConfig,
};
use headrace_ticket::Key;
use headrace_wire::{
    Command, Identifier, Partitioning, Status,
    batch::BatchBuilder,
    frame::{RESPONSE_HEADER_BYTES, ResponseHeader},
};

use crate::world::node::{Node, Truth};

/// A user without permissions.
pub const WITHOUT_RIGHTS: u32 = 1;
/// Shared secret of the cluster.
pub const SECRET: &[u8] = b"a secret of the cluster";
/// Time that an unsent call waits for a node.
pub const TIMEOUT_MICROS: u64 = 2_000_000;
/// Time of silence after which a link with unanswered calls is closed.
pub const SILENCE_MICROS: u64 = 5_000_000;
/// Maximum bytes in flight on one link.
pub const IN_FLIGHT_BYTES_MAX: u64 = 64 * 1024;

/// Peer of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Client,
    Node(usize),
}

/// A connection of the gateway, and the bytes on it.
pub struct Socket {
    key: ConnectionKey,
    pub end: End,
    /// Bytes in transit to the gateway.
    pub towards: VecDeque<u8>,
    /// Bytes in transit from the gateway.
    pub back: VecDeque<u8>,
    receive: Option<(Buffer, usize, usize)>,
    /// Buffers of a send that has not been reported as complete.
    sending: Option<Vec<Slice>>,
    /// True if the peer does not read: no send completes.
    pub is_deaf: bool,
    /// True if the peer has closed the connection, after the bytes in transit.
    pub is_ended: bool,
    /// True if the gateway has closed the connection.
    pub is_closed: bool,
}

pub struct World {
    shard: Shard,
    clients: ClientRegistry,
    inputs: VecDeque<Input>,
    writer: CatalogWriter,
    pub now: u64,
    pub sockets: Vec<Socket>,
    pub nodes: Vec<Node>,
    pub truth: Truth,
    /// Connection attempts in progress.
    pub connecting: VecDeque<(LinkNumber, String)>,
    /// Nodes that are not running.
    pub down: Vec<usize>,
    /// Nodes to which attempts to connect have no result.
    pub silent: Vec<usize>,
    /// Decides how bytes are split, and the order of events; `None`: everything at once, in order.
    pub random: Option<fastrand::Rng>,
    pub reports: Vec<String>,
    /// True if nothing reaches the nodes, and no send completes.
    pub is_held: bool,
    holders: BTreeMap<Namespace, NodeId>,
    /// Newest version of the catalog, which not every process has.
    pub newest: u64,
}

pub fn partition(id: u32) -> Namespace {
    Namespace::new(StreamId(0), TopicId(0), PartitionId(id)).unwrap()
}

/// A response as a client sees it.
#[derive(Debug, PartialEq, Eq)]
pub struct Reply {
    pub status: Status,
    pub payload: Vec<u8>,
}

impl World {
    /// A gateway and two nodes, with a topic of this many partitions, all on the first node.
    pub fn new(partitions: u32) -> Self {
        Self::with(partitions, None, 1 << 30)
    }

    /// A world in which clients silent for longer than 1.2 times this interval are removed from the registry.
    pub fn with_heartbeat(partitions: u32, heartbeat_interval_micros: u64) -> Self {
        Self::with(partitions, Some(heartbeat_interval_micros), 1 << 30)
    }

    /// A world whose gateway has this much memory.
    pub fn with_memory(partitions: u32, bytes: u64) -> Self {
        Self::with(partitions, None, bytes)
    }

    fn with(partitions: u32, heartbeat_interval_micros: Option<u64>, memory_bytes: u64) -> Self {
        let writer = CatalogWriter::new(Catalog::default());
        let nowhere = partition(0);
        let node = NodeView {
            name: "gateway".into(),
            ip: "127.0.0.1".into(),
            tcp_port: 8090,
            quic_port: 0,
            http_port: 0,
            websocket_port: 0,
        };
        let config = ShardConfig {
            shard: ShardId(0),
            shards: NonZeroU16::MIN,
            hosting: Hosting::Nothing,
            links: LinksConfig {
                unsent_timeout_micros: TIMEOUT_MICROS,
                silence_timeout_micros: SILENCE_MICROS,
                in_flight_bytes_max: IN_FLIGHT_BYTES_MAX,
            },
            ticket_key: Some(Key::derive(SECRET, "cluster")),
            ticket_seconds_max: 86_400,
            partition: PartitionConfig::new(nowhere, 0),
            connections_max: 1024,
            send_payload_bytes_max: 4 << 20,
            websocket: WebSocketConfig::default(),
            heartbeat_interval_micros,
            login_timeout_micros: Some(10_000_000),
            wait_micros_max: 30_000_000,
            waited_partitions_max: 512,
            gateway: 77,
            retention: RetentionConfig::default(),
            tracing: true,
            cluster: ClusterView {
                name: "cluster".into(),
                nodes: vec![node],
            },
            version: (0, 8, 0),
        };
        let clients = ClientRegistry::default();
        let shard = Shard::new(
            Arc::new(config),
            writer.reader(),
            clients.clone(),
            Memory::new(BufferPool::new(memory_bytes)),
            7,
        );
        let mut world = Self {
            shard,
            clients,
            inputs: VecDeque::new(),
            writer,
            now: 1_700_000_000_000_000,
            sockets: Vec::new(),
            nodes: vec![Node::new(1), Node::new(2)],
            truth: Truth::default(),
            connecting: VecDeque::new(),
            down: Vec::new(),
            silent: Vec::new(),
            random: None,
            reports: Vec::new(),
            is_held: false,
            holders: BTreeMap::new(),
            newest: 0,
        };
        let user = |id, username: &str| {
            Change::UserPut(records::User {
                id,
                username: username.into(),
                created_at_micros: 1,
                status: records::UserStatus::Active.into(),
                permissions: None,
                ..Default::default()
            })
        };
        world.publish(vec![
            user(0, "root"),
            user(WITHOUT_RIGHTS, "limited"),
            node_record(1, 1),
            node_record(2, 1),
            Change::StreamPut(records::Stream {
                id: 0,
                name: "s".into(),
                created_at_micros: 2,
                incarnation: 2,
            }),
            Change::TopicPut(topic(partitions, 3)),
        ]);
        let on_first = vec![1; partitions as usize];
        let change = world.place(&on_first);
        world.publish(vec![change]);
        world.follow_all();
        world
    }

    /// Version of the gateway's catalog.
    pub fn version(&self) -> u64 {
        self.writer.current().version()
    }

    /// Change the gateway's catalog.
    pub fn publish(&mut self, changes: Vec<Change>) {
        let deltas = changes.into_iter().map(|change| records::Delta {
            change: Some(change),
        });
        let update = records::Update {
            version: self.version() + 1,
            deltas: deltas.collect(),
        };
        self.writer.publish_update(&update).expect("a sound update");
        self.newest = self.newest.max(update.version);
        self.inputs.push_back(Input::CatalogChanged);
        self.run();
    }

    /// Place the partitions on these nodes from the next version on. Returns the change for the gateway's catalog.
    pub fn place(&mut self, nodes: &[u32]) -> Change {
        let placed = (0..).zip(nodes);
        self.holders = placed
            .map(|(id, node)| (partition(id), NodeId(*node)))
            .collect();
        let partitions = nodes.iter().map(|node| records::PartitionPlacement {
            node_ids: vec![*node],
            holder_node_id: *node,
            ..Default::default()
        });
        self.newest += 1;
        self.truth.place(self.newest, self.holders.clone());
        Change::TopicPlacementPut(records::TopicPlacement {
            partitions: partitions.collect(),
            ..Default::default()
        })
    }

    /// Place the partitions, and give the gateway and every node the catalog.
    pub fn place_everywhere(&mut self, nodes: &[u32]) {
        let change = self.place(nodes);
        self.publish(vec![change]);
        self.follow_all();
    }

    /// Give every node the newest catalog.
    pub fn follow_all(&mut self) {
        for node in 0..self.nodes.len() {
            self.follow(node);
        }
    }

    /// Give a node the newest catalog.
    pub fn follow(&mut self, node: usize) {
        let newest = self.version();
        self.nodes[node].follow(newest, &self.truth);
        self.run();
    }

    /// Connect a new client, logged in as root.
    pub fn client(&mut self) -> usize {
        self.client_of(0)
    }

    /// Connect a new client and log it in.
    pub fn client_of(&mut self, user: u32) -> usize {
        let socket = self.socket(End::Client);
        let address = SocketAddr::from(([127, 0, 0, 1], 5000));
        self.inputs.push_back(Input::Accepted {
            connection: self.sockets[socket].key,
            arrival: Arrival {
                user: Some(UserId(user)),
                ..Arrival::tcp(address)
            },
        });
        self.run();
        socket
    }

    fn socket(&mut self, end: End) -> usize {
        let index = self.sockets.len();
        self.sockets.push(Socket {
            key: ConnectionKey {
                index: u32::try_from(index).unwrap(),
                generation: 1,
            },
            end,
            towards: VecDeque::new(),
            back: VecDeque::new(),
            receive: None,
            sending: None,
            is_deaf: false,
            is_ended: false,
            is_closed: false,
        });
        index
    }

    /// Send a request.
    pub fn request(&mut self, client: usize, command: &Command<'_>) {
        let mut frame = Vec::new();
        command.try_encode_frame(&mut frame).expect("representable");
        self.sockets[client].towards.extend(frame);
        self.run();
    }

    pub fn ask(&mut self, client: usize, command: &Command<'_>) -> Reply {
        self.request(client, command);
        self.reply(client)
    }

    /// Send a batch.
    pub fn send(&mut self, client: usize, partition: u32, payloads: &[&[u8]]) {
        let mut batch = BatchBuilder::new();
        for payload in payloads {
            batch.push(0, 1, payload, &[]).expect("small");
        }
        let request = batch.request(
            Identifier::Named("s"),
            Identifier::Numeric(0),
            Partitioning::PartitionId(partition),
        );
        self.request(client, &Command::SendMessages(request));
    }

    pub fn reply(&mut self, client: usize) -> Reply {
        self.try_reply(client).expect("a response")
    }

    /// Return the next response, if there is one.
    pub fn try_reply(&mut self, client: usize) -> Option<Reply> {
        let back = &mut self.sockets[client].back;
        let header = ResponseHeader::parse(
            back.make_contiguous()
                .first_chunk::<RESPONSE_HEADER_BYTES>()?,
        );
        let end = RESPONSE_HEADER_BYTES + header.length as usize;
        let payload = back.drain(..end).skip(RESPONSE_HEADER_BYTES).collect();
        Some(Reply {
            status: header.status,
            payload,
        })
    }

    /// Numbers of the clients in the registry.
    pub fn registered(&self) -> Vec<u32> {
        let clients = self.clients.clients();
        clients.iter().map(|client| client.id.0).collect()
    }

    pub fn is_closed(&self, client: usize) -> bool {
        self.sockets[client].is_closed
    }

    /// Links to a node that neither side has closed.
    pub fn links_to(&self, node: usize) -> Vec<usize> {
        let is_one = |socket: &&Socket| {
            socket.end == End::Node(node) && !socket.is_closed && !socket.is_ended
        };
        (self.sockets.iter().filter(is_one))
            .map(|socket| socket.key.index as usize)
            .collect()
    }

    /// Advance the time, in steps of the host's ticks.
    pub fn pass(&mut self, micros: u64) {
        let until = self.now + micros;
        while self.now < until {
            self.now = until.min(self.now + 100_000);
            let mut effects = Vec::new();
            self.shard.tick(Timestamp(self.now), &mut effects);
            self.execute(effects);
            self.run();
        }
    }

    /// Begin shutdown.
    pub fn shut_down(&mut self) {
        self.inputs.push_back(Input::Shutdown);
        self.run();
    }

    /// Complete the shutdown that [`World::shut_down`] began.
    pub fn close_partitions(&mut self) {
        self.inputs.push_back(Input::ClosePartitions);
        self.run();
    }

    pub fn is_drained(&self) -> bool {
        self.shard.is_drained()
    }

    pub fn is_stopped(&self) -> bool {
        self.shard.is_stopped()
    }
}

/// Catalog record of a running node.
pub fn node_record(id: u32, incarnation: u64) -> Change {
    Change::NodePut(records::Node {
        id,
        name: format!("n{id}"),
        incarnation,
        binary_address: format!("node-{id}"),
        grpc_address: String::new(),
        shards: 1,
        registered_at_micros: 1,
        status: records::NodeStatus::Live.into(),
        is_draining: false,
    })
}

/// Catalog record of the topic.
pub fn topic(partitions: u32, incarnation: u64) -> records::Topic {
    records::Topic {
        name: "t".into(),
        created_at_micros: 3,
        incarnation,
        compression: records::CompressionAlgorithm::None.into(),
        message_expiry_micros: u64::MAX,
        max_size_bytes: u64::MAX,
        replication_factor: 1,
        partitions: (0..partitions)
            .map(|id| records::Partition {
                id,
                created_at_micros: 3,
                incarnation,
            })
            .collect(),
        ..Default::default()
    }
}
