//! End of a run: what operators do, and what is counted.

use super::{Cluster, Host};
use crate::machine::NEWER;

impl Cluster<Host> {
    /// Upgrade replicas that peers refuse because they are too old for the release in force, as an operator would after
    /// the reported alarm. A start detects this itself only if its own log contains the newer release.
    pub(super) fn upgrade_refused_members(&mut self, members: &[u8]) {
        let is_in_force_at = |node: &u8| {
            let process = self.nodes[usize::from(*node)].process.as_ref();
            process.is_some_and(|process| process.stepped.report().release == NEWER)
        };
        if !members.iter().any(is_in_force_at) {
            return;
        }
        for node in members {
            let state = &self.nodes[usize::from(*node)];
            if state.release != NEWER && state.process.is_some() {
                self.tally.add("replicas shut out by their peers");
                self.upgrade_refused(*node);
            }
        }
    }

    /// Counts of the network, the data directories and the views.
    pub(super) fn counts(&mut self) -> Vec<(&'static str, u64)> {
        for node in 0..self.scenario.options.replicas {
            self.collect_counters(node);
        }
        let network = self.network.counters();
        let mut counts = self.group_counts();
        counts.extend([
            ("segments sent", network.sent),
            ("segments damaged on the way", network.corrupted),
            ("views", self.kind.views.into()),
        ]);
        for node in &self.nodes {
            let directory = node.storage.directory.counts();
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
        counts
    }
}
