//! Votes to leave a view, as this replica knows them.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::api::Config;
use crate::frame::area::VoteReason;

/// Lifetime of a vote in vote periods: a vote is repeated at least once within it, since the backoff is at most
/// 32-fold.
const VOTE_LIFETIME_PERIODS: u64 = 64;

#[derive(Debug)]
pub(crate) struct Votes {
    /// Expiry of each replica's vote, per target view. All targets are above the view of this replica.
    cast: BTreeMap<u32, Vec<Option<u64>>>,
    /// View for which this replica votes.
    own: Option<(u32, VoteReason)>,
    /// Time before which this replica casts no vote: it may have promised silence before its restart.
    not_before_ns: u64,
    lifetime_ns: u64,
    replica: u8,
    members: u8,
}

impl Votes {
    pub(crate) fn new(config: &Config, now_ns: u64) -> Self {
        let ms = |timeout_ms: u32| u64::from(timeout_ms) * 1_000_000;
        Self {
            cast: BTreeMap::new(),
            own: None,
            not_before_ns: now_ns + ms(config.timeouts.normal_heartbeat_ms),
            lifetime_ns: ms(config.timeouts.start_view_change_ms) * VOTE_LIFETIME_PERIODS,
            replica: config.replica,
            members: config.replica_count,
        }
    }

    /// Vote for which this replica asks the others.
    pub(crate) fn own(&self) -> Option<(u32, VoteReason)> {
        self.own
    }

    pub(crate) fn is_silent(&self, now_ns: u64) -> bool {
        now_ns < self.not_before_ns
    }

    pub(crate) fn count(&self, view: u32, now_ns: u64) -> usize {
        self.cast.get(&view).map_or(0, |votes| {
            votes
                .iter()
                .filter(|until| until.is_some_and(|until| until > now_ns))
                .count()
        })
    }

    /// Record the vote of a replica.
    pub(crate) fn cast(&mut self, view: u32, replica: u8, now_ns: u64) {
        let members = usize::from(self.members);
        let votes = self
            .cast
            .entry(view)
            .or_insert_with(|| alloc::vec![None; members]);
        votes[usize::from(replica)] = Some(now_ns + self.lifetime_ns);
    }

    /// Vote for a view.
    pub(crate) fn vote(&mut self, view: u32, reason: VoteReason, now_ns: u64) {
        self.own = Some((view, reason));
        self.cast(view, self.replica, now_ns);
    }

    /// Withdraw the own vote. Returns whether there was one.
    pub(crate) fn withdraw(&mut self) -> bool {
        let Some((target, _)) = self.own.take() else {
            return false;
        };
        if let Some(votes) = self.cast.get_mut(&target) {
            votes[usize::from(self.replica)] = None;
        }
        true
    }

    /// Discard votes for views up to `view`.
    pub(crate) fn discard_through(&mut self, view: u32) {
        self.cast = self.cast.split_off(&view.saturating_add(1));
        self.own = None;
    }
}
