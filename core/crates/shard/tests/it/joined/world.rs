//! Host for three processes: a gateway, and two nodes with shared memory for files.
//!
//! The files of a partition belong to the node that hosts it: before a move that node is notified first and closes the
//! partition.

use std::{
    collections::{BTreeMap, VecDeque},
    net::SocketAddr,
};

use headrace_catalog::{Catalog, CatalogWriter};
use headrace_log::storage::{StorageCompletion, StorageRequest};
use headrace_model::{Namespace, Timestamp, UserId};
use headrace_proto::{
    catalog::v1::{self as records, delta::Change},
    control::v1 as control,
};
use headrace_shard::{Arrival, ConnectionKey, Effect, Hosting, Input, LinkNumber, Origin};
use headrace_wire::{
    Command, Status,
    frame::{RESPONSE_HEADER_BYTES, ResponseHeader},
};

use crate::joined::{
    process::{Process, partition},
    wire::{End, Wire},
};
use crate::world::files::Files;

/// Indexes of the processes.
pub const GATEWAY: usize = 0;
pub const NODES: [usize; 2] = [1, 2];
/// Number of shards of each node.
const SHARDS: u16 = 2;

pub struct World {
    pub processes: Vec<Process>,
    files: Files,
    /// True if storage operations are delayed.
    pub is_storage_slow: bool,
    /// Node, shard, partition and operation, in the order of the requests.
    storage: VecDeque<(usize, usize, Namespace, StorageRequest)>,
    pub now: u64,
    pub wires: Vec<Wire>,
    /// Wire and side of each connection key.
    ends: BTreeMap<(usize, ConnectionKey), (usize, usize)>,
    connecting: Vec<(usize, LinkNumber, String)>,
    pub random: fastrand::Rng,
    /// True if nothing is delayed.
    pub is_calm: bool,
    pub is_down: [bool; 3],
    /// Newest catalog, which processes may not have received yet.
    truth: CatalogWriter,
    placed: Vec<u32>,
    purges: u64,
    pub reports: Vec<String>,
    /// Requests of the gateway to the control plane.
    pub control: VecDeque<(Origin, control::Request)>,
    /// Notices to the control plane from all processes.
    pub notices: Vec<control::Request>,
}

/// A response as a client sees it.
pub struct Reply {
    pub status: Status,
    pub payload: Vec<u8>,
}

impl World {
    pub fn new(seed: u64, partitions: u32) -> Self {
        let hosting = |process: usize| match process {
            GATEWAY => Hosting::Nothing,
            node => Hosting::Placed {
                node: format!("n{node}").into(),
            },
        };
        let shards = |process| if process == GATEWAY { 1 } else { SHARDS };
        let mut world = Self {
            processes: (0..3)
                .map(|process| Process::new(hosting(process), shards(process), seed))
                .collect(),
            files: Files::default(),
            is_storage_slow: false,
            storage: VecDeque::new(),
            now: 1_700_000_000_000_000,
            wires: Vec::new(),
            ends: BTreeMap::new(),
            connecting: Vec::new(),
            random: fastrand::Rng::with_seed(seed),
            is_calm: true,
            is_down: [false; 3],
            truth: CatalogWriter::new(Catalog::default()),
            placed: vec![1; partitions as usize],
            purges: 0,
            reports: Vec::new(),
            control: VecDeque::new(),
            notices: Vec::new(),
        };
        world.change(vec![
            Change::UserPut(records::User {
                username: "root".into(),
                created_at_micros: 1,
                status: records::UserStatus::Active.into(),
                ..Default::default()
            }),
            node_record(1, 1),
            node_record(2, 1),
            Change::StreamPut(records::Stream {
                name: "s".into(),
                created_at_micros: 2,
                incarnation: 2,
                ..Default::default()
            }),
            Change::TopicPut(topic(partitions)),
        ]);
        let placement = placement(&world.placed);
        world.change(vec![placement]);
        world.hear_all();
        world
    }

    /// Change the catalog; every process will receive the change.
    pub fn change(&mut self, changes: Vec<Change>) {
        let deltas = changes.into_iter().map(|change| records::Delta {
            change: Some(change),
        });
        let update = records::Update {
            version: self.version() + 1,
            deltas: deltas.collect(),
        };
        self.truth.publish_update(&update).expect("a sound update");
        for process in &mut self.processes {
            process.news.push_back(update.clone());
        }
    }

