//! Host without a machine: two shards, files in memory, and a control plane with one user.

mod hosting;

use std::{collections::VecDeque, net::SocketAddr, num::NonZeroU16, sync::Arc};

use headrace_buffer::{Buffer, BufferPool, Slice};
use headrace_catalog::{Catalog, CatalogWriter};
use headrace_log::storage::StorageCompletion;
use headrace_model::{
    Namespace, PartitionId, PartitionStatistics, ShardId, StreamId, Timestamp, TopicId, UserId,
};
use headrace_partition::PartitionConfig;
use headrace_proto::{
    catalog::v1 as records,
    control::v1::{self as control, reply::Body, request::Operation},
};
use headrace_shard::{
    Arrival, ClientRegistry, ClusterView, ConnectionKey, Effect, Hosting, Input, LinksConfig, Mail,
    Memory, Meter, NodeView, Origin, RetentionConfig, Shard, ShardConfig, WebSocketConfig,
};
use headrace_ticket::Key;
use headrace_wire::{
    Command, Identifier, Partitioning, Status,
    batch::BatchBuilder,
    command::LoginUser,
    frame::{RESPONSE_HEADER_BYTES, ResponseHeader},
};

use crate::world::files::Files;

/// Id of this run of the process.
pub const GATEWAY: u64 = 77;

/// Password of the only user, who has all permissions.
pub const PASSWORD: &str = "secret";

#[allow(
    clippy::struct_excessive_bools,
    reason = "independent facts about what the client does"
)]
struct Link {
    key: ConnectionKey,
    shard: usize,
    /// Bytes in transit to the server.
    towards: VecDeque<u8>,
    /// Receive in flight: buffer, start, minimum.
    receive: Option<(Buffer, usize, usize)>,
    /// Bytes received from the server.
    back: Vec<u8>,
    /// True if the server has shut down its sending side.
    finished: bool,
    closed: bool,
    /// True if the client does not close after that.
    stays: bool,
    /// True while sent data stays in transit.
    sends_held: bool,
    /// Send that is held back.
    held_send: Option<Vec<Slice>>,
}

/// Limit of bytes in the write queue, above which batches have to wait.
pub const QUEUE_BYTES_MAX: u64 = 64 * 1024;

/// Maximum wait for messages.
pub const WAIT_MICROS_MAX: u64 = 30_000_000;
/// Maximum lifetime of a ticket.
pub const TICKET_SECONDS_MAX: u64 = 86_400;
/// Maximum number of partitions that the requests of one shard may wait for.
pub const WAITED_PARTITIONS_MAX: usize = 16;

/// Everything outside the shards.
#[allow(
    clippy::struct_excessive_bools,
    reason = "independent facts about what is held up"
)]
pub struct World {
    shards: Vec<Shard>,
    pool: BufferPool,
    inputs: Vec<VecDeque<Input>>,
    links: Vec<Link>,
    files: Files,
    writer: CatalogWriter,
    now: u64,
    /// True while storage operations are held back.
    pub storage_held: bool,
    held: VecDeque<(usize, Namespace, StorageCompletion)>,
    /// True while mail between the shards is held back.
    pub mail_held: bool,
    held_mail: VecDeque<(usize, Mail)>,
    /// True while no shard has room for a connection of another.
    pub moves_fail: bool,
    /// Number of mails about watched partitions so far.
    pub watch_mails: usize,
    /// One-way notices to the control plane.
    pub notices: Vec<control::Request>,
    /// Requests to the control plane.
    pub control_requests: Vec<control::Request>,
    /// True while replies of the control plane are held back.
    pub control_held: bool,
    held_replies: VecDeque<(usize, Input)>,
    /// Changes by other gateways that are delivered when the newest catalog is requested.
    pub news: Vec<records::delta::Change>,
    /// Credential of new sessions.
    pub credential: control::Credential,
    /// Reports to the operator.
    pub reports: Vec<String>,
}

/// A response as the client sees it.
#[derive(Debug, PartialEq, Eq)]
pub struct Reply {
    pub status: Status,
    pub payload: Vec<u8>,
}

impl World {
    pub fn new() -> Self {
        Self::with_heartbeat(None)
    }

    /// A world in which clients silent for longer than 1.2 times this interval are removed from the registry.
    pub fn with_heartbeat(heartbeat_interval_micros: Option<u64>) -> Self {
        let key = ticket_key();
        Self::with(
            &Hosting::Everything,
            Some(&key),
            heartbeat_interval_micros,
            false,
        )
    }

