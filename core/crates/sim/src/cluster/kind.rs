//! Interface of a kind of node.

use super::{Cluster, CrashInStep};
use crate::options::Options;
use crate::plan::{Fault, Loss};
use crate::random::Fates;

/// Kind of node that a run consists of, and what the run has because of it.
pub(crate) trait Kind: Sized {
    /// Event of nodes of this kind only.
    type Event;
    /// Request of a client.
    type Request;
    /// Response of a node.
    type Response;
    /// Clients, and what checkers know about all nodes.
    type Group;
    /// Data directory of a node, and what is expected of it.
    type Storage: Storage;
    /// Process that runs on a node.
    type Process: Process;

    /// Data directory of a new node.
    fn storage(&self, fates: Fates, options: &Options, replica: u8) -> Self::Storage;

    /// Node whose process receives an event; `None`: it is delivered even during a pause.
    fn receiver(event: &Self::Event) -> Option<u8>;

    fn handle(cluster: &mut Cluster<Self>, event: Self::Event);

    /// Handle the request of a client.
    fn asked(cluster: &mut Cluster<Self>, from: u8, to: u8, ask: Self::Request);

    /// Wake a client, or deliver a response to it.
    fn wake(cluster: &mut Cluster<Self>, client: u8, response: Option<Self::Response>);

    /// Start a process, unless one is running or the node cannot start any more.
    fn boot(cluster: &mut Cluster<Self>, node: u8);

    /// Return whether no process may crash or change at present, for the sake of a fault injected before.
    fn is_protected(_cluster: &Cluster<Self>) -> bool {
        false
    }

    /// Inject a fault that depends on the kind of node.
    fn inject(cluster: &mut Cluster<Self>, index: usize, fault: &Fault);

    /// Plan a crash in the middle of the next step of a process.
    fn plan_crash(cluster: &mut Cluster<Self>, node: u8, crash: CrashInStep);

    /// Crash a process, with or without a power loss, and schedule its restart. Nothing is protected.
    fn crash(cluster: &mut Cluster<Self>, node: u8, power: Option<Loss>, down_ns: u64);

    /// Let a running process go on after a pause that has ended early.
    fn resume(cluster: &mut Cluster<Self>, node: u8);

    /// End all faults, and check that the nodes answer and agree.
    fn heal(cluster: &mut Cluster<Self>);

    /// Check what can be checked only at the end of a run without a violation.
    fn check_end(cluster: &mut Cluster<Self>);

    /// Counts for the tally at the end of a run.
    fn counts(cluster: &mut Cluster<Self>) -> Vec<(&'static str, u64)>;
}

/// Data directory of a node.
pub(crate) trait Storage {
    /// Return bytes of another sector for the next record that is read.
    fn misread(&mut self);

    /// Drop a planned crash.
    fn spare(&mut self);
}

/// Process on a node.
pub(crate) trait Process {
    /// Number of process starts on its node.
    fn incarnation(&self) -> u64;
}