    /// Version of the newest catalog.
    pub fn version(&self) -> u64 {
        self.truth.current().version()
    }

    /// Send a process the newest catalog as a snapshot instead of changes, as may happen at any time.
    pub fn renew(&mut self, process: usize) {
        let snapshot = self.truth.current().to_snapshot();
        let process = &mut self.processes[process];
        process.news.clear();
        process
            .writer
            .publish_snapshot(&snapshot)
            .expect("a sound snapshot");
        for inputs in &mut process.inputs {
            inputs.push_back(Input::CatalogChanged);
        }
    }

    /// Notify a node that its catalog has all changes up to this time.
    pub fn pass_horizon(&mut self, node: usize, horizon: u64) {
        for inputs in &mut self.processes[node].inputs {
            inputs.push_back(Input::StageHorizon(Timestamp(horizon)));
        }
    }

    /// Execute some of the storage operations of a node.
    fn store(&mut self) -> bool {
        let count = if self.is_storage_slow {
            self.random.usize(0..=self.storage.len().min(4))
        } else {
            self.storage.len()
        };
        for _ in 0..count {
            let Some((process, shard, namespace, request)) = self.storage.pop_front() else {
                break;
            };
            let completion = StorageCompletion {
                id: request.id,
                result: self.files.execute(namespace, request.operation),
            };
            self.processes[process].inputs[shard].push_back(Input::Storage {
                namespace,
                completion,
            });
        }
        count > 0
    }

    /// Move a partition to the other node. Its present node closes it before any other process receives the change.
    pub fn move_partition(&mut self, id: usize) {
        let from = self.placed[id];
        self.placed[id] = 3 - from;
        let change = placement(&self.placed);
        self.change(vec![change]);
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
        self.purges += 1;
        let purged = records::Topic {
            purge_epoch: self.purges,
            ..topic(self.placed.len().try_into().expect("few partitions"))
        };
        self.change(vec![Change::TopicPut(purged)]);
        for node in NODES {
            while self.processes[node].hear() {}
            self.turn_of(node);
        }
    }

    pub fn hear_all(&mut self) {
        for process in 0..self.processes.len() {
            while self.processes[process].hear() {}
        }
        self.run();
    }

    /// Crash a node and restart it with what it has written.
    pub fn restart(&mut self, node: usize) {
        for wire in &mut self.wires {
            let is_its = |end: &Option<End>| end.as_ref().is_some_and(|end| end.process == node);
            if wire.ends.iter().any(is_its) {
                wire.towards[1].clear();
                wire.is_ended = [true, true];
                if let Some(end) = &mut wire.ends[1] {
                    end.is_closed = true;
                }
            }
        }
        self.storage.retain(|(process, ..)| *process != node);
        let seed = self.random.u64(..);
        self.processes[node].start(SHARDS, seed);
    }

    /// Shut a node down gracefully and restart it.
    pub fn stop(&mut self, node: usize) {
        for inputs in &mut self.processes[node].inputs {
            inputs.push_back(Input::Shutdown);
        }
        for _ in 0..20 {
            self.turn_of(node);
        }
    }

    /// Return whether any node has files of a partition.
    pub fn has_directory(&self, id: u32) -> bool {
        self.files.has_directory(partition(id))
    }

    fn key(&mut self, process: usize) -> ConnectionKey {
        self.processes[process].connections += 1;
        ConnectionKey {
            index: self.processes[process].connections,
            generation: 1,
        }
    }

    /// Connect a new client to the gateway and log it in.
    pub fn client(&mut self) -> usize {
        let key = self.key(GATEWAY);
        let index = self.wires.len();
        self.wires.push(Wire::new(End::new(GATEWAY, 0, key), None));
        self.ends.insert((GATEWAY, key), (index, 0));
        self.processes[GATEWAY].inputs[0].push_back(Input::Accepted {
            connection: key,
            arrival: Arrival::in_process(UserId(0)),
        });
        index
    }

