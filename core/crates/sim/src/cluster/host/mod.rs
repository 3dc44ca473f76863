//! Production host of a replica (`crates/replica`) under the same faults as the core: its threads are steps of the run,
//! its files are on a simulated disk, its connections are streams of the simulated network, and its clocks and
//! randomness are those of the run. Handshakes, group commits, journal files, checkpoints, opening and rejoining are
//! the code that runs in production.
//!
//! A process crashes between two of these steps, in the middle of any file operation, or when only some connections
//! have received the bytes written to them.

mod alarms;
mod clean;
mod directory;
mod faults;
mod given_up;
mod node;
mod phases;
mod process;
mod talk;
mod traffic;
mod wire;

use std::collections::BTreeMap;

use headrace_buffer::Slice;

use crate::client::{ClientRequest, ClientResponse};
use crate::cluster::group::{Group, Replicated};
use crate::cluster::{Cluster, CrashInStep, Event, Kind};
use crate::mutants::HostFault;
use crate::options::Options;
use crate::plan::{Fault, Loss};
use crate::random::Fates;
use crate::scenario::Scenario;

use node::{HostDirectory, Process};
use wire::{EndId, Shared};

/// Event of such nodes only.
#[derive(Debug)]
pub(crate) enum HostEvent {
    /// Bytes arrive at the other end of a connection.
    Arrived {
        from: u8,
        to: u8,
        end: EndId,
        bytes: Slice,
    },
    /// The other end of a connection learns that the connection is closed.
    Closed { to: u8, end: EndId },
    /// Both ends of a connection learn that the connection is closed.
    Broken { nodes: [u8; 2], end: EndId },
    /// An attempt to dial completes.
    Dialled { from: u8, to: u8, incarnation: u64 },
    /// Timers of a process are due.
    Wake { node: u8, incarnation: u64 },
    /// The journal writer executes the work that it has started.
    Writer { node: u8, incarnation: u64 },
    /// The other file thread executes the work that it has started.
    Files { node: u8, incarnation: u64 },
    /// The journal may have been idle long enough to be sealed.
    Idle { node: u8, incarnation: u64 },
    /// The state machine completes a request.
    Machine {
        node: u8,
        incarnation: u64,
        answer: process::MachineAnswer,
    },
}

/// Production hosts, which may have a fault.
#[derive(Debug)]
pub(crate) struct Host {
    cluster: u128,
    misdeed: Option<HostFault>,
    wires: Shared,
    /// Highest view of all replicas.
    views: u32,
    /// Arrival time of the newest bytes, for each direction of each connection.
    arrivals: BTreeMap<EndId, u64>,
}

impl Host {
    pub(crate) fn new(scenario: &Scenario, misdeed: Option<HostFault>) -> Self {
        Self {
            cluster: node::cluster_id(&scenario.options),
            misdeed,
            wires: Shared::default(),
            views: 0,
            arrivals: BTreeMap::new(),
        }
    }
}

impl Kind for Host {
    type Event = HostEvent;
    type Request = ClientRequest;
    type Response = ClientResponse;
    type Group = Group;
    type Storage = HostDirectory;
    type Process = Process;

    fn storage(&self, fates: Fates, options: &Options, replica: u8) -> HostDirectory {
        HostDirectory::new(fates, options, replica, self.misdeed)
    }

    fn receiver(event: &HostEvent) -> Option<u8> {
        match event {
            HostEvent::Arrived { to: node, .. }
            | HostEvent::Closed { to: node, .. }
            | HostEvent::Dialled { from: node, .. }
            | HostEvent::Wake { node, .. }
            | HostEvent::Writer { node, .. }
            | HostEvent::Files { node, .. }
            | HostEvent::Idle { node, .. }
            | HostEvent::Machine { node, .. } => Some(*node),
            HostEvent::Broken { .. } => None,
        }
    }

    fn handle(cluster: &mut Cluster<Self>, event: HostEvent) {
        match event {
            HostEvent::Arrived {
                from,
                to,
                end,
                bytes,
            } => cluster.arrived(from, to, end, &bytes),
            HostEvent::Closed { to, end } => {
                cluster.kind.wires.close_other(end);
                cluster.run_turn(to);
            }
            HostEvent::Broken { nodes, end } => {
                cluster.kind.wires.close_both(end);
                for node in nodes {
                    cluster.run_turn(node);
                }
            }
            HostEvent::Dialled {
                from,
                to,
                incarnation,
            } => cluster.dialled(from, to, incarnation),
            HostEvent::Wake { node, incarnation } => cluster.wake(node, incarnation),
            HostEvent::Writer { node, incarnation } => cluster.write(node, incarnation),
            HostEvent::Files { node, incarnation } => cluster.work_on_files(node, incarnation),
            HostEvent::Idle { node, incarnation } => cluster.seal(node, incarnation),
            HostEvent::Machine {
                node,
                incarnation,
                answer,
            } => cluster.machine_answers(node, incarnation, answer),
        }
    }

    fn asked(cluster: &mut Cluster<Self>, from: u8, to: u8, ask: ClientRequest) {
        cluster.request(from, to, ask);
    }

    fn wake(cluster: &mut Cluster<Self>, client: u8, response: Option<ClientResponse>) {
        cluster.client(client, response);
    }

    fn boot(cluster: &mut Cluster<Self>, node: u8) {
        cluster.start(node);
    }

    fn is_protected(cluster: &Cluster<Self>) -> bool {
        cluster.group.undetected_rollback.is_some()
    }

    fn inject(cluster: &mut Cluster<Self>, index: usize, fault: &Fault) {
        cluster.inject(index, fault);
    }

    fn plan_crash(cluster: &mut Cluster<Self>, node: u8, crash: CrashInStep) {
        cluster.plan_crash(node, crash);
    }

    fn crash(cluster: &mut Cluster<Self>, node: u8, power: Option<Loss>, down_ns: u64) {
        cluster.crash_process(node, power, down_ns);
    }

    fn resume(cluster: &mut Cluster<Self>, node: u8) {
        cluster.run_turn(node);
    }

    fn heal(cluster: &mut Cluster<Self>) {
        cluster.heal();
    }

    fn check_end(cluster: &mut Cluster<Self>) {
        cluster.check_history();
    }

    fn counts(cluster: &mut Cluster<Self>) -> Vec<(&'static str, u64)> {
        cluster.counts()
    }
}

impl Replicated for Host {
    // A request of a session without an answer expires after a minute.
    const OWED_PER_CLIENT: usize = 8;

    fn cluster_id(&self) -> u128 {
        self.cluster
    }

    fn restart(cluster: &mut Cluster<Self>, node: u8, down_ns: u64) {
        cluster.stop(node, down_ns);
    }

    fn halt(cluster: &mut Cluster<Self>, node: u8, down_ns: u64) {
        cluster.end_process(node);
        cluster.plan_start(node, down_ns);
    }

    fn end(cluster: &mut Cluster<Self>, node: u8) {
        cluster.end_process(node);
    }

    fn operate(cluster: &mut Cluster<Self>, members: &[u8]) {
        cluster.upgrade_refused_members(members);
    }

    fn check_converged(cluster: &mut Cluster<Self>, members: &[u8]) {
        cluster.end_cleanly(members);
    }
}
