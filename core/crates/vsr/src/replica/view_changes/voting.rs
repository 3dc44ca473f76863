//! Votes to leave a view.
//!
//! In the paper, a replica moves to the next view when its timer fires. Here it only votes, stays in its view and keeps
//! acknowledging; a quorum of votes starts the view change. An isolated replica cannot inflate views, and one that
//! hears its primary again withdraws its vote. A replica votes only after its *own* timeout: votes of others never make
//! it vote.

use headrace_buffer::Slice;

use crate::api::Status;
use crate::frame::area::{StartViewChange, VoteReason};
use crate::frame::{Frame, Header, Origin};
use crate::replica::flow::Flow;
use crate::rules::Rules;

use crate::replica::Replica;

impl<R: Rules> Replica<R> {
    /// Vote for the next view, and repeat the vote until the view changes or the primary is heard.
    pub(crate) fn vote(&mut self, reason: VoteReason) {
        let now_ns = self.moment.ns();
        if self.member.is_alone() || self.view_change.votes.is_silent(now_ns) {
            return;
        }
        let target = self.view.number() + 1;
        self.view_change.votes.vote(target, reason, now_ns);
        self.send_vote();
        self.timers.start_view_change.backoff.reset();
        self.timers.start_view_change.arm(&mut self.moment);
    }

    fn send_vote(&mut self) {
        if let Some((target, reason)) = self.view_change.votes.own() {
            let own = self.member.config.replica;
            let now_ns = self.moment.ns();
            self.view_change.votes.cast(target, own, now_ns);
            self.send_start_view_change(target, reason);
        }
    }

    fn send_start_view_change(&mut self, view: u32, reason: VoteReason) {
        let area = StartViewChange {
            sender_view: self.view.number(),
            log_view: self.view.log_view(),
            op: self.log.head(),
            commit_max: self.log.commit_max(),
            reason,
        };
        let origin = Origin {
            view,
            ..self.outbox.origin()
        };
        let frame = Frame::seal(origin, area, Slice::default()).any();
        self.outbox.broadcast(&frame);
    }

    /// Withdraw the vote of this replica, if it has one.
    pub(crate) fn withdraw_vote(&mut self) {
        if self.view_change.votes.withdraw() {
            self.timers.start_view_change.stop();
        }
    }

    /// Vote as a backup after the timeout of the primary's heartbeat.
    pub(crate) fn on_silence(&mut self) {
        if self.view.follows() {
            self.vote(VoteReason::Silence);
            // If the vote is unsuccessful, the timer detects the silence again.
            self.timers.normal_heartbeat.arm(&mut self.moment);
        }
    }

    pub(crate) fn on_start_view_change_timeout(&mut self) {
        self.send_vote();
        let is_changing = self.view.status() == Status::ViewChange;
        if is_changing {
            // A quorum has moved to this view: sufficient proof for lagging replicas to follow.
            self.send_start_view_change(self.view.number(), VoteReason::Announcement);
        }
        if self.view_change.votes.own().is_some() || is_changing {
            self.timers.start_view_change.arm(&mut self.moment);
        }
    }

    /// Handle the return of a member: what failed for lack of it may succeed now, so that the waits which grew with every
    /// failure begin anew. It learns of this replica's vote and view at once.
    pub(crate) fn on_peer_connected(&mut self) {
        if self.timers.start_view_change.armed() {
            self.timers.start_view_change.backoff.reset();
            self.on_start_view_change_timeout();
        }
        self.timers.view_change_status.hasten(&mut self.moment);
    }

    /// Handle a view change that takes too long, perhaps because its primary has failed too.
    pub(crate) fn on_view_change_stalled(&mut self) {
        let is_stalled = matches!(
            self.view.status(),
            Status::ViewChange | Status::Starting | Status::Adopting
        );
        if is_stalled || self.view.has_abdicated() {
            self.vote(VoteReason::Stalled);
            self.timers.view_change_status.arm(&mut self.moment);
        }
    }

    pub(crate) fn on_start_view_change(&mut self, header: &Header, area: StartViewChange) -> Flow {
        // A replica can only have entered a view through a quorum.
        if area.sender_view > self.view.number() {
            self.enter_view_change(area.sender_view)?;
        }
        if header.view > self.view.number() && header.view > area.sender_view {
            self.view_change
                .votes
                .cast(header.view, header.replica, self.moment.ns());
        }
        self.enter_when_voted()
    }

    /// Enter a view for which a quorum votes, including this replica.
    pub(crate) fn enter_when_voted(&mut self) -> Flow {
        let votes = &self.view_change.votes;
        if let Some((target, _)) = votes.own()
            && target > self.view.number()
            && votes.count(target, self.moment.ns()) >= usize::from(self.member.quorums.view_change)
        {
            self.enter_view_change(target)?;
        }
        Ok(())
    }
}