    pub fn request(&mut self, client: usize, command: &Command<'_>) {
        let mut frame = Vec::new();
        command.try_encode_frame(&mut frame).expect("representable");
        self.wires[client].towards[0].extend(frame);
    }

    pub fn try_reply(&mut self, client: usize) -> Option<Reply> {
        let back = &mut self.wires[client].towards[1];
        let head = back
            .make_contiguous()
            .first_chunk::<RESPONSE_HEADER_BYTES>()?;
        let header = ResponseHeader::parse(head);
        let end = RESPONSE_HEADER_BYTES + header.length as usize;
        let payload = back.drain(..end).skip(RESPONSE_HEADER_BYTES).collect();
        Some(Reply {
            status: header.status,
            payload,
        })
    }

    pub fn is_closed(&self, client: usize) -> bool {
        self.wires[client].ends[0].as_ref().unwrap().is_closed
    }

    /// Links without faults.
    pub fn links(&self) -> Vec<usize> {
        let is_link = |index: &usize| self.wires[*index].ends[1].is_some();
        (0..self.wires.len())
            .filter(is_link)
            .filter(|index| !self.wires[*index].is_broken())
            .collect()
    }

    /// Advance the time, in steps of the host's ticks.
    pub fn pass(&mut self, micros: u64) {
        let until = self.now + micros;
        while self.now < until {
            self.now = until.min(self.now + 100_000);
            for process in 0..self.processes.len() {
                for shard in 0..self.processes[process].shards.len() {
                    let mut effects = Vec::new();
                    let now = Timestamp(self.now);
                    self.processes[process].shards[shard].tick(now, &mut effects);
                    self.execute(process, shard, effects);
                }
            }
            self.run();
        }
    }

    /// Run until nothing happens any more, or for a few steps.
    pub fn run(&mut self) {
        if self.is_calm {
            while self.turn() {}
        } else {
            self.turn();
        }
    }

    fn turn(&mut self) -> bool {
        let mut is_busy = self.connect();
        is_busy |= self.store();
        for process in 0..self.processes.len() {
            if self.is_calm || self.random.bool() {
                is_busy |= self.turn_of(process);
            }
        }
        is_busy
    }

    /// Run one turn of each shard of a process.
    fn turn_of(&mut self, process: usize) -> bool {
        let mut is_busy = false;
        let (random, is_calm) = (&mut self.random, self.is_calm);
        let mut some = |all: usize| if is_calm { all } else { random.usize(0..=all) };
        for wire in &mut self.wires {
            for side in 0..2 {
                let Some(end) = wire.ends[side]
                    .as_ref()
                    .filter(|end| end.process == process)
                else {
                    continue;
                };
                let shard = end.shard;
                let inputs = wire.carry(side, &mut some);
                self.processes[process].inputs[shard].extend(inputs);
            }
        }
        self.now += 10;
        for shard in 0..self.processes[process].shards.len() {
            let mut effects = Vec::new();
            let now = Timestamp(self.now);
            while let Some(input) = self.processes[process].inputs[shard].pop_front() {
                is_busy = true;
                self.processes[process].shards[shard].step(now, input, &mut effects);
            }
            self.processes[process].shards[shard].end_of_turn(now, &mut effects);
            is_busy |= !effects.is_empty();
            self.execute(process, shard, effects);
        }
        is_busy
    }

    fn connect(&mut self) -> bool {
        let Some((process, link, address)) = self.connecting.pop() else {
            return false;
        };
        let node: usize = address.strip_prefix("node-").unwrap().parse().unwrap();
        let result = if self.is_down[node] {
            Err("connection refused".into())
        } else {
            let (here, there) = (self.key(process), self.key(node));
            let peer = &mut self.processes[node];
            peer.next_shard = (peer.next_shard + 1) % peer.shards.len();
            let shard = peer.next_shard;
            peer.inputs[shard].push_back(Input::Accepted {
                connection: there,
                arrival: Arrival::tcp(SocketAddr::from(([127, 0, 0, 1], 5000))),
            });
            let index = self.wires.len();
            let second = End::new(node, shard, there);
            self.wires
                .push(Wire::new(End::new(process, 0, here), Some(second)));
            self.ends.insert((process, here), (index, 0));
            self.ends.insert((node, there), (index, 1));
            Ok(here)
        };
        self.processes[process].inputs[0].push_back(Input::Connected { link, result });
        true
    }

