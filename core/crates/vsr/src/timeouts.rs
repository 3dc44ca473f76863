//! Timeouts of the protocol.

use thiserror::Error;

/// Timeouts of the protocol in milliseconds; identical at all replicas of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Interval between two pings of a peer.
    pub ping_ms: u32,
    /// Time after which the oldest uncommitted prepare is retransmitted.
    pub prepare_ms: u32,
    /// Interval between two heartbeats of a primary.
    pub commit_message_ms: u32,
    /// Time after which a backup that hears nothing from its primary votes to leave the view.
    pub normal_heartbeat_ms: u32,
    /// Time after which a vote is repeated.
    pub start_view_change_ms: u32,
    /// Time after which a replica abandons a view change and votes for the next view.
    pub view_change_status_ms: u32,
    /// Time after which the summary of the log is retransmitted.
    pub do_view_change_ms: u32,
    /// Time after which the log of the view is requested again.
    pub request_start_view_ms: u32,
    /// Interval between two rounds of repair.
    pub repair_ms: u32,
    /// Time without progress of commits after which repair falls back to a state transfer.
    pub repair_sync_ms: u32,
    /// Time after which a primary that hears no quorum abdicates.
    pub primary_abdicate_ms: u32,
    /// Time after which the round of a read index is repeated.
    pub probe_ms: u32,
}

/// Named sets of timeouts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profile {
    /// Long timeouts: a fail-over takes about six seconds.
    Seed,
    /// Timeouts for one site: a fail-over takes well below a second, stalls of half a second are survived.
    #[default]
    Default,
    /// Timeouts for distant sites: as [`Profile::Seed`], with longer timeouts for acknowledgements.
    Wan,
}

/// Reason why a set of timeouts is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TimeoutsError {
    /// One of the timeouts is zero.
    #[error("{0} must not be zero")]
    Zero(&'static str),
    /// Backups would leave a view whose primary is alive.
    #[error("normal_heartbeat_ms must be at least four times commit_message_ms")]
    Heartbeat,
    /// A view change would be abandoned before the silence that caused it has timed out.
    #[error("view_change_status_ms must not be below normal_heartbeat_ms")]
    ViewChange,
}

/// Length of a tick in nanoseconds: timers fire at multiples of it.
pub const TICK_NS: u64 = 10_000_000;

impl Profile {
    /// Timeouts of this profile.
    pub const fn timeouts(self) -> Timeouts {
        const SEED: Timeouts = Timeouts {
            ping_ms: 1000,
            prepare_ms: 250,
            commit_message_ms: 500,
            normal_heartbeat_ms: 5000,
            start_view_change_ms: 500,
            view_change_status_ms: 5000,
            do_view_change_ms: 500,
            request_start_view_ms: 1000,
            repair_ms: 100,
            repair_sync_ms: 5000,
            primary_abdicate_ms: 10_000,
            probe_ms: 50,
        };
        match self {
            Self::Seed => SEED,
            Self::Default => Timeouts {
                ping_ms: 500,
                prepare_ms: 100,
                commit_message_ms: 100,
                normal_heartbeat_ms: 600,
                start_view_change_ms: 100,
                view_change_status_ms: 1000,
                do_view_change_ms: 100,
                request_start_view_ms: 200,
                repair_ms: 50,
                repair_sync_ms: 5000,
                primary_abdicate_ms: 1500,
                probe_ms: 50,
            },
            Self::Wan => Timeouts {
                prepare_ms: 500,
                ..SEED
            },
        }
    }
}

impl Default for Timeouts {
    fn default() -> Self {
        Profile::Default.timeouts()
    }
}

impl Timeouts {
    /// Check that the protocol can run with these timeouts.
    ///
    /// # Errors
    /// The first rule that they violate.
    pub fn validate(&self) -> Result<(), TimeoutsError> {
        let all = [
            ("ping_ms", self.ping_ms),
            ("prepare_ms", self.prepare_ms),
            ("commit_message_ms", self.commit_message_ms),
            ("normal_heartbeat_ms", self.normal_heartbeat_ms),
            ("start_view_change_ms", self.start_view_change_ms),
            ("view_change_status_ms", self.view_change_status_ms),
            ("do_view_change_ms", self.do_view_change_ms),
            ("request_start_view_ms", self.request_start_view_ms),
            ("repair_ms", self.repair_ms),
            ("repair_sync_ms", self.repair_sync_ms),
            ("primary_abdicate_ms", self.primary_abdicate_ms),
            ("probe_ms", self.probe_ms),
        ];
        for (name, value) in all {
            if value == 0 {
                return Err(TimeoutsError::Zero(name));
            }
        }
        if u64::from(self.commit_message_ms) * 4 > u64::from(self.normal_heartbeat_ms) {
            return Err(TimeoutsError::Heartbeat);
        }
        if self.normal_heartbeat_ms > self.view_change_status_ms {
            return Err(TimeoutsError::ViewChange);
        }
        Ok(())
    }
}

