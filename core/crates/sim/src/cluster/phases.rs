//! Phases of a run: first faults, then healing, after which the group must answer and converge.

use std::fmt::Write as _;

use headrace_vsr::api::Status;
use headrace_vsr::rules::Rules;

use super::{Cluster, Event};
use crate::checker::{Check, Violation};
use crate::machine::Machines;
use crate::options::NetworkOptions;
use crate::options::SECOND;
use crate::random::Domain;
use crate::run::Outcome;

/// Number of calls of each client that must be answered after healing.
const CALLS_AFTER_HEALING: u64 = 3;

impl<R: Rules + Clone> Cluster<R> {
    /// Run both phases and the final checks.
    pub(crate) fn run(mut self) -> Outcome {
        self.run_until(self.scenario.options.safety_ns);
        if self.violation.is_none() {
            self.heal();
        }
        self.finish()
    }

    /// Choose the members that continue after healing: all, or a quorum while the others stay down.
    fn continuing_members(&mut self) -> Vec<u8> {
        let options = &self.scenario.options;
        let members: Vec<u8> = (0..options.replicas).collect();
        let (damaged, enough) = (
            options.damaged_replicas > 0,
            usize::from(options.replication_quorum()),
        );
        let mut draw = self.draw(Domain::Process, u8::MAX);
        let fewer = draw.chance(400_000);
        // Damaged disks require all members: the only intact copy may be on any of them.
        if damaged
            || !fewer
            || self.undetected_rollback.is_some()
            || members.iter().any(|node| {
                let node = &self.nodes[usize::from(*node)];
                // A replica with an empty disk requires all members as well.
                node.refused.is_some() || !node.has_met_all()
            })
        {
            return members;
        }
        let mut core = members;
        while core.len() > enough {
            let leaves = usize::try_from(draw.below(core.len() as u64)).expect("an index");
            core.remove(leaves);
        }
        core
    }

    fn heal(&mut self) {
        let now_ns = self.now_ns();
        let core = self.continuing_members();
        self.healed = true;
        self.trace.event(
            now_ns,
            u8::MAX,
            "heal",
            &core.iter().map(|node| u64::from(*node)).collect::<Vec<_>>(),
        );
        self.trace
            .explain(now_ns, u8::MAX, || format!("healed: {core:?} go on"));
        self.network.heal(NetworkOptions::perfect());
        for node in 0..self.scenario.options.replicas {
            let state = &mut self.nodes[usize::from(node)];
            state.busy_until_ns = 0;
            state.full_until_ns = 0;
            state.slow_until_ns = 0;
            state.sync_error = None;
            state.crash_in_step = None;
            if core.contains(&node) {
                let event = match &state.process {
                    // A step of the process may have been postponed to the end of a pause.
                    Some(process) => Event::Step {
                        node,
                        incarnation: process.incarnation,
                    },
                    None => Event::Start { node },
                };
                self.schedule.plan(now_ns, 1, event);
            } else {
                state.is_removed = true;
                state.process = None;
            }
        }
        for index in 0..self.scenario.options.workload.clients {
            self.clients[usize::from(index)].make_final_calls(CALLS_AFTER_HEALING);
            self.schedule.plan(now_ns, 3, Event::Client(index));
        }
        let timeout_ns = if self.scenario.options.slow_timeouts {
            180 * SECOND
        } else {
            60 * SECOND
        };
        while self.violation.is_none() && self.now_ns() < now_ns + timeout_ns {
            self.run_until(self.now_ns() + SECOND / 2);
            if self.converged(&core) {
                let took_ms = (self.now_ns() - now_ns) / 1_000_000;
                self.tally
                    .add_many("milliseconds from healing to convergence", took_ms);
                // Leave time for late answers and new clock measurements.
                self.run_until(self.now_ns() + SECOND);
                self.check_agreement(&core);
                return;
            }
        }
        if self.violation.is_none() {
            let what = self.diagnosis(&core);
            self.fail(u8::MAX, Violation::new(Check::Liveness, what));
        }
    }

