//! View of a replica, as a superblock records it.

use alloc::vec::Vec;

use crate::frame::PrepareHeader;

/// View of a replica, with the log with which it began or was left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedView {
    /// Current view of the replica, or the view that it is entering.
    pub number: u32,
    /// Last view whose log the replica has adopted; at most `number`.
    pub log_view: u32,
    /// Highest op of the log when this superblock was written for a view; "0" and "unknown" must stay distinguishable.
    pub head_op: u64,
    /// Head of the log when `log_view` began.
    pub start_op: u64,
    /// Last view that began with a declared loss; 0 for none.
    pub loss_view: u32,
    /// Headers of the suffix, from `head_op` down; blank where unknown. At most
    /// [`SUFFIX_MAX`](crate::frame::SUFFIX_MAX).
    pub headers: Vec<PrepareHeader>,
}

impl RecordedView {
    /// Return whether the fields agree with one another: the headers descend by one from the head, and are linked where
    /// they are known.
    pub fn is_consistent(&self) -> bool {
        let Some(first) = self.headers.first() else {
            return false;
        };
        self.log_view <= self.number
            && self.loss_view <= self.log_view
            && first.op() == self.head_op
            && self.headers.windows(2).all(|pair| {
                let (child, parent) = (&pair[0], &pair[1]);
                child.op().checked_sub(1) == Some(parent.op())
                    && (child.is_blank() || parent.is_blank() || child.parent() == parent.checksum)
            })
    }

    /// Return whether a record of the journal has lost its place in the recorded log. It has if another prepare is
    /// recorded at its operation, if it lies above the start of the log's view and is older than that view, or if its
    /// view was never recorded.
    pub fn has_lost(&self, header: &PrepareHeader) -> bool {
        let replaced = self.headers.iter().any(|recorded| {
            recorded.op() == header.op()
                && !recorded.is_blank()
                && recorded.checksum != header.checksum
        });
        replaced
            || header.view > self.log_view
            || (header.op() > self.start_op && header.view < self.log_view)
    }
}
