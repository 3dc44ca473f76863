//! Handshakes between replicas: a replica with an empty disk determines whether its group is new or its disk was lost.

use headrace_buffer::Slice;
use headrace_vsr::api::Event as Input;
use headrace_vsr::quorum::Quorums;
use headrace_vsr::rules::Rules;
use headrace_vsr::trust::{MemberClaim, Trust, TrustChange};

use super::{Bare, BareEvent, Cluster};
use crate::cluster::MARKER;
use crate::disk::Disk;
use crate::mutants::HostFault;
use crate::options::MILLISECOND;

/// Interval at which an unproven replica asks the others for their standing.
const MEET_EVERY_NS: u64 = 100 * MILLISECOND;

/// Handshake in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Greeting {
    pub(super) from: u8,
    pub(super) to: u8,
    /// Disk generation of the sender.
    disk_generation: u64,
    standing: MemberClaim,
    /// Incarnation of the process that this greeting answers.
    answers: Option<u64>,
    incarnation: u64,
}

/// Mark the replica of an empty disk as unproven.
pub(super) fn mark(disk: &mut Disk) {
    disk.create(MARKER);
    disk.sync(MARKER);
    disk.sync_names();
}

/// Return whether the replica of this disk is unproven.
pub(super) fn is_marked(disk: &Disk) -> bool {
    disk.read(MARKER).is_some()
}

impl<R: Rules + Clone> Cluster<Bare<R>> {
    /// Send a greeting from an unproven process to all others, and schedule the next one.
    pub(super) fn send_greetings(&mut self, node: u8, incarnation: u64) {
        if !self.runs(node, incarnation) || self.is_proven(node) {
            return;
        }
        for to in self.others(node) {
            self.send_greeting(node, to, None);
        }
        let at_ns = self.now_ns() + MEET_EVERY_NS;
        self.schedule
            .plan_own(at_ns, 3, BareEvent::SendGreeting { node, incarnation });
    }

    fn is_proven(&self, node: u8) -> bool {
        let process = self.nodes[usize::from(node)].process.as_ref();
        process.is_none_or(|process| process.trust.is_proven())
    }

    fn others(&self, node: u8) -> impl Iterator<Item = u8> + Clone + use<R> {
        (0..self.scenario.options.replicas).filter(move |other| *other != node)
    }

    fn send_greeting(&mut self, from: u8, to: u8, answers: Option<u64>) {
        let node = &self.nodes[usize::from(from)];
        let Some(process) = node
            .process
            .as_ref()
            .filter(|process| process.is_superblock_durable)
        else {
            return;
        };
        let greeting = Greeting {
            from,
            to,
            disk_generation: node.storage.disk_generation,
            standing: process.standing(),
            answers,
            incarnation: process.incarnation,
        };
        let now_ns = self.now_ns();
        // A handshake uses a connection, which does not duplicate.
        let [first, second] = self.network.send(now_ns, from, to, &Slice::default());
        if second.is_some() {
            self.network.arrived(from, to);
        }
        if let Some(delivery) = first {
            self.schedule
                .plan_own(delivery.at_ns, 2, BareEvent::Greeting(greeting));
        }
    }

    /// Handle the arrival of a greeting.
    pub(super) fn handle_greeting(&mut self, greeting: Greeting) {
        let Greeting {
            from,
            to,
            disk_generation: life,
            ..
        } = greeting;
        self.network.arrived(from, to);
        let now_ns = self.now_ns();
        self.trace.event(now_ns, to, "greeted", &[from.into()]);
        let others = self.others(to);
        let one_is_enough = self.kind.host_fault == Some(HostFault::EmptyQuorumIsNew);
        let node = &mut self.nodes[usize::from(to)];
        let met = &mut node.storage.met_disk_generations[usize::from(from)];
        let Some(process) = &mut node.process else {
            return;
        };
        if !process.is_superblock_durable {
            return;
        }
        let stale = greeting
            .answers
            .is_some_and(|incarnation| incarnation != process.incarnation);
        if life < *met || stale {
            return;
        }
        if life > *met {
            // The answer has the standing from before these frames.
            let is_from = |input: &Input| matches!(input, Input::Frame(frame) if frame.header.replica == from);
            process.inbox.retain(|input| !is_from(input));
        }
        *met = life;
        if !greeting.standing.is_proven {
            // The state remembered from before the loss of its disk is obsolete.
            process.memory.on_handshake(from, greeting.standing);
        }
        let dialled = greeting.answers.is_some();
        let change = if one_is_enough {
            let quorum = others.filter(|other| *other == from);
            process
                .trust
                .on_handshake(from, greeting.standing, dialled, quorum)
        } else {
            process
                .trust
                .on_handshake(from, greeting.standing, dialled, others)
        };
        self.trust_changed(to, change);
        if !dialled {
            self.send_greeting(to, from, Some(greeting.incarnation));
        }
    }

    /// Check whether a rejoining process has recovered everything.
    pub(super) fn observe(&mut self, node: u8) {
        let others = self.others(node);
        let Some(process) = &mut self.nodes[usize::from(node)].process else {
            return;
        };
        if process.trust.is_proven() {
            return;
        }
        let has_unsynced = !process.journal.is_idle() || !process.queued.is_empty();
        let report = process.replica.report();
        let quorums = Quorums::of(self.scenario.options.replicas).expect("1, 3 or 5");
        let change = process
            .trust
            .observe(&report, has_unsynced, others, quorums);
        self.trust_changed(node, change);
    }

    fn trust_changed(&mut self, node: u8, change: TrustChange) {
        let now_ns = self.now_ns();
        let name = match change {
            TrustChange::Nothing => return,
            TrustChange::DiskWasLost => {
                return self.tally.add("replicas that know of their lost disk");
            }
            TrustChange::GroupIsNew => "replicas of new groups",
            TrustChange::Rejoined => "replicas back with a new disk",
        };
        self.tally.add(name);
        self.trace.explain(now_ns, node, || name.to_owned());
        let state = &mut self.nodes[usize::from(node)];
        state.storage.disk.remove(MARKER);
        state.storage.disk.sync_names();
        if let Some(process) = &mut state.process {
            process.trust = Trust::Proven;
        }
    }
}
