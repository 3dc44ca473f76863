//! Data directories restored from older copies: peers that remember the newer state must keep the replica from
//! continuing.

use headrace_vsr::superblock;
use headrace_vsr::trust::MemberClaim;

use super::group::{ReplicaProcess as _, ReplicaStorage as _, Replicated};
use super::{Cluster, DirectoryCopy, MARKER, Node, SUPERBLOCK, Storage as _};
use crate::checker::{Cause, Check, Violation};
use crate::options::MILLISECOND;

/// Time until the operator empties the data directory of a detected replica.
const EMPTIED_AFTER_NS: u64 = 300 * MILLISECOND;

impl<K: Replicated> Cluster<K> {
    /// Copy the data directory of a node whose replica is proven.
    pub(super) fn copy_directory(&mut self, replica: u8) {
        let Some(state) = self.nodes.get_mut(usize::from(replica)) else {
            return;
        };
        let Some(process) = &state.process else {
            return;
        };
        if process.has_begun() && process.is_proven() {
            let report = process.report();
            state.copy = Some(DirectoryCopy {
                disk: state.storage.copied(),
                log_view: report.log_view,
                op: report.op,
            });
        }
    }

    /// Replace the data directory by the copy, if all other members run and remember a newer state than that of the
    /// copy.
    pub(super) fn restore_directory(&mut self, replica: u8, down_ns: u64) {
        let index = usize::from(replica);
        if self.group.undetected_rollback.is_some() || index >= self.nodes.len() {
            return;
        }
        let Some(copy) = self.nodes[index].copy.clone() else {
            return;
        };
        let Some(standing) = standing_of(&copy) else {
            return;
        };
        let remembers = |node: &Node<K>| {
            node.process.as_ref().is_some_and(|process| {
                process.has_begun()
                    && process.is_proven()
                    && process.remembers_newer_state(replica, standing)
            })
        };
        let others = (0..self.nodes.len()).filter(|other| *other != index);
        let process = self.nodes[index].process.as_ref();
        if !process.is_some_and(K::Process::is_proven)
            || !others.clone().all(|other| remembers(&self.nodes[other]))
        {
            return self.tally.add("older copies that not all would know");
        }
        self.crash(replica, None, down_ns);
        self.tally.add("older copies restored");
        self.causes.add(replica, Cause::OlderCopy);
        for other in others {
            let node = &mut self.nodes[other];
            node.storage.spare();
            node.sync_error = None;
            node.full_until_ns = 0;
        }
        let node = &mut self.nodes[index];
        node.replace_disk(copy.disk, false);
        node.copy = None;
        if !self.kind.believes_older_copies() {
            self.group.undetected_rollback = Some(replica);
        }
    }

    /// Handle the detection of an older copy: the replica stops, and the operator empties the data directory.
    ///
    /// `is_excused` says that peers may take the directory for an older copy for another reason.
    pub(crate) fn detect_rollback(&mut self, node: u8, is_excused: bool) {
        let now_ns = self.now_ns();
        self.trace
            .explain(now_ns, node, || "the directory is an older copy".to_owned());
        if !is_excused && self.group.undetected_rollback.take() != Some(node) {
            let what = format!("the directory of replica {node} is taken for an older copy");
            return self.fail(node, Violation::new(Check::Recovery, what));
        }
        self.tally.add("older copies found out");
        K::halt(self, node, EMPTIED_AFTER_NS);
        self.empty_disk(node);
    }
}

/// Upper bound of the standing that the replica of a copy would announce.
fn standing_of(copy: &DirectoryCopy) -> Option<MemberClaim> {
    let opened = superblock::open(copy.disk.read(SUPERBLOCK)?).ok()?;
    copy.disk.read(MARKER).is_none().then_some(MemberClaim {
        is_proven: true,
        incarnation: opened.superblock.incarnation + 1,
        process: u64::MAX,
        log_view: copy.log_view,
        op: copy.op,
        ..MemberClaim::default()
    })
}