    /// A world with tracing enabled.
    pub fn traced() -> Self {
        Self::with(&Hosting::Everything, Some(&ticket_key()), None, true)
    }

    /// A world whose shards host only these partitions.
    pub fn hosting(hosting: &Hosting) -> Self {
        Self::with(hosting, Some(&ticket_key()), None, true)
    }

    /// Such a world whose shards share this much memory.
    pub fn hosting_within(hosting: &Hosting, memory_bytes: u64) -> Self {
        Self::with_memory(hosting, Some(&ticket_key()), None, true, memory_bytes)
    }

    /// A world without a key for tickets.
    pub fn without_tickets() -> Self {
        Self::with(&Hosting::Everything, None, None, false)
    }

    fn with(
        hosting: &Hosting,
        ticket_key: Option<&Key>,
        heartbeat_interval_micros: Option<u64>,
        tracing: bool,
    ) -> Self {
        Self::with_memory(
            hosting,
            ticket_key,
            heartbeat_interval_micros,
            tracing,
            1 << 30,
        )
    }

    /// A world whose shards share this much memory.
    pub fn short_of_memory(memory_bytes: u64) -> Self {
        Self::with_memory(&Hosting::Everything, None, None, false, memory_bytes)
    }

    fn with_memory(
        hosting: &Hosting,
        ticket_key: Option<&Key>,
        heartbeat_interval_micros: Option<u64>,
        tracing: bool,
        memory_bytes: u64,
    ) -> Self {
        let count = NonZeroU16::new(2).unwrap();
        let writer = CatalogWriter::new(Catalog::default());
        let clients = ClientRegistry::default();
        let memory = Memory::new(BufferPool::new(memory_bytes));
        let nowhere = Namespace::new(StreamId(0), TopicId(0), PartitionId(0)).unwrap();
        let node = NodeView {
            name: "node".into(),
            ip: "127.0.0.1".into(),
            tcp_port: 8090,
            quic_port: 0,
            http_port: 0,
            websocket_port: 0,
        };
        let shards = (0..2)
            .map(|index| {
                let config = ShardConfig {
                    shard: ShardId(index),
                    shards: count,
                    hosting: hosting.clone(),
                    links: LinksConfig::default(),
                    ticket_key: ticket_key.cloned(),
                    ticket_seconds_max: TICKET_SECONDS_MAX,
                    partition: PartitionConfig {
                        queue_bytes_max: QUEUE_BYTES_MAX,
                        ..PartitionConfig::new(nowhere, 0)
                    },
                    connections_max: 16,
                    send_payload_bytes_max: 4 << 20,
                    websocket: WebSocketConfig::default(),
                    heartbeat_interval_micros,
                    login_timeout_micros: Some(10_000_000),
                    wait_micros_max: WAIT_MICROS_MAX,
                    waited_partitions_max: WAITED_PARTITIONS_MAX,
                    gateway: GATEWAY,
                    retention: RetentionConfig::default(),
                    tracing,
                    cluster: ClusterView {
                        name: "single-node".into(),
                        nodes: vec![node.clone()],
                    },
                    version: (0, 8, 0),
                };
                Shard::new(
                    Arc::new(config),
                    writer.reader(),
                    clients.clone(),
                    memory.clone(),
                    7,
                )
            })
            .collect();
        let mut world = Self {
            shards,
            pool: memory.pool().clone(),
            inputs: vec![VecDeque::new(), VecDeque::new()],
            links: Vec::new(),
            files: Files::default(),
            writer,
            now: 1_700_000_000_000_000,
            storage_held: false,
            held: VecDeque::new(),
            mail_held: false,
            held_mail: VecDeque::new(),
            moves_fail: false,
            watch_mails: 0,
            notices: Vec::new(),
            control_requests: Vec::new(),
            control_held: false,
            held_replies: VecDeque::new(),
            news: Vec::new(),
            credential: control::Credential::default(),
            reports: Vec::new(),
        };
        world.publish(vec![records::delta::Change::UserPut(records::User {
            id: 0,
            username: "root".into(),
            created_at_micros: 1,
            status: records::UserStatus::Active.into(),
            password_version: 1,
            permissions: None,
        })]);
        world
    }

    /// Publish the next version of the catalog.
    pub fn publish(&mut self, changes: Vec<records::delta::Change>) {
        self.announce(changes);
        self.run();
    }

    fn announce(&mut self, changes: Vec<records::delta::Change>) {
        let update = records::Update {
            version: self.writer.current().version() + 1,
            deltas: changes
                .into_iter()
                .map(|change| records::Delta {
                    change: Some(change),
                })
                .collect(),
        };
        self.writer.publish_update(&update).expect("a sound update");
        for inputs in &mut self.inputs {
            inputs.push_back(Input::CatalogChanged);
        }
    }