    fn end_mut(&mut self, process: usize, key: ConnectionKey) -> &mut End {
        let (wire, side) = self.ends[&(process, key)];
        self.wires[wire].ends[side].as_mut().unwrap()
    }

    fn execute(&mut self, process: usize, shard: usize, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Receive {
                    connection,
                    buffer,
                    start,
                    minimum,
                    ..
                } => {
                    self.end_mut(process, connection).receive = Some((buffer, start, minimum));
                }
                Effect::Send { connection, slices } => {
                    self.end_mut(process, connection).is_sending = true;
                    let (wire, side) = self.ends[&(process, connection)];
                    let wire = &mut self.wires[wire];
                    if !wire.is_ended[1 - side] {
                        for slice in slices {
                            wire.towards[1 - side].extend(&*slice);
                        }
                    }
                }
                Effect::Finish { connection } => {
                    let (wire, side) = self.ends[&(process, connection)];
                    self.wires[wire].is_ended[1 - side] = true;
                }
                Effect::Close { connection } => {
                    let (wire, side) = self.ends[&(process, connection)];
                    self.end_mut(process, connection).is_closed = true;
                    self.wires[wire].is_ended[1 - side] = true;
                }
                Effect::Move {
                    connection,
                    to,
                    connection_state,
                } => {
                    let moved = self.key(process);
                    let place = self.ends.remove(&(process, connection)).unwrap();
                    self.ends.insert((process, moved), place);
                    let end = self.end_mut(process, moved);
                    end.key = moved;
                    end.shard = usize::from(to.0);
                    self.processes[process].inputs[usize::from(to.0)].push_back(Input::Adopted {
                        connection: moved,
                        connection_state,
                    });
                }
                Effect::Connect { link, address } => {
                    self.connecting.push((process, link, address.to_string()));
                }
                Effect::Mail { to, mail } => {
                    self.processes[process].inputs[usize::from(to.0)].push_back(Input::Mail(mail));
                }
                Effect::Storage { namespace, request } => {
                    assert_ne!(process, GATEWAY, "a gateway has no files");
                    self.storage.push_back((process, shard, namespace, request));
                    if !self.is_storage_slow {
                        self.store();
                    }
                }
                Effect::RemoveDirectory { namespace } => {
                    self.files.remove_directory(namespace);
                    let inputs = &mut self.processes[process].inputs[shard];
                    inputs.push_back(Input::DirectoryRemoved { namespace });
                }
                Effect::Report { message } => self.reports.push(message),
                Effect::ReleaseFiles { .. } => {}
                Effect::Notice { request } => self.notices.push(request),
                Effect::Control { origin, request } => self.control.push_back((origin, request)),
            }
        }
    }
}

/// Catalog record of a running node.
pub fn node_record(id: u32, incarnation: u64) -> Change {
    Change::NodePut(records::Node {
        id,
        name: format!("n{id}"),
        incarnation,
        binary_address: format!("node-{id}"),
        shards: SHARDS.into(),
        registered_at_micros: 1,
        status: records::NodeStatus::Live.into(),
        ..Default::default()
    })
}

fn placement(nodes: &[u32]) -> Change {
    let partitions = nodes.iter().map(|node| records::PartitionPlacement {
        node_ids: vec![*node],
        holder_node_id: *node,
        ..Default::default()
    });
    Change::TopicPlacementPut(records::TopicPlacement {
        partitions: partitions.collect(),
        ..Default::default()
    })
}

fn topic(partitions: u32) -> records::Topic {
    records::Topic {
        name: "t".into(),
        created_at_micros: 3,
        incarnation: 3,
        compression: records::CompressionAlgorithm::None.into(),
        message_expiry_micros: u64::MAX,
        max_size_bytes: u64::MAX,
        replication_factor: 1,
        partitions: (0..partitions)
            .map(|id| records::Partition {
                id,
                created_at_micros: 3,
                incarnation: 3,
            })
            .collect(),
        ..Default::default()
    }
}
