//! Prepares that enter the log (VRR 4.1, steps 3 and 4).

use headrace_buffer::Slice;

use super::Log;
use crate::api::{FatalReason, Now};
use crate::frame::area::Prepare;
use crate::frame::{Origin, PIPELINE_MAX, PrepareFrame};
use crate::replica::flow::{Flow, broken};

/// Treatment of a prepare at or below the head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Held {
    /// The body is known.
    Duplicate,
    /// The body was wanted, and is stored now.
    Stored,
    /// The prepare contradicts the log.
    Conflict,
    /// The log has no place for it.
    Unwanted,
}

impl Log {
    /// Append an operation as primary. The primary's own copy counts only when it is durable, like that of any other
    /// member.
    pub(crate) fn prepare(
        &mut self,
        origin: Origin,
        area: Prepare,
        body: Slice,
        now: Now,
    ) -> Result<PrepareFrame, FatalReason> {
        let Some(below) = self.header(self.head) else {
            return broken("a primary knows its newest header");
        };
        let area = Prepare {
            parent: below.checksum,
            op: self.head + 1,
            commit: self.commit_max,
            timestamp_ns: self.time.stamp(now, below.area.timestamp_ns),
            ..area
        };
        let frame = PrepareFrame::seal(origin, area, body);
        self.store_head(frame.clone());
        Ok(frame)
    }

    /// Append a prepare of the primary behind the head.
    pub(crate) fn append(&mut self, frame: PrepareFrame) -> Flow {
        debug_assert_eq!(frame.header.op(), self.head + 1);
        let Some(below) = self.header(self.head) else {
            return broken("a backup knows its newest header");
        };
        if below.checksum != frame.header.parent() {
            return broken("prepares of one view form a chain");
        }
        if below.release_in_force() > frame.header.release_in_force() {
            return broken("the release in force never goes back");
        }
        self.store_head(frame);
        Ok(())
    }

    fn store_head(&mut self, frame: PrepareFrame) {
        self.head = frame.header.op();
        self.entries.store(frame);
    }

    /// Keep a prepare that has arrived before those below it, if it is near enough.
    pub(crate) fn hold_early(&mut self, frame: PrepareFrame) {
        let op = frame.header.op();
        if op <= self.head + PIPELINE_MAX {
            self.early.insert(op, frame);
        }
    }

    /// Append the prepares that had arrived before those below them. Returns their number.
    pub(crate) fn append_early(&mut self) -> Result<usize, FatalReason> {
        let mut appended = 0;
        loop {
            let next = self.head + 1;
            self.early = self.early.split_off(&next);
            let Some(frame) = self.early.remove(&next) else {
                return Ok(appended);
            };
            self.append(frame)?;
            appended += 1;
        }
    }

    /// Forget the prepares that have arrived early: they belong to the view that is being left.
    pub(crate) fn discard_early(&mut self) {
        self.early.clear();
    }

    /// Take a prepare at or below the head: a duplicate, a wanted body, or a contradiction. The position alone does not
    /// show which: the head may have come from a `StartView` without its body.
    pub(crate) fn take_held(
        &mut self,
        frame: PrepareFrame,
        view: u32,
    ) -> Result<Held, FatalReason> {
        let header = frame.header;
        let op = header.op();
        match self.entry(op) {
            Some(held) if held.checksum == header.checksum => {
                if self.is_available(op) {
                    return Ok(Held::Duplicate);
                }
            }
            Some(held) if held.view == header.view && header.view == view => {
                return broken("an operation has one prepare in a view");
            }
            Some(_) => return Ok(Held::Conflict),
            None => {
                let wanted = op > self.commit_min
                    && op + 1 >= self.link_floor
                    && self
                        .header(op + 1)
                        .is_some_and(|child| child.parent() == header.checksum);
                if !wanted {
                    return Ok(Held::Unwanted);
                }
            }
        }
        self.entries.store(frame);
        Ok(Held::Stored)
    }
}
