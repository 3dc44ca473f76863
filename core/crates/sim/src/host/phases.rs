//! Phases of a run: first faults, then healing, after which the group must answer and converge.

use std::fmt::Write as _;

use headrace_vsr::api::Status;

use super::node::Node;
use super::{Happening, Host};
use crate::checker::{Check, Violation};
use crate::machine::NEWER;
use crate::options::{NetworkOptions, SECOND};
use crate::random::Domain;
use crate::run::Outcome;

/// Number of calls of each client after healing.
const CALLS_AFTER_HEALING: u64 = 3;

impl Host {
    /// Run both phases and the final checks.
    pub(crate) fn run(mut self) -> Outcome {
        self.run_until(self.scenario.options.safety_ns);
        if self.violation.is_none() {
            self.heal();
        }
        self.finish()
    }

    /// Choose the members that continue after healing: all, or a minimal quorum.
    fn core(&mut self) -> Vec<u8> {
        let options = &self.scenario.options;
        let lost = |member: &u8| self.nodes[usize::from(*member)].gone;
        let mut core: Vec<u8> = (0..options.replicas)
            .filter(|member| !lost(member))
            .collect();
        if core.len() < usize::from(options.replicas) {
            return core;
        }
        let (damaged, enough) = (
            options.damaged_replicas > 0,
            usize::from(options.replication_quorum()),
        );
        let mut draw = self.draw(Domain::Process, u8::MAX);
        let fewer = draw.chance(400_000);
        // Damaged disks require all members: the only intact copy may be on any of them. A replica with an empty disk
        // does, too.
        let needs_all = |node: &Node| node.refused.is_some() || !node.has_met_all();
        if damaged || !fewer || self.restored.is_some() || self.nodes.iter().any(needs_all) {
            return core;
        }
        while core.len() > enough {
            let leaves = usize::try_from(draw.below(core.len() as u64)).expect("an index");
            core.remove(leaves);
        }
        core
    }

    fn heal(&mut self) {
        let now_ns = self.now_ns();
        let core = self.core();
        self.healed = true;
        let going_on: Vec<u64> = core.iter().map(|node| u64::from(*node)).collect();
        self.trace.event(now_ns, u8::MAX, "heal", &going_on);
        self.trace
            .explain(now_ns, u8::MAX, || format!("healed: {core:?} go on"));
        self.network.heal(NetworkOptions::perfect());
        for node in 0..self.scenario.options.replicas {
            let state = &mut self.nodes[usize::from(node)];
            state.busy_until_ns = 0;
            state.full_until_ns = 0;
            state.slow_until_ns = 0;
            state.sync_error = None;
            state.death = None;
            state.directory.spare();
            if core.contains(&node) {
                if state.process.is_some() {
                    self.run_turn(node);
                } else {
                    self.schedule.plan(now_ns, 1, Happening::Start { node });
                }
            } else {
                state.gone = true;
                self.end_process(node);
            }
        }
        for index in 0..self.scenario.options.workload.clients {
            self.clients[usize::from(index)].make_final_calls(CALLS_AFTER_HEALING);
            self.schedule.plan(now_ns, 3, Happening::Client(index));
        }
        let long_ns = if self.scenario.options.slow_timeouts {
            180 * SECOND
        } else {
            60 * SECOND
        };
        while self.violation.is_none() && self.now_ns() < now_ns + long_ns {
            self.run_until(self.now_ns() + SECOND / 2);
            self.upgrade_refused_members(&core);
            if self.converged(&core) {
                let took_ms = (self.now_ns() - now_ns) / 1_000_000;
                self.tally
                    .add_many("milliseconds from healing to convergence", took_ms);
                // Leave time for late answers.
                self.run_until(self.now_ns() + SECOND);
                return self.end_cleanly(&core);
            }
        }
        if self.violation.is_none() {
            let what = self.diagnosis(&core);
            self.fail(u8::MAX, Violation::new(Check::Liveness, what));
        }
    }

