//! Prepares: made by the primary, accepted by backups (VRR 4.1, steps 3 and 4).

use headrace_buffer::Slice;

use crate::api::{DropReason, FatalReason, Notice, Now, Output, Status};
use crate::frame::area::Prepare;
use crate::frame::{Frame, Origin, PIPELINE_MAX, PrepareFrame, Release};
use crate::rules::Rules;

use crate::replica::{Flow, Replica};

/// Maximum number of bytes in one retransmission of the pipeline.
const RETRANSMIT_BYTES: usize = 4 * 1024 * 1024;

impl<R: Rules> Replica<R> {
    /// Append to the log as primary: send at once and store in parallel. The primary's own copy counts only when it is
    /// durable, like that of any other member.
    pub(in crate::replica) fn prepare(
        &mut self,
        release: Release,
        area: Prepare,
        body: Slice,
    ) -> Flow {
        let Some(below) = self.header(self.head) else {
            return Err(FatalReason::Invariant("a primary knows its newest header"));
        };
        let op = self.head + 1;
        let area = Prepare {
            parent: below.checksum,
            checkpoint_id: self.checkpoint_id_for(op),
            op,
            commit: self.commit_max,
            timestamp_ns: self.stamp(self.now, below.area.timestamp_ns),
            ..area
        };
        let origin = Origin {
            release,
            ..self.origin()
        };
        let frame = Frame::seal(origin, area, body);
        let any = frame.clone().any();
        self.broadcast(&any);
        self.log.store(frame);
        self.head = op;
        if self.config.replica_count > 1 && !self.timers.prepare.armed() {
            self.arm_prepare();
        }
        Ok(())
    }

    /// Timestamp of the next prepare, if the one below has `below_ns`. Log time advances with the monotonic clock,
    /// within the window that the wall clocks of a majority allow. A log that is ahead of the window advances at half
    /// speed, so that deadlines still expire while the clocks catch up. Log time never goes back.
    fn stamp(&self, now: Now, below_ns: u64) -> u64 {
        let (stamped_ns, at_ns) = self.log_time;
        let since_ns = if stamped_ns == below_ns {
            now.monotonic_ns.saturating_sub(at_ns)
        } else {
            0
        };
        below_ns
            .saturating_add(since_ns)
            .clamp(now.wall.earliest_ns, now.wall.latest_ns)
            .max(below_ns.saturating_add(since_ns / 2))
            .max(below_ns + 1)
    }

    /// Record when the newest timestamp of the log was made or received.
    pub(in crate::replica) fn note_log_time(&mut self) {
        let stamped_ns = self.header(self.head).map(|head| head.area.timestamp_ns);
        if let Some(stamped_ns) = stamped_ns
            && stamped_ns != self.log_time.0
        {
            self.log_time = (stamped_ns, self.now.monotonic_ns);
        }
    }

    /// Timestamp that an operation prepared now would get.
    pub fn log_time_ns(&self, now: Now) -> u64 {
        self.stamp(now, self.log_time.0)
    }

    pub(in crate::replica) fn pipeline_has_room(&self) -> bool {
        self.head - self.commit_max < PIPELINE_MAX
    }

    pub(in crate::replica) fn on_prepare(&mut self, frame: PrepareFrame) -> Flow {
        let header = frame.header;
        if header.view > self.view {
            self.ask_for_view(header.view);
            return Ok(());
        }
        if !self.in_log_view() {
            self.dropped(DropReason::Status);
            return Ok(());
        }
        self.must_know(&header)?;
        let op = header.op();
        let of_view = header.view == self.view
            && self.follows()
            && header.replica == self.primary_of(self.view);
        if of_view {
            self.check_digest_of(&header)?;
        }
        if op <= self.head {
            self.on_held_prepare(frame)?;
        } else if of_view {
            self.header_repair.hear_of(op);
            if self.lacks_room() {
                self.hear_primary();
                self.dropped(DropReason::Unstored);
            } else if op > self.head + 1 {
                self.hold_early(frame);
                return Ok(());
            } else {
                self.append_from_primary(frame)?;
                self.append_early()?;
            }
        } else {
            self.dropped(DropReason::OldView);
            return Ok(());
        }
        if of_view {
            let commit = header.area.commit.min(self.head);
            self.learn_commit(commit);
        }
        self.advance()
    }

