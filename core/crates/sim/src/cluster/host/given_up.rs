//! Loss of two members, one of which the operator gives up (`cluster.storage.given_up`). The other one, with an empty disk, becomes a
//! voter before it has caught up.

use headrace_vsr::api::Status;

use super::{Cluster, Host};
use crate::cluster::Node;
use crate::options::MILLISECOND;

/// Time until the next attempt to lose two members.
pub(super) const AGAIN_NS: u64 = 7 * MILLISECOND;

impl Cluster<Host> {
    /// Lose the disk of a replica and another member for good. Returns false if no third one holds all that is committed:
    /// the rest would be lost with them.
    pub(super) fn give_up(&mut self, replaced: u8, down_ns: u64) -> bool {
        let serves = |node: &Node<Host>| node.refused.is_none() && !node.is_removed;
        if !self.nodes.iter().all(serves)
            || !self.all_have_met()
            || self.group.undetected_rollback.is_some()
        {
            return false;
        }
        let others = (0..self.scenario.options.replicas).filter(|member| *member != replaced);
        let Some(survivor) = others.clone().find(|member| self.holds_everything(*member)) else {
            return false;
        };
        self.tally.add("members given up");
        let gone: Vec<u8> = others.filter(|member| *member != survivor).collect();
        for member in &gone {
            self.end_process(*member);
            self.nodes[usize::from(*member)].is_removed = true;
        }
        self.replace_disk(replaced, down_ns);
        self.crash(survivor, None, down_ns);
        for node in &mut self.nodes {
            node.storage.given_up.clone_from(&gone);
        }
        true
    }

    /// Return whether the log of a member is durable, and has no operation that some member has not committed.
    fn holds_everything(&mut self, member: u8) -> bool {
        let reports = self.nodes.iter().filter_map(|node| node.process.as_ref());
        let heads = reports.map(|process| process.stepped.report().op);
        let newest = heads.max().unwrap_or(0).max(self.group.canon.newest_op());
        let Some(process) = &mut self.nodes[usize::from(member)].process else {
            return false;
        };
        let report = process.stepped.report();
        !process.writes
            && !process.stepped.writer_has_jobs()
            && report.status == Status::Normal
            && report.op == newest
            && report.commit_min == newest
    }
}
