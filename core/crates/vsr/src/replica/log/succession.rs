//! Succession of logs: the log of a new view, and a transferred state, take the place of what this replica has.

use super::{CutOrder, Log};
use crate::api::Notice;
use crate::frame::PrepareHeader;
use crate::replica::flow::{Flow, broken};
use crate::replica::outbox::Outbox;
use crate::superblock::Checkpoint;

impl Log {
    /// Shorten the log to `head`, when a view is left.
    pub(crate) fn drop_above(&mut self, head: u64, justified_by: u64) {
        self.entries.drop_above(head, justified_by);
        self.head = head;
    }

    /// Make a canonical suffix (descending) the end of the log. Entries that contradict it, or lie above it, are dropped
    /// at once; the journal is cut when the superblock that justifies the cut is durable.
    pub(crate) fn take_over_suffix(
        &mut self,
        head: u64,
        commit: u64,
        suffix: &[PrepareHeader],
        order: CutOrder,
        outbox: &mut Outbox,
    ) -> Flow {
        if let Some(from_op) = self.entries.drop_above(head, order.justified_by) {
            if from_op <= self.commit_min {
                return broken("what was executed is never cut");
            }
            outbox.notice(Notice::Truncated { from_op });
        }
        for header in suffix {
            self.install_header(*header, order.justified_by)?;
        }
        self.head = head;
        self.commit_max = self.commit_max.max(commit.min(head));
        self.link_floor = suffix.last().map_or(head + 1, PrepareHeader::op).max(1);
        // Test rules may allow a cut before the superblock is durable: cut now in that case.
        self.cut(order.durable, outbox);
        Ok(())
    }

    fn install_header(&mut self, header: PrepareHeader, justified_by: u64) -> Flow {
        self.must_know(&header)?;
        let op = header.op();
        if op <= self.checkpoint.op {
            return Ok(());
        }
        match self.entry(op) {
            Some(held) if held.checksum == header.checksum => return Ok(()),
            Some(_) => {
                if op <= self.commit_min {
                    return broken("what was executed is never cut");
                }
                self.entries.drop_op(op, justified_by);
            }
            None => {}
        }
        self.entries.want(header);
        Ok(())
    }

    /// Continue from a transferred state. The journal keeps its records until the superblock is durable: after a crash
    /// before that, recovery starts from the old checkpoint.
    pub(crate) fn continue_from(&mut self, checkpoint: &Checkpoint) {
        let op = checkpoint.op;
        self.checkpoint = *checkpoint;
        self.entries.forget_through(op);
        self.commit_min = op;
        self.commit_max = self.commit_max.max(op);
        self.head = self.head.max(op);
        self.early = self.early.split_off(&(self.head + 1));
        if self.link_floor <= op {
            self.link_floor = op + 1;
        }
        self.link_floor = self.link_floor.min(self.head + 1);
        self.floor = self.floor.max(op + 1);
    }
}
