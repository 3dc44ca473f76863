//! Heartbeats: the primary announces the commit point and learns which backups follow (VRR 4.1, step 6).

use alloc::vec::Vec;

use headrace_buffer::Slice;

use crate::api::{Notice, Now, Output};
use crate::frame::area::{Commit, CommitOk, VoteReason};
use crate::frame::{Frame, FrameFlags, Header};
use crate::replica::flow::Flow;
use crate::rules::{Rules, commit_verified};

use crate::replica::Replica;

impl<R: Rules> Replica<R> {
    pub(crate) fn on_commit_message_timeout(&mut self) {
        if self.view.serves() {
            self.pipeline.probe();
        }
    }

    /// Send one heartbeat at the end of a step if one was requested.
    pub(crate) fn flush_commit(&mut self) {
        if !self.pipeline.take_announcement() || !self.view.serves() || self.member.is_alone() {
            return;
        }
        let Some(checksum) = self.log.checksum(self.log.commit_max()) else {
            return;
        };
        let area = Commit {
            commit_checksum: checksum,
            commit: self.log.commit_max(),
            checkpoint_op: self.superblock.durable_checkpoint().op,
            timestamp_monotonic_ns: self.moment.ns(),
            probe: self.reads.round(),
            gc_floor: self.group_checkpoint(),
        };
        let mut origin = self.outbox.origin();
        if self.pipeline.take_want_answers() {
            origin.flags = FrameFlags::WANT_ACK;
        }
        let frame = Frame::seal(origin, area, Slice::default()).any();
        self.outbox.broadcast(&frame);
        self.timers.commit_message.arm(&mut self.moment);
    }

    pub(crate) fn on_commit(&mut self, header: &Header, area: Commit) -> Flow {
        self.checkpoints.hear(header.replica, area.checkpoint_op);
        if header.view > self.view.number() {
            self.ask_for_view(header.view);
            return Ok(());
        }
        if header.view < self.view.number()
            || !self.view.follows()
            || header.replica != self.view.primary()
        {
            return Ok(());
        }
        self.hear_primary(1);
        self.checkpoints.hear_group(area.gc_floor);
        self.repair.headers.hear_of(area.commit);
        if header.flags.contains(FrameFlags::WANT_ACK) {
            let answer = CommitOk {
                timestamp_monotonic_ns: area.timestamp_monotonic_ns,
                probe: area.probe,
                op: self.log.head(),
                commit_min: self.log.commit_min(),
                checkpoint_op: self.superblock.durable_checkpoint().op,
            };
            self.outbox.send(header.replica, answer, Slice::default());
        }
        if area.commit > self.log.head() {
            // The log of this backup is a prefix of the primary's, so all of it is committed.
            self.log.learn_commit(self.log.head());
            self.request_soon();
            return self.advance();
        }
        let held = self.log.checksum(area.commit);
        if commit_verified(held, area.commit_checksum) {
            self.log.learn_commit(area.commit);
            self.compact();
            return self.advance();
        }
        if held.is_some() || area.commit > self.log.commit_min() {
            self.request_soon();
        }
        Ok(())
    }

    /// Request what is missing in this step, unless a repair round is under way.
    pub(crate) fn request_soon(&mut self) {
        self.repair.headers.hasten_if(!self.timers.repair.armed());
    }

    pub(crate) fn on_commit_ok(&mut self, header: &Header, area: CommitOk) {
        self.checkpoints.hear(header.replica, area.checkpoint_op);
        if !self.view.leads() || header.view != self.view.number() {
            return;
        }
        self.pipeline.hear(header.replica, self.moment.ns());
        self.reads.confirm(header.replica, area.probe);
        self.compact();
    }

    /// Record that the primary of this view is alive, because of `times` frames: withdraw the vote to leave the view.
    pub(crate) fn hear_primary(&mut self, times: usize) {
        for _ in 0..times {
            self.timers.normal_heartbeat.arm(&mut self.moment);
            self.withdraw_vote();
        }
    }

    /// Abdicate as a primary that no quorum answers: redirect clients and vote like any replica.
    pub(crate) fn on_abdicate_timeout(&mut self) {
        if !self.view.serves() {
            return;
        }
        let now_ns = self.moment.ns();
        let wait_ns = u64::from(self.member.config.timeouts.primary_abdicate_ms) * 1_000_000;
        let deadline = self.pipeline.quorum_heard_ns(self.member.quorums, now_ns) + wait_ns;
        if deadline > now_ns {
            self.timers.abdicate.at(deadline);
        } else {
            self.step_down();
        }
    }

    fn step_down(&mut self) {
        self.view.abdicate();
        self.outbox.notice(Notice::Abdicated {
            view: self.view.number(),
        });
        self.timers.commit_message.stop();
        self.timers.prepare.stop();
        self.redirect_clients();
        self.fail_reads();
        self.vote(VoteReason::Abdication);
        // The timer repeats an unsuccessful vote, and casts one that the silence period after a start prevented.
        self.timers.view_change_status.arm(&mut self.moment);
    }

    /// Abdicate deliberately: waiting clients are redirected, and the other replicas elect a new primary. No effect
    /// unless this replica leads a group of several.
    pub fn abdicate(&mut self, now: Now, out: &mut Vec<Output>) {
        self.guarded(now, out, |replica| {
            if replica.view.serves() && !replica.member.is_alone() {
                replica.step_down();
            }
            Ok(())
        });
    }
}
