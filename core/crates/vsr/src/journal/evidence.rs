//! How far the log is known to have been durable.

use super::RecordHead;
use crate::frame::PrepareHeader;
use crate::superblock::Superblock;

/// Collects what the heads say.
///
/// A log is cut when a view begins, so a head from before that may speak of operations that are gone for good reason. What
/// lies above the head that the newest recorded view began with can only have been written in that view, and that only
/// after the view was recorded. Therefore a head of that view counts in full, any other up to where the view began. The
/// head that the superblock records besides goes on with the log when the view is left: up to there an older head would
/// vouch for operations that took the place of those it means, and that may never have been here.
#[derive(Debug)]
pub(super) struct Evidence {
    log_view: u32,
    view_start_op: u64,
    synced: u64,
    /// The same by what heads say alone.
    witnessed: u64,
}

impl Evidence {
    pub(super) const fn new(superblock: &Superblock) -> Self {
        Self {
            log_view: superblock.log_view,
            view_start_op: superblock.view_start_op,
            // A committed operation is never to be forgotten, even one that never came here.
            synced: superblock.commit_max,
            witnessed: 0,
        }
    }

    /// A head was read.
    pub(super) fn head(&mut self, head: RecordHead) {
        let synced = if head.log_view == self.log_view {
            head.synced
        } else {
            head.synced.min(self.view_start_op)
        };
        self.synced = self.synced.max(synced);
        self.witnessed = self.witnessed.max(synced);
    }

    /// Everything up to this operation was durable here.
    pub(super) const fn witnessed(&self) -> u64 {
        self.witnessed
    }

    /// Everything up to this operation was durable, or is committed.
    pub(super) const fn synced(&self) -> u64 {
        self.synced
    }
}

/// Whether the superblock tells that this record has lost its place: to another prepare, to a cut, or because it was
/// accepted in a view that was never recorded.
pub(super) fn is_stray(superblock: &Superblock, header: &PrepareHeader) -> bool {
    let replaced = superblock.view_headers.iter().any(|recorded| {
        recorded.op() == header.op() && !recorded.is_blank() && recorded.checksum != header.checksum
    });
    replaced
        || header.view > superblock.log_view
        || header.op() > superblock.view_start_op && header.view < superblock.log_view
}
