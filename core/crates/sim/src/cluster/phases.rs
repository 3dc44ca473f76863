//! Phases of a run: first faults, then healing, after which the group must answer and converge.

use std::fmt::Write as _;

use headrace_vsr::api::Status;

use super::group::{ReplicaProcess as _, Replicated};
use super::{Cluster, Event, Kind, Node, Storage as _};
use crate::checker::{Check, Violation};
use crate::client::Client;
use crate::machine::Machines;
use crate::options::{NetworkOptions, SECOND};
use crate::random::Domain;
use crate::run::Outcome;

/// Number of calls of each client that must be answered after healing.
const CALLS_AFTER_HEALING: u64 = 3;

impl<K: Kind> Cluster<K> {
    /// Run both phases and the final checks.
    pub(crate) fn run(mut self) -> Outcome {
        self.run_until(self.scenario.options.safety_ns);
        if self.violation.is_none() {
            K::heal(&mut self);
        }
        self.finish()
    }

    /// End all faults, and let these members go on.
    pub(crate) fn end_faults(&mut self, members: &[u8]) {
        let now_ns = self.now_ns();
        self.healed = true;
        let going_on: Vec<u64> = members.iter().map(|node| u64::from(*node)).collect();
        self.trace.event(now_ns, u8::MAX, "heal", &going_on);
        self.trace
            .explain(now_ns, u8::MAX, || format!("healed: {members:?} go on"));
        self.network.heal(NetworkOptions::perfect());
        for node in &mut self.nodes {
            node.busy_until_ns = 0;
            node.full_until_ns = 0;
            node.slow_until_ns = 0;
            node.sync_error = None;
            node.storage.spare();
        }
    }

    /// Let the process of a node go on after healing, or start one.
    pub(crate) fn go_on(&mut self, node: u8) {
        if self.nodes[usize::from(node)].process.is_some() {
            K::resume(self, node);
        } else {
            self.plan_start(node, 0);
        }
    }

    fn finish(mut self) -> Outcome {
        if self.violation.is_none() {
            K::check_end(&mut self);
        }
        let counts = [
            ("runs", 1),
            ("virtual milliseconds", self.now_ns() / 1_000_000),
            ("events", self.trace.events()),
            ("planned faults", self.scenario.plan.len() as u64),
        ];
        for (name, many) in counts.into_iter().chain(K::counts(&mut self)) {
            self.tally.add_many(name, many);
        }
        Outcome {
            violation: self.violation,
            digest: self.trace.digest(),
            tally: self.tally,
        }
    }
}

impl<K: Replicated> Cluster<K> {
    /// Choose the members that continue after healing: all that are left, or a quorum while the others stay down.
    fn continuing_members(&mut self) -> Vec<u8> {
        let options = &self.scenario.options;
        let is_left = |member: &u8| !self.nodes[usize::from(*member)].is_removed;
        let mut members: Vec<u8> = (0..options.replicas).filter(is_left).collect();
        if members.len() < usize::from(options.replicas) {
            return members;
        }
        let (damaged, enough) = (
            options.damaged_replicas > 0,
            usize::from(options.replication_quorum()),
        );
        let mut draw = self.draw(Domain::Process, u8::MAX);
        let fewer = draw.chance(400_000);
        // Damaged disks require all members: the only intact copy may be on any of them. A replica with an empty disk
        // does, too.
        let needs_all = |node: &Node<K>| node.refused.is_some() || !node.has_met_all();
        if damaged
            || !fewer
            || self.group.undetected_rollback.is_some()
            || self.nodes.iter().any(needs_all)
        {
            return members;
        }
        while members.len() > enough {
            let leaves = usize::try_from(draw.below(members.len() as u64)).expect("an index");
            members.remove(leaves);
        }
        members
    }

