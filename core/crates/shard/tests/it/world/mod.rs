//! Host without a machine: processes with shards, models of nodes, files in memory, a control plane, clients, and the
//! bytes between them.
//!
//! There are three kinds of worlds: a process with two shards (`World::new`), a gateway in front of two models of nodes
//! (`World::gateway`), and a gateway in front of two nodes with shards (`World::cluster`).

pub mod acknowledged;
mod clients;
mod connections;
mod control;
mod effects;
mod files;
pub mod node;
mod process;
mod records;
mod requests;
mod shards;
mod turns;
mod wire;

use std::collections::{BTreeMap, VecDeque};

use headrace_catalog::{Catalog, CatalogWriter};
use headrace_log::storage::StorageRequest;
use headrace_model::Namespace;
use headrace_proto::{
    catalog::v1::{self as catalog, delta::Change},
    control::v1 as control_plane,
};
use headrace_shard::{ConnectionKey, Hosting, Input, LinkNumber, Mail, Origin};

pub use self::{
    clients::Reply,
    process::{
        CONNECTIONS_MAX, GATEWAY_ID, IN_FLIGHT_BYTES_MAX, MEMBER_SILENCE_MICROS, Process,
        SILENCE_MICROS, Setup, TICKET_SECONDS_MAX, TIMEOUT_MICROS, WAIT_MICROS_MAX,
        WAITED_PARTITIONS_MAX, ticket_key,
    },
    records::{WITHOUT_RIGHTS, owner_of, partition, partition_of, placed, user},
    requests::{PASSWORD, batch, consumer, login, offset_path, poll_first, polling, to_partition},
};
use self::{
    files::Files,
    node::{Node, Truth},
    wire::Wire,
};

/// Index of the only process, or of the gateway's.
pub const GATEWAY: usize = 0;
/// Ids of the nodes, and indexes of their processes.
pub const NODES: [u32; 2] = [1, 2];
/// Number of shards of a process that hosts partitions.
const SHARDS: u16 = 2;
/// Time between two ticks of a host.
const TICK_MICROS: u64 = 100_000;

/// Everything outside the shards.
#[allow(
    clippy::struct_excessive_bools,
    reason = "independent facts about what is held up"
)]
pub struct World {
    pub processes: Vec<Process>,
    /// Models of nodes, by id.
    nodes: BTreeMap<u32, Node>,
    pub truth: Truth,
    /// Newest catalog, which processes may not have received yet.
    catalog: CatalogWriter,
    /// Node of each partition.
    placed: Vec<u32>,
    pub now: u64,
    tick_micros: u64,
    /// Decides how bytes are split, and the order of events, unless the world is calm.
    pub random: fastrand::Rng,
    /// True if everything happens at once, in order.
    pub is_calm: bool,
    pub wires: Vec<Wire>,
    /// Wire and side of each connection of a process.
    ends: BTreeMap<(usize, ConnectionKey), (usize, usize)>,
    /// Connection attempts in progress.
    connecting: VecDeque<(usize, LinkNumber, String)>,
    /// Nodes that are not running.
    pub down: Vec<u32>,
    /// Nodes to which attempts to connect have no result.
    pub silent: Vec<u32>,
    /// True if nothing reaches the nodes, and no send to one completes.
    pub is_held: bool,
    /// True while no shard has room for a connection of another.
    pub moves_fail: bool,
    files: Files,
    /// Process, shard, partition and operation, in the order of the requests.
    storage: VecDeque<(usize, usize, Namespace, StorageRequest)>,
    /// True while storage operations are held back.
    pub storage_held: bool,
    /// True if storage operations are delayed at random.
    pub is_storage_slow: bool,
    held_mail: VecDeque<(usize, usize, Mail)>,
    /// True while mail between shards is held back.
    pub mail_held: bool,
    /// Number of mails about watched partitions so far.
    pub watch_mails: usize,
    /// One-way notices to the control plane.
    pub notices: Vec<control_plane::Request>,
    /// All requests to the control plane.
    pub control_requests: Vec<control_plane::Request>,
    /// True while requests to the control plane are not answered.
    pub control_held: bool,
    /// Requests that the control plane has not answered, with the shard that waits.
    pub asked: VecDeque<(usize, usize, Origin, control_plane::Request)>,
    /// Credential of new sessions.
    pub credential: control_plane::Credential,
    /// Reports to the operator, each behind its level.
    pub reports: Vec<String>,
}

