//! Votes to leave a view.
//!
//! The paper's replica moves to the next view when its timer fires. Here it only votes, stays in its view and goes on
//! acknowledging; a quorum of votes moves. A replica that is cut off cannot inflate views, and one that hears its primary
//! again withdraws. A replica votes only after its *own* silence: other people's votes never make it vote.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use headrace_buffer::Slice;

use crate::api::Status;
use crate::frame::area::{StartViewChange, VoteReason};
use crate::frame::{Frame, Header};
use crate::rules::Rules;

use super::{Flow, Replica};

/// A vote is repeated at least this often within its life: see the backoff's 32-fold maximum.
const LIFE_IN_PERIODS: u64 = 64;

#[derive(Debug, Default)]
pub(super) struct Votes {
    /// Per target view and replica: until when the vote counts.
    cast: BTreeMap<u32, Vec<Option<u64>>>,
    /// The view that this replica votes for.
    own: Option<(u32, VoteReason)>,
    /// No vote before this time: a replica that has just started may have promised silence in an earlier life.
    not_before_ns: u64,
}

impl Votes {
    pub(super) fn silent_until(not_before_ns: u64) -> Self {
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

    pub(super) fn own_view(&self) -> Option<u32> {
        self.own.map(|(view, _)| view)
    }
}

impl<R: Rules> Replica<R> {
    fn cast_vote(&mut self, view: u32, replica: u8) {
        let life =
            u64::from(self.config.timeouts.start_view_change_ms) * 1_000_000 * LIFE_IN_PERIODS;
        let until = self.now.monotonic_ns + life;
        let members = usize::from(self.config.replica_count);
        let votes = self
            .votes
            .cast
            .entry(view)
            .or_insert_with(|| alloc::vec![None; members]);
        votes[usize::from(replica)] = Some(until);
    }

    /// Votes for the next view and goes on voting until the view changes or the primary is heard.
    pub(super) fn vote(&mut self, reason: VoteReason) {
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

    /// Tells everyone that a quorum moved to this view: proof enough for stragglers to follow.
    pub(super) fn announce_view(&mut self) {
        self.send_start_view_change(self.view, VoteReason::Announcement);
    }

    pub(super) fn withdraw_vote(&mut self) {
        if let Some((target, _)) = self.votes.own.take() {
            if let Some(votes) = self.votes.cast.get_mut(&target) {
                votes[usize::from(self.config.replica)] = None;
            }
            self.timers.start_view_change.stop();
        }
    }

    /// Votes for views up to `view` are settled.
    pub(super) fn settle_votes(&mut self, view: u32) {
        self.votes.cast = self.votes.cast.split_off(&view.saturating_add(1));
        self.votes.own = None;
    }

    /// A backup has heard nothing from its primary.
    pub(super) fn on_silence(&mut self) {
        if self.follows() {
            self.vote(VoteReason::Silence);
            // Should the vote come to nothing, the silence is noticed again.
            self.arm_normal_heartbeat();
        }
    }

    pub(super) fn on_start_view_change_timeout(&mut self) {
        self.send_vote();
        if self.status == Status::ViewChange {
            self.announce_view();
        }
        if self.votes.own.is_some() || self.status == Status::ViewChange {
            self.arm_start_view_change();
        }
    }

    /// The change to this view takes too long: perhaps its primary is gone too.
    pub(super) fn on_view_change_stalled(&mut self) {
        let stalled = matches!(
            self.status,
            Status::ViewChange | Status::Starting | Status::Adopting
        );
        if stalled || self.abdicated {
            self.vote(VoteReason::Stalled);
            self.arm_view_change_status();
        }
    }

    pub(super) fn on_start_view_change(&mut self, header: &Header, area: StartViewChange) -> Flow {
        // Whoever is in a view has got there through a quorum.
        if area.sender_view > self.view {
            self.enter_view_change(area.sender_view)?;
        }
        if header.view > self.view && header.view > area.sender_view {
            self.cast_vote(header.view, header.replica);
        }
        self.enter_when_voted()
    }

    /// Enters a view for which a quorum votes, this replica among it.
    pub(super) fn enter_when_voted(&mut self) -> Flow {
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