    fn append_from_primary(&mut self, frame: PrepareFrame) -> Flow {
        let op = frame.header.op();
        debug_assert_eq!(op, self.head + 1);
        let Some(below) = self.header(self.head) else {
            return Err(FatalReason::Invariant("a backup knows its newest header"));
        };
        if below.checksum != frame.header.parent() {
            return Err(FatalReason::Invariant("prepares of one view form a chain"));
        }
        if below.release_in_force() > frame.header.release_in_force() {
            return Err(FatalReason::Invariant(
                "the release in force never goes back",
            ));
        }
        self.log.store(frame);
        self.head = op;
        // Only a new prepare proves that the primary is alive: an old prepare may come from any replica.
        self.hear_primary();
        Ok(())
    }

    fn hold_early(&mut self, frame: PrepareFrame) {
        let op = frame.header.op();
        if op <= self.head + PIPELINE_MAX {
            self.early.insert(op, frame);
        }
        // Request the gap now, unless a repair round is under way: most gaps are reordered frames.
        self.header_repair.soon |= !self.timers.repair.armed();
    }

    /// Accept prepares that arrived before those below them.
    pub(in crate::replica) fn append_early(&mut self) -> Flow {
        loop {
            let next = self.head + 1;
            self.early = self.early.split_off(&next);
            let Some(frame) = self.early.remove(&next) else {
                return Ok(());
            };
            self.append_from_primary(frame)?;
        }
    }

    /// Handle a prepare at or below the head: a duplicate, a wanted body, or a contradiction. The position alone does
    /// not show which: the head may have come from a `StartView` without its body.
    fn on_held_prepare(&mut self, frame: PrepareFrame) -> Flow {
        let header = frame.header;
        let op = header.op();
        match self.log.header(op) {
            Some(held) if held.checksum == header.checksum => {
                if self.log.is_available(op) {
                    // The primary retransmits prepares that it believes unacknowledged, with the view in which they
                    // were prepared, which may be an earlier one.
                    if self.follows() {
                        return self.try_acknowledge(true);
                    }
                } else {
                    self.on_body(frame);
                }
            }
            Some(held) => {
                if held.view == header.view && header.view == self.view {
                    return Err(FatalReason::Invariant(
                        "an operation has one prepare in a view",
                    ));
                }
                self.dropped(DropReason::Conflict);
            }
            None => {
                let wanted = op > self.commit_min
                    && op + 1 >= self.link_floor
                    && self
                        .header(op + 1)
                        .is_some_and(|child| child.parent() == header.checksum);
                if wanted {
                    self.log.want(header);
                    self.on_body(frame);
                }
            }
        }
        Ok(())
    }

    /// Store a wanted body.
    fn on_body(&mut self, frame: PrepareFrame) {
        let op = frame.header.op();
        self.log.store(frame);
        self.body_repair.arrived(op);
        self.notice(Notice::BodyRepaired { op });
    }

    /// Send the oldest uncommitted prepare again; after two attempts the whole pipeline, in order.
    pub(in crate::replica) fn on_prepare_timeout(&mut self) {
        if !self.leads() || self.abdicated || self.head == self.commit_max {
            return;
        }
        let attempts = self.timers.prepare.backoff.attempts();
        let last = if attempts < 2 {
            self.commit_max + 1
        } else {
            self.head
        };
        self.send_pipeline(last);
        let ms = self.config.timeouts.prepare_ms;
        let wait = self.timers.prepare.backoff.next_ns(ms, &mut self.random);
        self.timers.prepare.at(self.now.monotonic_ns + wait);
    }

    /// Send uncommitted prepares up to `last` to those that have not acknowledged them.
    pub(in crate::replica) fn send_pipeline(&mut self, last: u64) {
        let mut bytes = 0;
        for op in self.commit_max + 1..=last {
            let Some(frame) = self.log.frame(op).cloned() else {
                continue;
            };
            bytes += frame.size_bytes();
            if bytes > RETRANSMIT_BYTES {
                return;
            }
            let frame = frame.any();
            for to in self.peers() {
                if self.acks[usize::from(to)] < op {
                    self.out.push(Output::Send {
                        to,
                        frame: frame.clone(),
                    });
                }
            }
        }
    }

    /// Request the log of `view`, after evidence that this view has or had a primary.
    pub(in crate::replica) fn ask_for_view(&mut self, view: u32) {
        let primary = self.primary_of(view);
        if primary != self.config.replica && self.status != Status::Halted {
            self.send_request_start_view(Some(primary));
        }
    }
}
