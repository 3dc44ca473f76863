//! Verification of the log: downwards from the canonical headers of the view, along the chain of parents.

use super::{CutOrder, Log};
use crate::api::{FatalReason, Notice};
use crate::frame::PrepareHeader;
use crate::replica::flow::broken;
use crate::replica::outbox::Outbox;
use crate::rules::Rules;

impl Log {
    /// Return whether the chain is verified down to the executed operations.
    pub(crate) fn is_linked(&self) -> bool {
        self.link_floor <= self.commit_min + 1
    }

    /// Verify the chain of parents downwards. An entry that does not match its child is a stray of an abandoned view:
    /// drop it, so that the right one is fetched. Returns whether that has happened.
    pub(crate) fn link(
        &mut self,
        rules: &impl Rules,
        order: CutOrder,
        outbox: &mut Outbox,
    ) -> Result<bool, FatalReason> {
        while !self.is_linked() {
            let below = self.link_floor - 1;
            let Some(parent) = self.header(self.link_floor).map(PrepareHeader::parent) else {
                return Ok(false);
            };
            let Some(held) = self.checksum(below) else {
                return Ok(false);
            };
            if !rules.linked(parent, held) {
                // The superblock recorded for this view justifies the drop: the chain is anchored in its suffix.
                self.entries.drop_op(below, order.justified_by);
                outbox.notice(Notice::Truncated { from_op: below });
                self.cut(order.durable, outbox);
                return Ok(true);
            }
            self.link_floor = below;
        }
        if self.link_floor == self.commit_min + 1
            && let (Some(child), Some(held)) =
                (self.header(self.link_floor), self.checksum(self.commit_min))
            && !rules.linked(child.parent(), held)
        {
            return broken("the log continues from what was executed");
        }
        Ok(false)
    }

    /// Next operation to execute: committed, verified, and with a body that is available.
    pub(crate) fn next_to_execute(&self, rules: &impl Rules) -> Option<u64> {
        let op = self.commit_min + 1;
        (op <= self.commit_max && rules.verified(op, self.link_floor) && self.is_available(op))
            .then_some(op)
    }

    /// Return whether everything above the executed operations is verified.
    pub(crate) fn is_verified(&self, rules: &impl Rules) -> bool {
        self.head <= self.commit_min || rules.verified(self.commit_min + 1, self.link_floor)
    }

    /// Newest operation up to which every operation above the commit point is durable and linked. Gaps in durability at
    /// or below the commit point do not matter: those operations are committed already and repaired in the background.
    pub(crate) fn ackable_op(&self, rules: &impl Rules) -> Option<u64> {
        let mut op = self.commit_max.min(self.head);
        while op < self.head {
            let next = op + 1;
            if !rules.ackable(self.body(next)) {
                break;
            }
            let linked = match (self.header(next), self.header(op)) {
                (Some(header), Some(below)) => rules.linked(header.parent(), below.checksum),
                (Some(_), None) => op == self.commit_max,
                (None, _) => false,
            };
            if !linked {
                break;
            }
            op = next;
        }
        (op > self.commit_max || op == self.head).then_some(op)
    }
}
