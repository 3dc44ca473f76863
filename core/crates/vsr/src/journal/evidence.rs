//! Evidence of how far the log was durable.

use super::RecordHeader;
use crate::frame::PrepareHeader;
use crate::superblock::Superblock;

/// Collector of the evidence in record heads.
///
/// A log is cut when a view begins, so an older record head may refer to operations that were truncated legitimately.
/// Operations above the log head with which the newest recorded view began can only have been written in that view,
/// after the view was recorded. Therefore a record head of that view counts in full, and any other only up to the start
/// of the view. The superblock also records the log head when that view is left. That bound is not used: up to there an
/// older record head would vouch for operations that replaced the ones to which it refers, and that may never have been
/// stored here.
#[derive(Debug)]
pub(super) struct Evidence {
    log_view: u32,
    view_start_op: u64,
    synced: u64,
    /// `synced`, from the evidence of heads alone.
    witnessed: u64,
}

impl Evidence {
    pub(super) const fn new(superblock: &Superblock) -> Self {
        Self {
            log_view: superblock.log_view,
            view_start_op: superblock.view_start_op,
            // A committed operation must never be forgotten, even if it was never stored here.
            synced: superblock.commit_max,
            witnessed: 0,
        }
    }

    /// Record the evidence of a head.
    pub(super) fn head(&mut self, head: RecordHeader) {
        let synced = if head.log_view == self.log_view {
            head.synced
        } else {
            head.synced.min(self.view_start_op)
        };
        self.synced = self.synced.max(synced);
        self.witnessed = self.witnessed.max(synced);
    }

    /// Highest operation up to which records were durable here.
    pub(super) const fn witnessed(&self) -> u64 {
        self.witnessed
    }

    /// Highest operation up to which everything was durable or is committed.
    pub(super) const fn synced(&self) -> u64 {
        self.synced
    }
}

/// Return whether the superblock proves that this record lost its place in the log: to another prepare, to a
/// truncation, or because it was accepted in a view that was never recorded.
pub(super) fn is_stray(superblock: &Superblock, header: &PrepareHeader) -> bool {
    let replaced = superblock.view_headers.iter().any(|recorded| {
        recorded.op() == header.op() && !recorded.is_blank() && recorded.checksum != header.checksum
    });
    replaced
        || header.view > superblock.log_view
        || header.op() > superblock.view_start_op && header.view < superblock.log_view
}
