//! Repair of headers: verified downwards from the canonical ones, and fetched where they are missing.
//!
//! Canonical in a view are only the decided suffix and the operations prepared on top of it. Everything below is
//! unverified until the chain of parents has been followed down to the executed operations: a replica that was away may
//! hold entries of an abandoned view there. `link_floor` is the lowest verified operation; nothing below it is executed
//! or requested by body.

use headrace_buffer::Slice;

use crate::api::{DropReason, FatalReason, Notice};
use crate::frame::area::{Headers, RequestHeaders};
use crate::frame::body::headers;
use crate::frame::{Frame, PrepareHeader};
use crate::rules::Rules;

use crate::replica::{Flow, Replica};

/// Maximum number of headers in one answer.
pub(in crate::replica) const SPAN_MAX: u64 = 128;

#[derive(Debug, Default)]
pub(in crate::replica) struct HeaderRepair {
    /// Newest operation that the primary of this view is known to have.
    heard_of: u64,
    /// True if a header is missing: send requests in this step, without waiting for the timer.
    pub(in crate::replica) soon: bool,
    /// Nonce of the requests of this view. One nonce serves all rounds, because an answer may take longer than the next
    /// round.
    nonce: u128,
    next_peer: u8,
}

impl HeaderRepair {
    pub(in crate::replica) fn hear_of(&mut self, op: u64) {
        self.heard_of = self.heard_of.max(op);
    }

    pub(in crate::replica) fn leave_view(&mut self) {
        self.heard_of = 0;
        self.nonce = 0;
        self.soon = false;
    }
}

impl<R: Rules> Replica<R> {
    /// Verify the chain of parents downwards. An entry that does not match its child is a stray of an abandoned view:
    /// drop it and fetch the right one.
    pub(in crate::replica) fn link(&mut self) -> Flow {
        if !self.in_log_view() {
            return Ok(());
        }
        while self.link_floor > self.commit_min + 1 {
            let below = self.link_floor - 1;
            let Some(parent) = self.header(self.link_floor).map(PrepareHeader::parent) else {
                return Ok(());
            };
            let Some(held) = self.header(below).map(|header| header.checksum) else {
                return Ok(());
            };
            if !self.rules.linked(parent, held) {
                // The superblock recorded for this view justifies the drop: the chain is anchored in its suffix.
                self.log.drop_op(below, self.view_changing.log_sequence);
                self.notice(Notice::Truncated { from_op: below });
                self.cut_journal();
                self.header_repair.soon = true;
                return Ok(());
            }
            self.link_floor = below;
        }
        if self.link_floor == self.commit_min + 1
            && let (Some(child), Some(held)) =
                (self.header(self.link_floor), self.header(self.commit_min))
            && !self.rules.linked(child.parent(), held.checksum)
        {
            return Err(FatalReason::Invariant(
                "the log continues from what was executed",
            ));
        }
        Ok(())
    }

    fn is_linked(&self) -> bool {
        self.link_floor <= self.commit_min + 1
    }

    pub(in crate::replica) fn wants_headers(&self) -> bool {
        self.in_log_view() && (!self.is_linked() || self.lags_behind_primary())
    }

    /// Return whether the primary of this view has a longer log than this backup, which has room for it.
    fn lags_behind_primary(&self) -> bool {
        self.follows() && self.header_repair.heard_of > self.head && !self.lacks_room()
    }

    /// Request headers: downwards from any replica, since the chain verifies them; upwards only from the primary.
    pub(in crate::replica) fn request_headers(&mut self) {
        if self.header_repair.nonce == 0 {
            self.header_repair.nonce = u128::from(self.random.u64(1..));
        }
        if self.lags_behind_primary() {
            let from = self.head + 1;
            let to = self.header_repair.heard_of.min(self.head + SPAN_MAX);
            let area = RequestHeaders {
                nonce: self.header_repair.nonce,
                op_min: from,
                op_max: to,
            };
            self.send(self.primary_of(self.view), area, Slice::default());
        }
        if !self.is_linked() {
            let to = self.link_floor - 1;
            let from = (self.commit_min + 1).max(to.saturating_sub(SPAN_MAX - 1));
            let area = RequestHeaders {
                nonce: self.header_repair.nonce,
                op_min: from,
                op_max: to,
            };
            let peer = self.next_header_peer();
            self.send(peer, area, Slice::default());
        }
    }

    fn next_header_peer(&mut self) -> u8 {
        let count = self.config.replica_count;
        let next = (self.header_repair.next_peer + 1) % count;
        let next = if next == self.config.replica {
            (next + 1) % count
        } else {
            next
        };
        self.header_repair.next_peer = next;
        next
    }

    pub(in crate::replica) fn on_headers(&mut self, frame: &Frame, area: Headers) -> Flow {
        if !self.in_log_view()
            || area.nonce != self.header_repair.nonce
            || self.header_repair.nonce == 0
        {
            return Ok(());
        }
        let Ok(list) = headers::decode(&frame.body) else {
            self.dropped(DropReason::Malformed);
            return Ok(());
        };
        let before = (self.head, self.link_floor);
        if frame.header.view == self.view
            && frame.header.replica == self.primary_of(self.view)
            && self.follows()
        {
            self.append_headers(&list)?;
        }
        self.take_linked(&list)?;
        if (self.head, self.link_floor) == before {
            // The answer does not reach the needed operations; possibly only a checkpoint covers them.
            if self.wants_headers() {
                self.consider_transfer(frame.header.replica);
            }
        } else if self.wants_headers() {
            self.header_repair.soon = true;
        }
        self.advance()
    }

    /// Add headers above the head, sent by the primary of this view.
    fn append_headers(&mut self, list: &[PrepareHeader]) -> Flow {
        for header in list.iter().rev() {
            if header.op() != self.head + 1 || header.is_blank() {
                continue;
            }
            let follows = self
                .header(self.head)
                .is_some_and(|held| held.checksum == header.parent());
            if !follows {
                return Ok(());
            }
            self.must_know(header)?;
            self.log.want(*header);
            self.head = header.op();
            self.notice(Notice::HeaderRepaired { op: self.head });
        }
        // Prepares that were held back may be the bodies of these headers.
        let held = core::mem::take(&mut self.early);
        for (op, frame) in held {
            if op > self.head {
                self.early.insert(op, frame);
            } else if self.log.header(op).map(|header| header.checksum)
                == Some(frame.header.checksum)
                && !self.log.is_available(op)
            {
                self.log.store(frame);
            }
        }
        self.append_early()
    }

    /// Add headers below the lowest verified one, each proven by its child.
    fn take_linked(&mut self, list: &[PrepareHeader]) -> Flow {
        for header in list {
            self.link()?;
            if self.is_linked() {
                return Ok(());
            }
            let below = self.link_floor - 1;
            if header.op() != below || header.is_blank() || self.header(below).is_some() {
                continue;
            }
            let proven = self
                .header(self.link_floor)
                .is_some_and(|child| child.parent() == header.checksum);
            if proven {
                self.log.want(*header);
                self.notice(Notice::HeaderRepaired { op: below });
            }
        }
        self.link()
    }
}