impl World {
    /// A process with two shards that host everything.
    pub fn new() -> Self {
        Self::of(Setup::default())
    }

    /// Such a process with tracing enabled.
    pub fn traced() -> Self {
        Self::hosting(&Hosting::Everything)
    }

    /// A traced process whose shards host only these partitions.
    pub fn hosting(hosting: &Hosting) -> Self {
        Self::of(Setup {
            hosting: hosting.clone(),
            tracing: true,
            ..Setup::default()
        })
    }

    /// A process.
    pub fn of(setup: Setup) -> Self {
        Self {
            tick_micros: u64::MAX,
            ..Self::with(vec![setup], 7)
        }
    }

    /// A gateway, and models of two nodes, with a topic of this many partitions, all on the first node.
    pub fn gateway(partitions: u32) -> Self {
        Self::gateway_of(partitions, Setup::gateway())
    }

    /// Such a world with another gateway.
    pub fn gateway_of(partitions: u32, setup: Setup) -> Self {
        let mut world = Self::with(vec![setup], 7);
        world.nodes = NODES.map(|id| (id, Node::new(id))).into();
        world.begin_placed(partitions);
        world
    }

    /// A gateway and two nodes with shards, with a topic of this many partitions, all on the first node.
    pub fn cluster(seed: u64, partitions: u32) -> Self {
        let nodes = NODES.map(|id| Setup {
            hosting: Hosting::Placed {
                node: format!("n{id}").into(),
            },
            ..Setup::default()
        });
        let mut world = Self::with([vec![Setup::gateway()], nodes.into()].concat(), seed);
        world.begin_placed(partitions);
        world
    }

    fn with(setups: Vec<Setup>, seed: u64) -> Self {
        let processes = setups.into_iter().map(|setup| Process::new(setup, seed));
        let mut world = Self {
            processes: processes.collect(),
            nodes: BTreeMap::new(),
            truth: Truth::default(),
            catalog: CatalogWriter::new(Catalog::default()),
            placed: Vec::new(),
            now: 1_700_000_000_000_000,
            tick_micros: TICK_MICROS,
            random: fastrand::Rng::with_seed(seed),
            is_calm: true,
            wires: Vec::new(),
            ends: BTreeMap::new(),
            connecting: VecDeque::new(),
            down: Vec::new(),
            silent: Vec::new(),
            is_held: false,
            moves_fail: false,
            files: Files::default(),
            storage: VecDeque::new(),
            storage_held: false,
            is_storage_slow: false,
            held_mail: VecDeque::new(),
            mail_held: false,
            watch_mails: 0,
            notices: Vec::new(),
            control_requests: Vec::new(),
            control_held: false,
            asked: VecDeque::new(),
            credential: control_plane::Credential::default(),
            reports: Vec::new(),
        };
        world.publish(vec![user(0, "root", None)]);
        world
    }

    fn begin_placed(&mut self, partitions: u32) {
        let mut changes = vec![
            user(WITHOUT_RIGHTS, "limited", None),
            self.node_record(1, 1),
            self.node_record(2, 1),
        ];
        changes.extend(Self::stream_and_topic(partitions));
        self.change(changes);
        self.place_everywhere(&vec![1; partitions as usize]);
    }

    /// Stream 0 `s` with topic 0 `t` of `partitions` partitions.
    pub fn with_topic(mut self, partitions: u32) -> Self {
        self.publish(Self::stream_and_topic(partitions));
        self
    }

    /// Version of the newest catalog.
    pub fn version(&self) -> u64 {
        self.catalog.current().version()
    }