/// Backoff that grows with every unsuccessful attempt.
///
/// Attempt `k` waits `base + U(0, base)` with `base = after << min(k, 4)`: 2 to 32 times as long, so that replicas that
/// started together drift apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backoff {
    attempts: u32,
}

impl Backoff {
    /// Number of unsuccessful attempts so far.
    pub const fn attempts(self) -> u32 {
        self.attempts
    }

    /// Count one more unsuccessful attempt. Returns the time to wait now, in nanoseconds.
    pub fn next_ns(&mut self, after_ms: u32, random: &mut fastrand::Rng) -> u64 {
        self.attempts = self.attempts.saturating_add(1);
        let base = (u64::from(after_ms) * 1_000_000) << self.attempts.min(4);
        base + random.u64(0..=base)
    }

    /// Count an attempt as [`Self::next_ns`] does, but wait at most `max_ms`.
    pub fn next_capped_ns(
        &mut self,
        after_ms: u32,
        max_ms: u32,
        random: &mut fastrand::Rng,
    ) -> u64 {
        self.next_ns(after_ms, random)
            .min(u64::from(max_ms) * 1_000_000)
    }

    /// Reset the backoff after a successful attempt.
    pub const fn reset(&mut self) {
        self.attempts = 0;
    }
}

/// Maximum time after which a view change is abandoned, in milliseconds.
pub const VIEW_CHANGE_STATUS_MAX_MS: u32 = 40_000;

/// Random time within 10 % of `after_ms`, in nanoseconds, so that one backup detects silence before the others.
pub fn jittered_ns(after_ms: u32, random: &mut fastrand::Rng) -> u64 {
    let after = u64::from(after_ms) * 1_000_000;
    let tenth = after / 10;
    after - tenth + random.u64(0..=2 * tenth)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ctl_1_every_profile_is_valid() {
        for profile in [Profile::Seed, Profile::Default, Profile::Wan] {
            assert_eq!(profile.timeouts().validate(), Ok(()));
        }
        assert_eq!(Profile::default().timeouts(), Timeouts::default());
    }

    #[test]
    fn timeouts_that_would_disturb_a_healthy_group_are_refused() {
        let valid = Timeouts::default();
        let zero = Timeouts {
            probe_ms: 0,
            ..valid
        };
        assert_eq!(zero.validate(), Err(TimeoutsError::Zero("probe_ms")));
        let rare = Timeouts {
            commit_message_ms: valid.normal_heartbeat_ms / 4 + 1,
            ..valid
        };
        assert_eq!(rare.validate(), Err(TimeoutsError::Heartbeat));
        let hasty = Timeouts {
            view_change_status_ms: valid.normal_heartbeat_ms - 1,
            ..valid
        };
        assert_eq!(hasty.validate(), Err(TimeoutsError::ViewChange));
    }

    proptest! {
        #[test]
        fn waiting_grows_with_jitter_and_ends(after_ms in 1..100_000u32, seed: u64) {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut backoff = Backoff::default();
            let after = u64::from(after_ms) * 1_000_000;
            for attempt in 1..10u32 {
                let base = after << attempt.min(4);
                let wait = backoff.next_ns(after_ms, &mut random);
                prop_assert!((base..=2 * base).contains(&wait));
            }
            let capped = backoff.next_capped_ns(after_ms, VIEW_CHANGE_STATUS_MAX_MS, &mut random);
            prop_assert!(capped <= u64::from(VIEW_CHANGE_STATUS_MAX_MS) * 1_000_000);
            backoff.reset();
            prop_assert!(backoff.next_ns(after_ms, &mut random) <= 4 * after);
            let silence = jittered_ns(after_ms, &mut random);
            prop_assert!(silence.abs_diff(after) <= after / 10);
        }

        #[test]
        fn the_same_seed_waits_the_same(after_ms in 1..100_000u32, seed: u64) {
            let waits = |mut random: fastrand::Rng| {
                let mut backoff = Backoff::default();
                core::array::from_fn::<_, 8, _>(|_| backoff.next_ns(after_ms, &mut random))
            };
            prop_assert_eq!(
                waits(fastrand::Rng::with_seed(seed)),
                waits(fastrand::Rng::with_seed(seed))
            );
        }
    }
}
