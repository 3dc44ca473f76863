//! Votes to leave a view.
//!
//! In the paper, a replica moves to the next view when its timer fires. Here it only votes, stays in its view and keeps
//! acknowledging; a quorum of votes starts the view change. An isolated replica cannot inflate views, and one that
//! hears its primary again withdraws its vote. A replica votes only after its *own* timeout: votes of others never make
//! it vote.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use headrace_buffer::Slice;

use crate::api::Status;
use crate::frame::area::{StartViewChange, VoteReason};
use crate::frame::{Frame, Header};
use crate::rules::Rules;

use crate::replica::{Flow, Replica};

/// Lifetime of a vote in vote periods: a vote is repeated at least once within it, since the backoff is at most
/// 32-fold.
const VOTE_LIFETIME_PERIODS: u64 = 64;

#[derive(Debug, Default)]
pub(in crate::replica) struct Votes {
    /// Expiry of each replica's vote, per target view.
    cast: BTreeMap<u32, Vec<Option<u64>>>,
    /// View for which this replica votes.
    own: Option<(u32, VoteReason)>,
    /// Time before which this replica casts no vote: it may have promised silence before its restart.
    not_before_ns: u64,
}

impl Votes {
    pub(in crate::replica) fn silent_until(not_before_ns: u64) -> Self {
        Self {
            not_before_ns,
            ..Self::default()
        }
    }

    fn count(&self, view: u32, now_ns: u64) -> usize {
        self.cast.get(&view).map_or(0, |votes| {
            votes
                .iter()
                .filter(|until| until.is_some_and(|until| until > now_ns))
                .count()
        })
    }

    pub(in crate::replica) fn own_view(&self) -> Option<u32> {
        self.own.map(|(view, _)| view)
    }
}

impl<R: Rules> Replica<R> {
    fn cast_vote(&mut self, view: u32, replica: u8) {
        let life = u64::from(self.config.timeouts.start_view_change_ms)
            * 1_000_000
            * VOTE_LIFETIME_PERIODS;
        let until = self.now.monotonic_ns + life;
        let members = usize::from(self.config.replica_count);
        let votes = self
            .votes
            .cast
            .entry(view)
            .or_insert_with(|| alloc::vec![None; members]);
        votes[usize::from(replica)] = Some(until);
    }

    /// Vote for the next view, and repeat the vote until the view changes or the primary is heard.
    pub(in crate::replica) fn vote(&mut self, reason: VoteReason) {
        if self.config.replica_count == 1 || self.now.monotonic_ns < self.votes.not_before_ns {
            return;
        }
        let target = self.view + 1;
        self.votes.own = Some((target, reason));
        self.cast_vote(target, self.config.replica);
        self.send_vote();
        self.timers.start_view_change.backoff.reset();
        self.arm_start_view_change();
    }

    fn send_vote(&mut self) {
        if let Some((target, reason)) = self.votes.own {
            self.cast_vote(target, self.config.replica);
            self.send_start_view_change(target, reason);
        }
    }

    fn send_start_view_change(&mut self, view: u32, reason: VoteReason) {
        let area = StartViewChange {
            sender_view: self.view,
            log_view: self.log_view,
            op: self.head,
            commit_max: self.commit_max,
            reason,
        };
        let mut origin = self.origin();
        origin.view = view;
        let frame = Frame::seal(origin, area, Slice::default()).any();
        self.broadcast(&frame);
    }

    /// Announce to all that a quorum moved to this view: sufficient proof for lagging replicas to follow.
    pub(in crate::replica) fn announce_view(&mut self) {
        self.send_start_view_change(self.view, VoteReason::Announcement);
    }

    pub(in crate::replica) fn withdraw_vote(&mut self) {
        if let Some((target, _)) = self.votes.own.take() {
            if let Some(votes) = self.votes.cast.get_mut(&target) {
                votes[usize::from(self.config.replica)] = None;
            }
            self.timers.start_view_change.stop();
        }
    }

    /// Discard votes for views up to `view`.
    pub(in crate::replica) fn discard_votes_through(&mut self, view: u32) {
        self.votes.cast = self.votes.cast.split_off(&view.saturating_add(1));
        self.votes.own = None;
    }

    /// Vote as a backup after the timeout of the primary's heartbeat.
    pub(in crate::replica) fn on_silence(&mut self) {
        if self.follows() {
            self.vote(VoteReason::Silence);
            // If the vote is unsuccessful, the timer detects the silence again.
            self.arm_normal_heartbeat();
        }
    }

    pub(in crate::replica) fn on_start_view_change_timeout(&mut self) {
        self.send_vote();
        if self.status == Status::ViewChange {
            self.announce_view();
        }
        if self.votes.own.is_some() || self.status == Status::ViewChange {
            self.arm_start_view_change();
        }
    }

    /// Handle the return of a member: what failed for lack of it may succeed now, so that the waits which grew with every
    /// failure begin anew. It learns of this replica's vote and view at once.
    pub(in crate::replica) fn on_peer_connected(&mut self) {
        if self.timers.start_view_change.armed() {
            self.timers.start_view_change.backoff.reset();
            self.on_start_view_change_timeout();
        }
        self.hasten_view_change_status();
    }

    /// Handle a view change that takes too long, perhaps because its primary has failed too.
    pub(in crate::replica) fn on_view_change_stalled(&mut self) {
        let stalled = matches!(
            self.status,
            Status::ViewChange | Status::Starting | Status::Adopting
        );
        if stalled || self.abdicated {
            self.vote(VoteReason::Stalled);
            self.arm_view_change_status();
        }
    }

    pub(in crate::replica) fn on_start_view_change(
        &mut self,
        header: &Header,
        area: StartViewChange,
    ) -> Flow {
        // A replica can only have entered a view through a quorum.
        if area.sender_view > self.view {
            self.enter_view_change(area.sender_view)?;
        }
        if header.view > self.view && header.view > area.sender_view {
            self.cast_vote(header.view, header.replica);
        }
        self.enter_when_voted()
    }

    /// Enter a view for which a quorum votes, including this replica.
    pub(in crate::replica) fn enter_when_voted(&mut self) -> Flow {
        let Some(target) = self.votes.own_view() else {
            return Ok(());
        };
        if target <= self.view {
            return Ok(());
        }
        let votes = self.votes.count(target, self.now.monotonic_ns);
        if votes >= usize::from(self.quorums.view_change) {
            self.enter_view_change(target)?;
        }
        Ok(())
    }
}