    /// Change the catalog; every process will receive the change.
    pub fn change(&mut self, changes: Vec<Change>) {
        let deltas = changes.into_iter().map(|change| catalog::Delta {
            change: Some(change),
        });
        let update = catalog::Update {
            version: self.version() + 1,
            deltas: deltas.collect(),
        };
        (self.catalog.publish_update(&update)).expect("a sound update");
        for process in &mut self.processes {
            process.news.push_back(update.clone());
        }
    }

    /// Change the catalog, and give it to every process.
    pub fn publish(&mut self, changes: Vec<Change>) {
        self.change(changes);
        self.hear_all();
    }

    /// Give every process the newest catalog.
    pub fn hear_all(&mut self) {
        for process in &mut self.processes {
            while process.hear() {}
        }
        self.run();
    }

    /// Send a process the newest catalog as a snapshot instead of changes, as may happen at any time.
    pub fn renew(&mut self, process: usize) {
        let snapshot = self.catalog.current().to_snapshot();
        self.processes[process].renew(&snapshot);
    }

    /// Place the partitions on these nodes. Every process will receive the change.
    pub fn place(&mut self, nodes: &[u32]) {
        self.placed = nodes.to_vec();
        self.change(vec![placed(nodes)]);
        self.truth.place(self.version(), nodes);
    }

    /// Place the partitions, and give every process and every model of a node the catalog.
    pub fn place_everywhere(&mut self, nodes: &[u32]) {
        self.place(nodes);
        self.hear_all();
        self.follow_all();
    }

    /// Move a partition to the other node. Its present node closes it before any other process receives the change:
    /// until then the files belong to that node.
    pub fn move_partition(&mut self, id: usize) {
        let from = self.placed[id];
        let mut nodes = self.placed.clone();
        nodes[id] = 3 - from;
        self.place(&nodes);
        let from = from as usize;
        while self.processes[from].hear() {}
        let manner = (self.is_calm, self.is_storage_slow);
        (self.is_calm, self.is_storage_slow) = (true, false);
        for _ in 0..20 {
            self.store();
            self.turn_of(from);
        }
        (self.is_calm, self.is_storage_slow) = manner;
    }

    /// Purge all messages. The nodes are notified at once; their storage operations may be delayed.
    pub fn purge(&mut self) {
        let partitions = u32::try_from(self.placed.len()).expect("few");
        let topic = Self::topic(partitions, 3, self.version());
        self.change(vec![Change::TopicPut(topic)]);
        for node in NODES {
            let process = node as usize;
            while self.processes[process].hear() {}
            self.turn_of(process);
        }
    }

    /// The model of a node.
    pub fn node(&mut self, id: u32) -> &mut Node {
        self.nodes.get_mut(&id).expect("a model")
    }

    /// Give a model of a node this version of the catalog.
    pub fn follow(&mut self, id: u32, version: u64) {
        let node = self.nodes.get_mut(&id).expect("a model");
        node.follow(version, &self.truth);
        self.run();
    }

    /// Give every model of a node the newest catalog.
    pub fn follow_all(&mut self) {
        for node in self.nodes.values_mut() {
            node.follow(self.catalog.current().version(), &self.truth);
        }
        self.run();
    }

    /// Crash a node and restart it with what it has written.
    pub fn restart(&mut self, node: u32) {
        let ended = node as usize;
        for wire in &mut self.wires {
            if wire.node == Some(node) {
                wire.towards[1].clear();
                wire.is_ended = [true, true];
                if let Some(end) = &mut wire.ends[1] {
                    end.is_closed = true;
                }
            }
        }
        self.storage.retain(|(process, ..)| *process != ended);
        self.processes[ended].start(self.random.u64(..));
    }

    /// Shut a node down gracefully, until it is restarted.
    pub fn stop(&mut self, node: u32) {
        let process = node as usize;
        self.processes[process].put(|| Input::Shutdown);
        for _ in 0..20 {
            self.turn_of(process);
        }
    }
}
