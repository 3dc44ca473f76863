//! Log that the newest durable superblock records, to which the statements of heads refer.

use crate::superblock::Superblock;

/// Log of the newest recorded view.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordedLog {
    /// Log view of the superblock.
    pub view: u32,
    /// Head with which the log of that view began.
    pub start_op: u64,
}

impl RecordedLog {
    /// Log that a superblock records.
    pub const fn of(superblock: &Superblock) -> Self {
        Self {
            view: superblock.view.log_view,
            start_op: superblock.view.start_op,
        }
    }

    /// Return whether this log was begun without the prepare of `op` from `view`, which the journal may still have.
    ///
    /// No head may state in the name of this log that such a record is durable: if the power fails while the record is
    /// erased, it would count as damage of an operation of this log, and could not be nacked.
    pub const fn has_cut(self, op: u64, view: u32) -> bool {
        op > self.start_op && view < self.view
    }

    /// Highest operation up to which the records of this log are durable once that of `op` is: `through` is the previous
    /// bound, `view_of` returns the view of the record of an operation if there is one.
    pub fn durable_through(
        self,
        through: u64,
        op: u64,
        view_of: impl Fn(u64) -> Option<u32>,
    ) -> u64 {
        let holds = |op| view_of(op).is_some_and(|view| !self.has_cut(op, view));
        if holds(op) {
            durable_through(through, op, holds)
        } else {
            through
        }
    }

    /// Replace this log by one that was recorded now. Returns what remains of the bound `through`, up to which the
    /// records of the former log were written.
    #[must_use]
    pub fn succeed(&mut self, newer: Self, through: u64) -> u64 {
        let begun = newer.view > self.view;
        *self = newer;
        if begun {
            through.min(newer.start_op)
        } else {
            through
        }
    }
}

/// Highest operation up to which the journal is durable once the record of `op` is: `synced` is the previous bound,
/// `holds` returns whether an intact record of an operation exists.
///
/// Records above a hole that a crash tore into a group commit count as soon as the hole is filled.
pub(super) fn durable_through(synced: u64, op: u64, holds: impl Fn(u64) -> bool) -> u64 {
    let mut through = synced.max(op);
    while holds(through + 1) {
        through += 1;
    }
    through
}
