//! Prepares: made by the primary, accepted by backups (VRR 4.1, steps 3 and 4).

use headrace_buffer::Slice;

use crate::api::{DropReason, Notice, Now, Output};
use crate::frame::area::Prepare;
use crate::frame::{Origin, PrepareFrame, Release};
use crate::replica::flow::Flow;
use crate::replica::log::append::Held;
use crate::rules::Rules;

use crate::replica::Replica;

/// Maximum number of bytes in one retransmission of the pipeline.
const RETRANSMIT_BYTES: usize = 4 * 1024 * 1024;

impl<R: Rules> Replica<R> {
    /// Append to the log as primary: send at once and store in parallel.
    pub(crate) fn prepare(&mut self, release: Release, area: Prepare, body: Slice) -> Flow {
        let area = Prepare {
            checkpoint_id: self.checkpoints.digest_for(self.log.head() + 1),
            ..area
        };
        let origin = Origin {
            release,
            ..self.outbox.origin()
        };
        let frame = self.log.prepare(origin, area, body, self.moment.now())?;
        self.outbox.broadcast(&frame.any());
        if !self.member.is_alone() && !self.timers.prepare.armed() {
            self.timers.prepare.arm_anew(&self.moment);
        }
        Ok(())
    }

    /// Timestamp that an operation prepared now would get.
    pub fn log_time_ns(&self, now: Now) -> u64 {
        self.log.time_ns(now)
    }

    pub(crate) fn on_prepare(&mut self, frame: PrepareFrame) -> Flow {
        let header = frame.header;
        if header.view > self.view.number() {
            self.ask_for_view(header.view);
            return Ok(());
        }
        if !self.view.has_log() {
            self.outbox.dropped(DropReason::Status);
            return Ok(());
        }
        self.log.must_know(&header)?;
        let op = header.op();
        let of_view = header.view == self.view.number()
            && self.view.follows()
            && header.replica == self.view.primary();
        if of_view {
            self.checkpoints.check_prepare(&header)?;
        }
        if op <= self.log.head() {
            self.on_held_prepare(frame)?;
        } else if of_view {
            self.repair.headers.hear_of(op);
            if self.lacks_room() {
                self.hear_primary(1);
                self.outbox.dropped(DropReason::Unstored);
            } else if op > self.log.head() + 1 {
                self.log.hold_early(frame);
                // Request the gap now, unless a repair round is under way: most gaps are reordered frames.
                self.request_soon();
                return Ok(());
            } else {
                self.log.append(frame)?;
                // Only a new prepare proves that the primary is alive: an old prepare may come from any replica.
                let early = self.log.append_early()?;
                self.hear_primary(1 + early);
            }
        } else {
            self.outbox.dropped(DropReason::OldView);
            return Ok(());
        }
        if of_view {
            self.log
                .learn_commit(header.area.commit.min(self.log.head()));
        }
        self.advance()
    }

    /// Handle a prepare at or below the head.
    fn on_held_prepare(&mut self, frame: PrepareFrame) -> Flow {
        let op = frame.header.op();
        match self.log.take_held(frame, self.view.number())? {
            // The primary retransmits prepares that it believes unacknowledged, with the view in which they were
            // prepared, which may be an earlier one.
            Held::Duplicate if self.view.follows() => return self.try_acknowledge(true),
            Held::Stored => {
                self.repair.bodies.arrived(op);
                self.outbox.notice(Notice::BodyRepaired { op });
            }
            Held::Conflict => self.outbox.dropped(DropReason::Conflict),
            Held::Duplicate | Held::Unwanted => {}
        }
        Ok(())
    }

    /// Send the oldest uncommitted prepare again; after two attempts the whole pipeline, in order.
    pub(crate) fn on_prepare_timeout(&mut self) {
        if !self.view.serves() || self.log.head() == self.log.commit_max() {
            return;
        }
        let last = if self.timers.prepare.backoff.attempts() < 2 {
            self.log.commit_max() + 1
        } else {
            self.log.head()
        };
        self.send_pipeline(last);
        self.timers.prepare.arm(&mut self.moment);
    }

    /// Send uncommitted prepares up to `last` to those that have not acknowledged them.
    pub(crate) fn send_pipeline(&mut self, last: u64) {
        let mut bytes = 0;
        for op in self.log.commit_max() + 1..=last {
            let Some(frame) = self.log.frame(op).cloned() else {
                continue;
            };
            bytes += frame.size_bytes();
            if bytes > RETRANSMIT_BYTES {
                return;
            }
            let frame = frame.any();
            for to in self.outbox.peers() {
                if !self.pipeline.has(to, op) {
                    let frame = frame.clone();
                    self.outbox.push(Output::Send { to, frame });
                }
            }
        }
    }
}