    /// Check that synchronized clocks and a common release are reached, if all members continue.
    fn check_agreement(&mut self, core: &[u8]) {
        if self.violation.is_some()
            || self.serving(core).len() < usize::from(self.scenario.options.replicas)
        {
            return;
        }
        // Frames held back by a cut still block later ones of their link.
        for _ in 0..60 {
            self.run_until(self.now_ns() + SECOND / 2);
            let result = self.check_clocks().and_then(|()| self.check_release());
            if self.violation.is_some() || result.is_ok() {
                return;
            }
        }
        let result = self.check_clocks().and_then(|()| self.check_release());
        self.check(u8::MAX, result);
    }

    fn serving(&self, core: &[u8]) -> Vec<u8> {
        core.iter()
            .copied()
            .filter(|node| self.nodes[usize::from(*node)].refused.is_none())
            .collect()
    }

    /// Return whether every client has its answers and every replica has executed all operations.
    fn converged(&self, core: &[u8]) -> bool {
        let newest = self.canon.newest_op();
        self.clients.iter().all(crate::client::Client::is_done)
            && self.serving(core).iter().all(|node| {
                self.nodes[usize::from(*node)]
                    .process
                    .as_ref()
                    .is_some_and(|process| {
                        let report = process.replica.report();
                        report.status == Status::Normal
                            && report.commit_min == newest
                            && process.executed == newest
                    })
            })
    }

    fn diagnosis(&self, core: &[u8]) -> String {
        let mut what = format!("no convergence at operation {}:", self.canon.newest_op());
        for node in self.serving(core) {
            let report = self.nodes[usize::from(node)]
                .process
                .as_ref()
                .map(|process| process.replica.report());
            let text = report.map_or_else(
                || " down".to_owned(),
                |report| {
                    format!(
                        " {:?} view {}/{} head {} executed {}/{} floor {}/{} syncing {}",
                        report.status,
                        report.view,
                        report.log_view,
                        report.op,
                        report.commit_min,
                        report.commit_max,
                        report.log_floor,
                        report.link_floor,
                        report.syncing
                    )
                },
            );
            // Writing to a string does not fail.
            let _ = write!(what, " [{node}{text}]");
        }
        let waiting = self
            .clients
            .iter()
            .filter(|client| !client.is_done())
            .count();
        let _ = write!(what, " {waiting} clients wait");
        what
    }

    fn finish(mut self) -> Outcome {
        if self.violation.is_none() {
            let result = self.history.check(&self.canon, &mut self.reference);
            self.check(u8::MAX, result);
            if matches!(self.machines, Machines::Names) {
                let result = self
                    .history
                    .search_some(self.scenario.seed, &mut self.tally);
                self.check(u8::MAX, result);
            }
        }
        if self.violation.is_none() && self.healed {
            self.check_bounds();
        }
        let network = self.network.counters();
        let counts = [
            ("runs", 1),
            ("virtual milliseconds", self.now_ns() / 1_000_000),
            ("events", self.trace.events()),
            ("operations committed", self.canon.newest_op()),
            ("calls answered", self.history.answered() as u64),
            ("reads answered", self.history.reads() as u64),
            (
                "client calls",
                self.clients.iter().map(crate::client::Client::calls).sum(),
            ),
            ("frames sent", network.sent),
            ("frames lost", network.lost),
            ("frames duplicated", network.duplicated),
            ("frames damaged on the way", network.corrupted),
            ("frames held until the end of a cut", network.held),
            ("planned faults", self.scenario.plan.len() as u64),
        ];
        for (name, many) in counts {
            self.tally.add_many(name, many);
        }
        let views = self
            .nodes
            .iter()
            .filter_map(|node| node.process.as_ref())
            .map(|process| process.replica.report().view)
            .max();
        self.tally
            .add_many("views", views.unwrap_or_default().into());
        Outcome {
            violation: self.violation,
            digest: self.trace.digest(),
            tally: self.tally,
        }
    }

    /// Check that nothing is pending after convergence.
    fn check_bounds(&mut self) {
        for node in 0..self.scenario.options.replicas {
            let Some(process) = &self.nodes[usize::from(node)].process else {
                continue;
            };
            let waiting = process.waiting();
            let clients = usize::from(self.scenario.options.workload.clients);
            if waiting > clients {
                let what = format!("replica {node} owes {waiting} answers to {clients} clients");
                self.fail(node, Violation::new(Check::Tokens, what));
            }
        }
    }
}
