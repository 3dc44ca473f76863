//! Evidence of how far the log was durable.

use super::RecordHeader;
use crate::superblock::Superblock;

/// Collector of the evidence in record heads.
///
/// A log is cut when a view begins, so an older record head may refer to operations that were truncated legitimately.
/// Operations above the log head with which the newest recorded view began can only have been written in that view,
/// after the view was recorded, or in a later one that was not recorded yet. Therefore a record head of that view counts
/// in full, and any other only up to the start of the view. A head of the later log claims too much: it makes operations
/// count as damaged that were never acknowledged, which costs nacks and no safety. The superblock also records the log
/// head when that view is left. That bound is not used: up to there an older record head would vouch for operations that
/// replaced the ones to which it refers, and that may never have been stored here.
///
/// Of the heads of earlier log views only those of the newest one count. Each head states how far the journal was
/// durable when it was written, so they repeat what the heads of older log views say, without what was cut since: a view
/// that began with a shorter log may lie between an older head and the newest recorded view. For the same reason only the
/// last of them counts: a host may write heads after a view is recorded and before the view has cut the journal.
#[derive(Debug)]
pub(super) struct Evidence {
    log_view: u32,
    view_start_op: u64,
    /// Highest operation that is known to be committed.
    committed: u64,
    /// Newest log view of a head, up to the newest recorded one.
    heads_view: u32,
    /// Statement of the last head of `heads_view`.
    stated: u64,
    /// Highest statement of heads of log views that are not recorded.
    unrecorded: u64,
}

impl Evidence {
    pub(super) const fn new(superblock: &Superblock) -> Self {
        Self {
            log_view: superblock.view.log_view,
            view_start_op: superblock.view.start_op,
            // A committed operation must never be forgotten, even if it was never stored here.
            committed: superblock.commit_max,
            heads_view: 0,
            stated: 0,
            unrecorded: 0,
        }
    }

    /// Record the evidence of a head. Heads come in the order in which they lie in the journal.
    pub(super) fn head(&mut self, head: RecordHeader) {
        if head.log_view > self.log_view {
            self.unrecorded = self.unrecorded.max(head.synced);
        } else if head.log_view >= self.heads_view {
            (self.heads_view, self.stated) = (head.log_view, head.synced);
        }
    }

    /// Highest operation up to which records were durable here.
    pub(super) fn witnessed(&self) -> u64 {
        let stated = if self.heads_view == self.log_view {
            self.stated
        } else {
            self.stated.min(self.view_start_op)
        };
        stated.max(self.unrecorded.min(self.view_start_op))
    }

    /// Highest operation up to which everything was durable or is committed.
    pub(super) fn synced(&self) -> u64 {
        self.witnessed().max(self.committed)
    }
}