    /// Upgrade replicas that peers refuse because they are too old for the release in force, as an operator would after
    /// the reported alarm. A start detects this itself only if its own log contains the newer release.
    fn upgrade_refused_members(&mut self, core: &[u8]) {
        let is_in_force_at = |node: &u8| {
            let process = self.nodes[usize::from(*node)].process.as_ref();
            process.is_some_and(|process| process.stepped.report().release == NEWER)
        };
        if !core.iter().any(is_in_force_at) {
            return;
        }
        for node in core {
            let state = &self.nodes[usize::from(*node)];
            if state.release != NEWER && state.process.is_some() {
                self.tally.add("replicas shut out by their peers");
                self.too_old(*node);
            }
        }
    }

    /// Members that continue and whose disk allows it.
    fn serving(&self, core: &[u8]) -> Vec<u8> {
        core.iter()
            .copied()
            .filter(|node| self.nodes[usize::from(*node)].refused.is_none())
            .collect()
    }

    fn converged(&self, core: &[u8]) -> bool {
        let reports = self.serving(core).into_iter().map(|node| {
            let process = self.nodes[usize::from(node)].process.as_ref();
            process.map(|process| process.stepped.report())
        });
        let reports: Option<Vec<_>> = reports.collect();
        let Some(reports) = reports else {
            return false;
        };
        let newest = reports.iter().map(|report| report.commit_max).max();
        let newest = newest.unwrap_or(0).max(self.canon.newest_op());
        self.clients.iter().all(crate::client::Client::is_done)
            && reports
                .iter()
                .all(|report| report.status == Status::Normal && report.commit_min == newest)
    }

    fn diagnosis(&self, core: &[u8]) -> String {
        let mut what = format!("no convergence at operation {}:", self.canon.newest_op());
        for node in self.serving(core) {
            let process = self.nodes[usize::from(node)].process.as_ref();
            let text = process.map_or_else(
                || " down".to_owned(),
                |process| {
                    let report = process.stepped.report();
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
                        process.stepped.is_proven(),
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
            let result = self
                .history
                .search_some(self.scenario.seed, &mut self.tally);
            self.check(u8::MAX, result);
        }
        if self.violation.is_none() && self.healed {
            self.check_owed();
        }
        let network = self.network.counters();
        let calls = self.clients.iter().map(crate::client::Client::calls).sum();
        let mut counts = vec![
            ("runs", 1),
            ("virtual milliseconds", self.now_ns() / 1_000_000),
            ("events", self.trace.events()),
            ("operations committed", self.canon.newest_op()),
            ("calls answered", self.history.answered() as u64),
            ("reads answered", self.history.reads() as u64),
            ("client calls", calls),
            ("segments sent", network.sent),
            ("segments damaged on the way", network.corrupted),
            ("planned faults", self.scenario.plan.len() as u64),
        ];
        for node in 0..self.scenario.options.replicas {
            self.collect_counters(node);
        }
        for node in &self.nodes {
            let directory = node.directory.counts();
            counts.extend([
                ("operations on files", directory.operations),
                ("syncs", directory.syncs),
                ("crashes before a sync", directory.deaths_at_syncs),
                ("syncs that failed", directory.failed_syncs),
                ("writes without space", directory.without_space),
                ("records read from elsewhere", directory.misreads),
                ("journal files begun", directory.journal_files),
                ("journal files removed", directory.journal_files_removed),
            ]);
        }
        counts.push(("views", self.views.into()));
        for (name, many) in counts {
            self.tally.add_many(name, many);
        }
        Outcome {
            violation: self.violation,
            digest: self.trace.digest(),
            tally: self.tally,
        }
    }

    /// Check that no request is pending after convergence.
    fn check_owed(&mut self) {
        for node in 0..self.scenario.options.replicas {
            let Some(process) = &self.nodes[usize::from(node)].process else {
                continue;
            };
            let waiting = process.waiting.len();
            let clients = usize::from(self.scenario.options.workload.clients);
            // A request of a session without an answer expires after a minute.
            if waiting > 8 * clients {
                let what = format!("replica {node} owes {waiting} answers to {clients} clients");
                self.fail(node, Violation::new(Check::Tokens, what));
            }
        }
    }
}