    /// Stream 0 `s` with topic 0 `t` of `partitions` partitions.
    pub fn with_topic(mut self, partitions: u32) -> Self {
        self.publish(Self::stream_and_topic(partitions));
        self
    }

    /// Catalog changes that create the stream and the topic.
    pub fn stream_and_topic(partitions: u32) -> Vec<records::delta::Change> {
        let stream = records::Stream {
            id: 0,
            name: "s".into(),
            created_at_micros: 2,
            incarnation: 2,
        };
        vec![
            records::delta::Change::StreamPut(stream),
            records::delta::Change::TopicPut(Self::topic(partitions, 3, 0)),
        ]
    }

    /// Catalog record of the topic.
    pub fn topic(partitions: u32, incarnation: u64, purge_epoch: u64) -> records::Topic {
        records::Topic {
            stream_id: 0,
            id: 0,
            name: "t".into(),
            created_at_micros: 3,
            incarnation,
            compression: records::CompressionAlgorithm::None.into(),
            message_expiry_micros: u64::MAX,
            max_size_bytes: u64::MAX,
            replication_factor: 1,
            durability: 0,
            purge_epoch,
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

    /// Open a connection to `shard`.
    pub fn connect(&mut self, shard: usize) -> usize {
        self.connect_by(shard, Arrival::tcp)
    }

    /// Open a connection to `shard` with this arrival.
    pub fn connect_by(
        &mut self,
        shard: usize,
        arrival: impl FnOnce(SocketAddr) -> Arrival,
    ) -> usize {
        let index = u32::try_from(self.links.len()).unwrap();
        let key = ConnectionKey {
            index,
            generation: 1,
        };
        let address = SocketAddr::from(([127, 0, 0, 1], u16::try_from(5000 + index).unwrap()));
        self.links.push(Link {
            key,
            shard,
            towards: VecDeque::new(),
            receive: None,
            back: Vec::new(),
            finished: false,
            closed: false,
            stays: false,
            sends_held: false,
            held_send: None,
        });
        self.inputs[shard].push_back(Input::Accepted {
            connection: key,
            arrival: arrival(address),
        });
        self.run();
        self.links.len() - 1
    }

    /// Open an in-process connection on behalf of `user`.
    pub fn in_process(&mut self, shard: usize, user: u32) -> usize {
        self.connect_by(shard, |_| Arrival::in_process(UserId(user)))
    }

    /// Open a connection and log in.
    pub fn login(&mut self, shard: usize) -> usize {
        let link = self.connect(shard);
        self.request(link, &login(PASSWORD));
        let reply = self.reply(link);
        assert_eq!(reply.status, Status::OK);
        link
    }

    /// Send bytes, and run until nothing happens any more.
    pub fn write(&mut self, link: usize, bytes: &[u8]) {
        self.links[link].towards.extend(bytes);
        self.run();
    }

    /// Send a request.
    pub fn request(&mut self, link: usize, command: &Command<'_>) {
        let mut frame = Vec::new();
        command.try_encode_frame(&mut frame).expect("representable");
        self.write(link, &frame);
    }

    /// Send a request and return its response.
    pub fn ask(&mut self, link: usize, command: &Command<'_>) -> Reply {
        self.request(link, command);
        self.reply(link)
    }

    /// Send one batch of these payloads and return the status.
    pub fn send(&mut self, link: usize, partition: u32, payloads: &[&[u8]]) -> Status {
        let batch = batch(payloads);
        let request = batch.request(
            Identifier::Named("s"),
            Identifier::Numeric(0),
            Partitioning::PartitionId(partition),
        );
        self.ask(link, &Command::SendMessages(request)).status
    }

    /// Return the next response; panics if there is none.
    pub fn reply(&mut self, link: usize) -> Reply {
        self.try_reply(link).expect("a response")
    }

    /// Return the next response, if there is one.
    pub fn try_reply(&mut self, link: usize) -> Option<Reply> {
        let back = &mut self.links[link].back;
        let header = ResponseHeader::parse(back.first_chunk::<RESPONSE_HEADER_BYTES>()?);
        let end = RESPONSE_HEADER_BYTES + header.length as usize;
        assert!(back.len() >= end, "responses are sent whole");
        let payload = back[RESPONSE_HEADER_BYTES..end].to_vec();
        back.drain(..end);
        Some(Reply {
            status: header.status,
            payload,
        })
    }

    /// Number of bytes that the server has not received.
    pub fn bytes_towards(&self, link: usize) -> usize {
        self.links[link].towards.len()
    }

    /// Version of the catalog.
    pub fn version(&self) -> u64 {
        self.writer.current().version()
    }

    /// Take all received bytes that were not read yet.
    pub fn take_back(&mut self, link: usize) -> Vec<u8> {
        std::mem::take(&mut self.links[link].back)
    }

    /// Return the shard that owns the connection now.
    pub fn shard_of(&self, link: usize) -> usize {
        self.links[link].shard
    }

    /// Return whether the server has closed the connection.
    pub fn is_closed(&self, link: usize) -> bool {
        self.links[link].closed
    }

    /// Return whether the server has shut down its sending side.
    pub fn is_finished(&self, link: usize) -> bool {
        self.links[link].finished
    }

    /// Keep this client connected after the server has shut down its sending side.
    pub fn stay(&mut self, link: usize) {
        self.links[link].stays = true;
    }

    /// Number of bytes in live buffers.
    pub fn memory_in_use(&self) -> u64 {
        self.pool.statistics().in_use_bytes
    }

    /// Advance the time.
    pub fn pass(&mut self, micros: u64) {
        self.now += micros;
        for shard in 0..self.shards.len() {
            let mut effects = Vec::new();
            self.shards[shard].tick(Timestamp(self.now), &mut effects);
            for effect in effects {
                self.execute(shard, effect);
            }
        }
        self.run();
    }

    /// Statistics of a shard.
    pub fn meter(&self, shard: usize) -> &Meter {
        self.shards[shard].meter()
    }

    /// Return whether a partition has files.
    pub fn has_directory(&self, namespace: Namespace) -> bool {
        self.files.has_directory(namespace)
    }

    /// Current time.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Earliest deadline of a waiting request on any shard.
    pub fn next_deadline(&self) -> Option<u64> {
        let deadlines = self.shards.iter().filter_map(Shard::next_deadline);
        deadlines.map(|deadline| deadline.0).min()
    }

    /// Close the client's end.
    pub fn hang_up(&mut self, link: usize) {
        let shard = self.links[link].shard;
        let (buffer, ..) = self.links[link].receive.take().expect("a receive");
        self.inputs[shard].push_back(Input::Received {
            connection: self.links[link].key,
            buffer,
            count: None,
        });
        self.run();
    }

    /// Begin the shutdown of every shard.
    pub fn shut_down(&mut self) {
        for inputs in &mut self.inputs {
            inputs.push_back(Input::Shutdown);
        }
        self.run();
    }

    /// Complete the shutdown that [`World::shut_down`] began.
    pub fn close_partitions(&mut self) {
        assert!(self.shards.iter().all(Shard::is_drained));
        self.end_shutdown();
    }

    /// End the shutdown that [`World::shut_down`] began, although connections may be left.
    pub fn end_shutdown(&mut self) {
        for inputs in &mut self.inputs {
            inputs.push_back(Input::ClosePartitions);
        }
        self.run();
    }

    /// Return whether every shard has stopped.
    pub fn is_stopped(&self) -> bool {
        self.shards.iter().all(Shard::is_stopped)
    }
}

/// Key that signs the tickets of the world's cluster.
pub fn ticket_key() -> Key {
    Key::derive(b"a secret of the cluster", "cluster")
}

/// A login as root.
pub fn login(password: &str) -> Command<'_> {
    Command::LoginUser(LoginUser {
        username: "root",
        password,
        version: "",
        context: "",
    })
}

/// A batch of these payloads.
pub fn batch(payloads: &[&[u8]]) -> BatchBuilder {
    let mut batch = BatchBuilder::new();
    for payload in payloads {
        batch.push(0, 1, payload, &[]).expect("small");
    }
    batch
}

impl World {
    fn control_reply(&self, request: &control::Request) -> control::Reply {
        match &request.operation {
            Some(Operation::LoginWithPassword(login)) if login.password == PASSWORD.as_bytes() => {
                control::Reply {
                    status: 0,
                    body: Some(Body::UserId(0)),
                    credential: Some(self.credential),
                }
            }
            Some(Operation::LoginWithPassword(_)) => control::Reply {
                status: Status::INVALID_CREDENTIALS.0,
                ..Default::default()
            },
            Some(Operation::ChangePassword(_)) => control::Reply {
                credential: Some(control::Credential {
                    password_version: self.credential.password_version + 1,
                    ..Default::default()
                }),
                ..Default::default()
            },
            _ => control::Reply::default(),
        }
    }
}
