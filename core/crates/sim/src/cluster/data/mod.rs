//! Nodes that host partitions: the shards of production (`crates/shard`) with their partitions and logs, on simulated disks
//! and behind simulated connections. There is one copy of each message.
//!
//! A process crashes between two effects of a turn, or while operations on files are under way: each of those has happened
//! wholly, partly or not at all.

mod calling;
mod calls;
mod catalog;
mod client;
mod connections;
mod directory;
mod faults;
mod operations;
mod phases;
mod process;
mod turns;

use headrace_buffer::Slice;
use headrace_model::Namespace;
use headrace_shard::ConnectionKey;

use crate::checker::{PartitionMessages, StoredOffset};
use crate::cluster::{Cluster, CrashInStep, Kind};
use crate::mutants::Mutant;
use crate::options::Options;
use crate::plan::{Fault, Loss};
use crate::random::Fates;
use crate::scenario::Scenario;

use client::Client;
use directory::DataDirectories;
use process::Process;

/// Data nodes, which may have a planted bug.
#[derive(Debug)]
pub(crate) struct Data {
    pub(crate) bug: Option<Mutant>,
}

/// Event of such nodes only.
#[derive(Debug)]
pub(crate) enum DataEvent {
    /// The shards take a turn with the collected input.
    Turn { node: u8, incarnation: u64 },
    /// Work that is due by time.
    Tick { node: u8, incarnation: u64 },
    /// An operation on files takes effect.
    Executed {
        node: u8,
        incarnation: u64,
        number: u64,
    },
    /// The process learns the result of an operation.
    Completed {
        node: u8,
        incarnation: u64,
        number: u64,
    },
    /// Sent bytes have left.
    Sent {
        node: u8,
        incarnation: u64,
        connection: ConnectionKey,
    },
    /// An operator restarts the process, unless it has ended by itself.
    Restarted { node: u8, incarnation: u64 },
}

/// Part of a connection, from one side to the other.
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    /// Number among the connections of the client.
    connection: u32,
    /// Number of processes of the node before the one that sends it.
    life: usize,
    part: Part,
}

#[derive(Clone, Debug)]
enum Part {
    Opened,
    Bytes(Slice),
    Closed,
}

/// Clients of the nodes, and what is known about the partitions.
#[derive(Debug)]
pub(crate) struct DataGroup {
    clients: Vec<Client>,
    partitions: Vec<Partition>,
    /// Time since which nothing has delayed background syncs.
    calm_ns: u64,
    /// True if a sync has failed since the last start: the device lacks what the page cache has.
    has_sync_failed: bool,
}

/// A partition, and the checkers of its contents.
#[derive(Debug)]
struct Partition {
    namespace: Namespace,
    messages: PartitionMessages,
    /// Stored offsets of each client, which is a consumer.
    stored: Vec<StoredOffset>,
    /// True if its manifest was damaged, which it survives once.
    is_manifest_damaged: bool,
}

impl DataGroup {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        let options = &scenario.options;
        let clients = options.workload.clients;
        let partitions = catalog::partitions(&options.data);
        Self {
            clients: (0..clients)
                .map(|_| Client::new(options.workload.requests))
                .collect(),
            partitions: partitions
                .into_iter()
                .map(|(namespace, level)| Partition {
                    namespace,
                    messages: PartitionMessages::new(level, options.background_ns()),
                    stored: (0..clients).map(|_| StoredOffset::new()).collect(),
                    is_manifest_damaged: false,
                })
                .collect(),
            calm_ns: 0,
            has_sync_failed: false,
        }
    }
}

impl Kind for Data {
    type Event = DataEvent;
    type Request = Segment;
    type Response = Segment;
    type Group = DataGroup;
    type Storage = DataDirectories;
    type Process = Process;

    fn storage(&self, _fates: Fates, options: &Options, _replica: u8) -> DataDirectories {
        DataDirectories::new(options, self.bug)
    }

    fn receiver(event: &DataEvent) -> Option<u8> {
        match event {
            DataEvent::Turn { node, .. }
            | DataEvent::Tick { node, .. }
            | DataEvent::Completed { node, .. }
            | DataEvent::Sent { node, .. } => Some(*node),
            DataEvent::Executed { .. } | DataEvent::Restarted { .. } => None,
        }
    }

    fn handle(cluster: &mut Cluster<Self>, event: DataEvent) {
        let (DataEvent::Turn { node, incarnation }
        | DataEvent::Tick { node, incarnation }
        | DataEvent::Executed {
            node, incarnation, ..
        }
        | DataEvent::Completed {
            node, incarnation, ..
        }
        | DataEvent::Sent {
            node, incarnation, ..
        }
        | DataEvent::Restarted { node, incarnation }) = event;
        if !cluster.runs(node, incarnation) {
            return;
        }
        match event {
            DataEvent::Turn { .. } => cluster.turn(node),
            DataEvent::Tick { .. } => cluster.tick(node),
            DataEvent::Executed { number, .. } => cluster.execute_operation(node, number),
            DataEvent::Completed { number, .. } => cluster.complete_operation(node, number),
            DataEvent::Sent { connection, .. } => cluster.sent(node, connection),
            DataEvent::Restarted { .. } => cluster.crash(node, None, crate::options::MILLISECOND),
        }
    }

    fn asked(cluster: &mut Cluster<Self>, from: u8, to: u8, ask: Segment) {
        cluster.segment_arrives(from, to, ask);
    }

    fn wake(cluster: &mut Cluster<Self>, client: u8, response: Option<Segment>) {
        match response {
            Some(segment) => cluster.client_receives(client, segment),
            None => cluster.client_wakes(client),
        }
    }

    fn boot(cluster: &mut Cluster<Self>, node: u8) {
        cluster.start(node);
    }

    fn inject(cluster: &mut Cluster<Self>, _index: usize, fault: &Fault) {
        cluster.inject(fault);
    }

    fn plan_crash(cluster: &mut Cluster<Self>, node: u8, crash: CrashInStep) {
        if let Some(node) = cluster.nodes.get_mut(usize::from(node)) {
            node.storage.crash_in_step = Some(crash);
        }
    }

    fn crash(cluster: &mut Cluster<Self>, node: u8, power: Option<Loss>, down_ns: u64) {
        cluster.crash_process(node, power, down_ns);
    }

    fn resume(cluster: &mut Cluster<Self>, node: u8) {
        cluster.plan_turn(node);
    }

    fn heal(cluster: &mut Cluster<Self>) {
        cluster.heal();
    }

    fn check_end(cluster: &mut Cluster<Self>) {
        cluster.check_partitions();
    }

    fn counts(cluster: &mut Cluster<Self>) -> Vec<(&'static str, u64)> {
        cluster.counts()
    }
}
