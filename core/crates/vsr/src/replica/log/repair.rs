//! Headers and bodies that the log lacks.

use alloc::vec::Vec;

use super::Log;
use crate::api::{FatalReason, Notice};
use crate::frame::PrepareHeader;
use crate::replica::outbox::Outbox;
use crate::rules::BodyState;

impl Log {
    /// Operations with a verified header and a missing body, lowest first and at most `count`: those to be executed.
    /// Then damaged records of executed operations that are kept for other replicas.
    pub(crate) fn wanted_bodies(&self, count: usize) -> Vec<u64> {
        let mut wanted: Vec<u64> = self
            .unexecuted()
            .filter(|op| {
                matches!(self.body(*op), BodyState::Missing | BodyState::Faulty)
                    && self.entry(*op).is_some()
            })
            .take(count)
            .collect();
        wanted.extend(self.damaged_below());
        wanted
    }

    /// Return whether a body may be missing. Cheap in the normal case: every operation up to the head is executed or in
    /// memory.
    pub(crate) fn wants_bodies(&self) -> bool {
        self.unexecuted().any(|op| !self.is_available(op)) || self.damaged_below().next().is_some()
    }

    /// Verified operations that were not executed.
    fn unexecuted(&self) -> impl Iterator<Item = u64> + use<> {
        self.link_floor.max(self.commit_min + 1)..=self.head
    }

    /// Damaged records of executed operations that no checkpoint of this replica covers.
    fn damaged_below(&self) -> impl Iterator<Item = u64> {
        self.entries.faulty().filter(|op| {
            *op > self.checkpoint.op
                && *op <= self.commit_min
                && self.entry(*op).is_some()
                && self.body(*op) == BodyState::Faulty
        })
    }

    /// Add headers above the head, sent by the primary of this view, and the prepares that were held back for them.
    /// Returns the number of prepares that were appended.
    pub(crate) fn append_headers(
        &mut self,
        list: &[PrepareHeader],
        outbox: &mut Outbox,
    ) -> Result<usize, FatalReason> {
        for header in list.iter().rev() {
            if header.op() != self.head + 1 || header.is_blank() {
                continue;
            }
            if self.checksum(self.head) != Some(header.parent()) {
                return Ok(0);
            }
            self.must_know(header)?;
            self.entries.want(*header);
            self.head = header.op();
            outbox.notice(Notice::HeaderRepaired { op: self.head });
        }
        // Prepares that were held back may be the bodies of these headers.
        let held = core::mem::take(&mut self.early);
        for (op, frame) in held {
            if op > self.head {
                self.early.insert(op, frame);
            } else if self.entry(op).map(|header| header.checksum) == Some(frame.header.checksum)
                && !self.is_available(op)
            {
                self.entries.store(frame);
            }
        }
        self.append_early()
    }

    /// Add the header below the lowest verified one, if its child proves it.
    pub(crate) fn take_linked(&mut self, header: &PrepareHeader, outbox: &mut Outbox) {
        let below = self.link_floor - 1;
        if header.op() != below || header.is_blank() || self.header(below).is_some() {
            return;
        }
        let proven = self
            .header(self.link_floor)
            .is_some_and(|child| child.parent() == header.checksum);
        if proven {
            self.entries.want(*header);
            outbox.notice(Notice::HeaderRepaired { op: below });
        }
    }
}
