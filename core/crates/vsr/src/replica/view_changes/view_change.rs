//! View change: entering a view and summarising the log for its primary (VRR 4.2, `DoViewChange`).

use headrace_buffer::Slice;

use crate::api::{DropReason, Notice, Status};
use crate::frame::area::{DoViewChange, RequestStartView, VoteReason};
use crate::frame::body::headers;
use crate::frame::{Area, Frame};
use crate::replica::flow::Flow;
use crate::replica::view_changes::merge::{Decision, Summary};
use crate::replica::view_changes::suffix::Suffix;
use crate::rules::Rules;

use crate::replica::Replica;

impl<R: Rules> Replica<R> {
    /// Leave the current view for `view`: nothing is truncated or revoked here, the log stays unchanged.
    pub(crate) fn enter_view_change(&mut self, view: u32) -> Flow {
        if view <= self.view.number() || self.view.status() == Status::Halted {
            return Ok(());
        }
        let durable = *self.superblock.durable_checkpoint();
        let suffix = Suffix::of(&self.log, &self.view, &self.member.rules, durable.op);
        if suffix.top < self.log.head() {
            self.log
                .drop_above(suffix.top, self.superblock.durable_sequence());
        }
        self.leave_view();
        self.view.enter(view);
        self.outbox.enter_view(view);
        self.view_change.votes.discard_through(view);
        let area = suffix.summary(&self.log, &self.view, &durable);
        let body = Slice::from_vec(headers::encode(&suffix.headers));
        let frame = self.outbox.seal(area, body);
        self.view.record_suffix(suffix.top, suffix.headers);
        let sequence = self.superblock.request();
        self.view_change.begin(frame, sequence);
        self.outbox.notice(self.view.notice());
        self.timers.view_change_status.arm(&mut self.moment);
        self.timers.start_view_change.arm(&mut self.moment);
        self.timers.request_start_view.arm(&mut self.moment);
        if !self.view.is_primary() {
            self.timers.do_view_change.arm(&mut self.moment);
        }
        self.send_do_view_change()
    }

    /// Reset the in-memory state of the view.
    pub(crate) fn leave_view(&mut self) {
        let was_leading = self.view.leads();
        self.timers.leave_view();
        self.pipeline.leave_view();
        self.view.leave();
        self.log.discard_early();
        self.repair.leave_view();
        if was_leading {
            self.redirect_clients();
        }
        self.fail_reads();
    }

    /// Send the summary once the superblock on which it depends is durable.
    pub(crate) fn send_do_view_change(&mut self) -> Flow {
        if self.view.status() != Status::ViewChange {
            return Ok(());
        }
        let (superblock, rules) = (&self.superblock, &self.member.rules);
        let covers = |sequence| superblock.covers(rules, sequence);
        let Some(frame) = self.view_change.take_own(covers) else {
            return Ok(());
        };
        if !self.view.is_primary() {
            self.outbox.send_frame(self.view.primary(), frame);
            return Ok(());
        }
        let Area::DoViewChange(area) = frame.header.area else {
            return Ok(());
        };
        self.take_summary(&frame, area)
    }

    pub(crate) fn on_do_view_change_timeout(&mut self) {
        if self.view.status() != Status::ViewChange || self.view.is_primary() {
            return;
        }
        if let Some(frame) = self.view_change.sent() {
            self.outbox.send_frame(self.view.primary(), frame.clone());
        }
        self.timers.do_view_change.arm(&mut self.moment);
    }

    pub(crate) fn on_do_view_change(&mut self, frame: &Frame, area: DoViewChange) -> Flow {
        let header = frame.header;
        self.checkpoints.hear(header.replica, area.checkpoint_op);
        if self.view.primary_of(header.view) != self.member.config.replica {
            self.outbox.dropped(DropReason::Status);
            return Ok(());
        }
        if header.view > self.view.number() {
            self.enter_view_change(header.view)?;
        }
        if self.view.leads() && header.view <= self.view.number() {
            self.send_start_view_to(header.replica, 0);
            return Ok(());
        }
        if header.view != self.view.number() || self.view.status() != Status::ViewChange {
            return Ok(());
        }
        self.take_summary(frame, area)
    }

    fn take_summary(&mut self, frame: &Frame, area: DoViewChange) -> Flow {
        let Some(summary) = headers::decode(&frame.body)
            .ok()
            .and_then(|headers| Summary::new(area, headers))
        else {
            self.outbox.dropped(DropReason::Malformed);
            return Ok(());
        };
        let member = &self.member;
        let author = frame.header.replica;
        match self
            .view_change
            .decide(author, summary, &member.rules, member.quorums)?
        {
            Decision::Wait => Ok(()),
            Decision::Deadlock(op) => {
                if self.view_change.deadlock(op) {
                    self.outbox.notice(Notice::Deadlock { op });
                }
                Ok(())
            }
            Decision::Decided(log) => self.start_with(&log),
        }
    }

    /// Request the log of the view: from all replicas, or from the primary of a view that is known.
    pub(crate) fn send_request_start_view(&mut self, to: Option<u8>) {
        let area = RequestStartView {
            nonce: self.view_change.nonce(),
            log_view: self.view.log_view(),
            op: self.log.head(),
        };
        let frame = self.outbox.seal(area, Slice::default());
        match to {
            Some(to) => self.outbox.send_frame(to, frame),
            None => self.outbox.broadcast(&frame),
        }
    }

    /// Request the log of `view`, after evidence that this view has or had a primary.
    pub(crate) fn ask_for_view(&mut self, view: u32) {
        let primary = self.view.primary_of(view);
        if primary != self.member.config.replica && self.view.status() != Status::Halted {
            self.send_request_start_view(Some(primary));
        }
    }

    pub(crate) fn on_request_start_view_timeout(&mut self) {
        match self.view.status() {
            Status::Recovering => {
                self.send_request_start_view(None);
                // No replica answers: perhaps all have just started, or wait for a primary that has failed.
                if self.view_change.count_request() > 5 && self.view_change.votes.own().is_none() {
                    self.vote(VoteReason::Stalled);
                }
            }
            Status::ViewChange => self.send_request_start_view(None),
            _ => return,
        }
        self.timers.request_start_view.arm(&mut self.moment);
    }
}
