//! Interface of a kind of node.

use headrace_vsr::api::Report;
use headrace_vsr::trust::MemberClaim;

use super::Cluster;
use crate::client::ClientRequest;
use crate::disk::Disk;
use crate::options::Options;
use crate::plan::{Fault, Loss};
use crate::random::Fates;

/// Kind of node that a group consists of, and what a run has because of it.
pub(crate) trait Kind: Sized {
    /// Event of nodes of this kind only.
    type Event;
    /// Data directory of a node, and what is expected of it.
    type Storage: Storage;
    /// Process that runs on a node.
    type Process: Process;

    /// Number of requests that a process may owe to each client after convergence.
    const OWED_PER_CLIENT: usize;

    /// Id of the cluster, contained in frames and files.
    fn cluster_id(&self) -> u128;

    /// Data directory of a new node.
    fn storage(&self, fates: Fates, options: &Options, replica: u8) -> Self::Storage;

    /// Return whether an older copy of a data directory goes unnoticed: a planted bug.
    fn believes_older_copies(&self) -> bool {
        false
    }

    /// Node whose process receives an event; `None`: it is delivered even during a pause.
    fn receiver(event: &Self::Event) -> Option<u8>;

    fn handle(cluster: &mut Cluster<Self>, event: Self::Event);

    /// Handle the request of a client.
    fn asked(cluster: &mut Cluster<Self>, from: u8, to: u8, ask: ClientRequest);

    /// Start a process, unless one is running or the node cannot start any more.
    fn boot(cluster: &mut Cluster<Self>, node: u8);

    /// Inject a fault that depends on the kind of node.
    fn inject(cluster: &mut Cluster<Self>, index: usize, fault: &Fault);

    /// Crash a process, with or without a power loss, and schedule its restart. No older copy is undetected.
    fn crash(cluster: &mut Cluster<Self>, node: u8, power: Option<Loss>, down_ns: u64);

    /// Restart a process as its operator would, and leave it down for a while.
    fn restart(cluster: &mut Cluster<Self>, node: u8, down_ns: u64);

    /// Stop a process that may not go on, and start another one later.
    fn halt(cluster: &mut Cluster<Self>, node: u8, down_ns: u64);

    /// End a process that does not come back.
    fn end(cluster: &mut Cluster<Self>, node: u8);

    /// Let a running process go on after a pause that has ended early.
    fn resume(cluster: &mut Cluster<Self>, node: u8);

    /// Do what operators do for members that do not come back by themselves after healing.
    fn operate(_cluster: &mut Cluster<Self>, _members: &[u8]) {}

    /// Check the members that have converged.
    fn check_converged(cluster: &mut Cluster<Self>, members: &[u8]);

    /// Counts for the tally at the end of a run.
    fn counts(cluster: &mut Cluster<Self>) -> Vec<(&'static str, u64)>;
}

/// Data directory of a node, and what is expected of it.
pub(crate) trait Storage {
    /// Copy of all files.
    fn copied(&self) -> Disk;

    /// Replace all files, and reset the expectations about them.
    fn replace(&mut self, disk: Disk, is_empty: bool);

    /// Return whether the replica is proven and needs no more handshakes with all others.
    fn has_met_all(&self) -> bool;

    /// Return bytes of another sector for the next record that is read.
    fn misread(&mut self);

    /// Drop a planned crash.
    fn spare(&mut self);
}

/// Process of a replica.
pub(crate) trait Process {
    /// Number of process starts on its node.
    fn incarnation(&self) -> u64;

    fn report(&self) -> Report;

    /// Return whether its start is durable.
    fn has_begun(&self) -> bool;

    /// Return whether its state is trusted.
    fn is_proven(&self) -> bool;

    /// Return whether it remembers a newer state of a peer than that which the peer announces.
    fn remembers_newer_state(&self, peer: u8, standing: MemberClaim) -> bool;

    /// Operation that its state machine has executed last, if it is known at any time.
    fn executed(&self) -> Option<u64>;

    /// Number of requests without an answer.
    fn waiting(&self) -> usize;
}