    pub(super) fn heal(&mut self) {
        let now_ns = self.now_ns();
        let members = self.continuing_members();
        self.end_faults(&members);
        for node in 0..self.scenario.options.replicas {
            if members.contains(&node) {
                self.go_on(node);
            } else {
                self.nodes[usize::from(node)].is_removed = true;
                K::end(self, node);
            }
        }
        for index in 0..self.scenario.options.workload.clients {
            self.group.clients[usize::from(index)].make_final_calls(CALLS_AFTER_HEALING);
            self.schedule.plan(now_ns, 3, Event::Client(index));
        }
        let timeout_ns = if self.scenario.options.slow_timeouts {
            180 * SECOND
        } else {
            60 * SECOND
        };
        while self.violation.is_none() && self.now_ns() < now_ns + timeout_ns {
            self.run_until(self.now_ns() + SECOND / 2);
            K::operate(self, &members);
            if self.has_converged(&members) {
                let took_ms = (self.now_ns() - now_ns) / 1_000_000;
                self.tally
                    .add_many("milliseconds from healing to convergence", took_ms);
                // Leave time for late answers and new clock measurements.
                self.run_until(self.now_ns() + SECOND);
                return K::check_converged(self, &members);
            }
        }
        if self.violation.is_none() {
            let what = self.diagnosis(&members);
            self.fail(u8::MAX, Violation::new(Check::Liveness, what));
        }
    }

    /// Members that continue and whose disk allows it.
    pub(crate) fn serving(&self, members: &[u8]) -> Vec<u8> {
        members
            .iter()
            .copied()
            .filter(|node| self.nodes[usize::from(*node)].refused.is_none())
            .collect()
    }

    /// Return whether every client has its answers and every replica has executed all operations.
    fn has_converged(&self, members: &[u8]) -> bool {
        let processes = self.serving(members).into_iter();
        let processes = processes.map(|node| self.nodes[usize::from(node)].process.as_ref());
        let Some(processes) = processes.collect::<Option<Vec<_>>>() else {
            return false;
        };
        let committed = processes.iter().map(|process| process.report().commit_max);
        let newest = committed
            .max()
            .unwrap_or(0)
            .max(self.group.canon.newest_op());
        self.group.clients.iter().all(Client::is_done)
            && processes.iter().all(|process| {
                let report = process.report();
                report.status == Status::Normal
                    && report.commit_min == newest
                    && process.executed().is_none_or(|op| op == newest)
            })
    }

    fn diagnosis(&self, members: &[u8]) -> String {
        let mut what = format!(
            "no convergence at operation {}:",
            self.group.canon.newest_op()
        );
        for node in self.serving(members) {
            let process = self.nodes[usize::from(node)].process.as_ref();
            let text = process.map_or_else(
                || " down".to_owned(),
                |process| {
                    let report = process.report();
                    format!(
                        " {:?} view {}/{} head {} executed {}/{} floor {}/{} syncing {} proven {}",
                        report.status,
                        report.view,
                        report.log_view,
                        report.op,
                        report.commit_min,
                        report.commit_max,
                        report.log_floor,
                        report.link_floor,
                        report.syncing,
                        process.is_proven(),
                    )
                },
            );
            // Writing to a string does not fail.
            let _ = write!(what, " [{node}{text}]");
        }
        let waiting = self.group.clients.iter().filter(|client| !client.is_done());
        let _ = write!(what, " {} clients wait", waiting.count());
        what
    }

    /// Check the answers to clients.
    pub(super) fn check_history(&mut self) {
        let group = &mut self.group;
        let result = group.history.check(&group.canon, &mut group.reference);
        self.check(u8::MAX, result);
        if matches!(self.group.machines, Machines::Names) {
            let result = self
                .group
                .history
                .search_some(self.scenario.seed, &mut self.tally);
            self.check(u8::MAX, result);
        }
        if self.violation.is_none() && self.healed {
            self.check_owed();
        }
    }

    /// Counts of operations and calls.
    pub(super) fn group_counts(&self) -> Vec<(&'static str, u64)> {
        let (history, clients) = (&self.group.history, &self.group.clients);
        vec![
            ("operations committed", self.group.canon.newest_op()),
            ("calls answered", history.answered() as u64),
            ("reads answered", history.reads() as u64),
            ("client calls", clients.iter().map(Client::calls).sum()),
        ]
    }

    /// Check that no request is pending after convergence.
    fn check_owed(&mut self) {
        for node in 0..self.scenario.options.replicas {
            let Some(process) = &self.nodes[usize::from(node)].process else {
                continue;
            };
            let waiting = process.waiting();
            let clients = usize::from(self.scenario.options.workload.clients);
            if waiting > K::OWED_PER_CLIENT * clients {
                let what = format!("replica {node} owes {waiting} answers to {clients} clients");
                self.fail(node, Violation::new(Check::Tokens, what));
            }
        }
    }
}
