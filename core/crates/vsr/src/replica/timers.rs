//! Timers. All deadlines are on the monotonic clock; safety depends on none of them.

use core::ops::RangeBounds;

use fastrand::Rng;

use crate::api::Now;
use crate::timeouts::{Backoff, Timeouts, VIEW_CHANGE_STATUS_MAX_MS, jittered_ns};

const MS: u64 = 1_000_000;

/// Time of the current step, and the random numbers of this replica.
#[derive(Debug)]
pub(crate) struct Moment {
    /// The monotonic time never goes back, even if the host says so.
    now: Now,
    /// Source of jitter and nonces. The order of the draws belongs to the behaviour that a seed repeats.
    random: Rng,
}

impl Moment {
    pub(crate) fn new(now: Now, seed: u64) -> Self {
        Self {
            now,
            random: Rng::with_seed(seed),
        }
    }

    pub(crate) fn advance(&mut self, now: Now) {
        self.now = Now {
            monotonic_ns: now.monotonic_ns.max(self.now.monotonic_ns),
            wall: now.wall,
        };
    }

    pub(crate) fn now(&self) -> Now {
        self.now
    }

    pub(crate) fn ns(&self) -> u64 {
        self.now.monotonic_ns
    }

    /// Random number that is not 0.
    pub(crate) fn nonce(&mut self) -> u64 {
        self.random.u64(1..)
    }

    pub(crate) fn byte(&mut self, range: impl RangeBounds<u8>) -> u8 {
        self.random.u8(range)
    }
}

/// Length of the wait for which a timer is armed.
#[derive(Debug, Clone, Copy)]
enum Wait {
    /// The timeout.
    Fixed,
    /// The timeout, give or take a tenth.
    Jittered,
    /// Longer with every attempt.
    Growing,
    /// Longer with every attempt, up to a limit in milliseconds.
    Capped(u32),
}

/// Deadline with its backoff.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timer {
    timeout_ms: u32,
    wait: Wait,
    deadline_ns: Option<u64>,
    pub(crate) backoff: Backoff,
}

impl Timer {
    fn new(timeout_ms: u32, wait: Wait) -> Self {
        Self {
            timeout_ms,
            wait,
            deadline_ns: None,
            backoff: Backoff::default(),
        }
    }

    pub(crate) fn arm(&mut self, moment: &mut Moment) {
        let (ms, random) = (self.timeout_ms, &mut moment.random);
        let wait_ns = match self.wait {
            Wait::Fixed => u64::from(ms) * MS,
            Wait::Jittered => jittered_ns(ms, random),
            Wait::Growing => self.backoff.next_ns(ms, random),
            Wait::Capped(max_ms) => self.backoff.next_capped_ns(ms, max_ms, random),
        };
        self.at(moment.ns() + wait_ns);
    }

    /// Arm the timer as for the first attempt: for the timeout itself.
    pub(crate) fn arm_anew(&mut self, moment: &Moment) {
        self.backoff.reset();
        self.at(moment.ns() + u64::from(self.timeout_ms) * MS);
    }

    /// Wait as after the first attempt, but no longer than before.
    pub(crate) fn hasten(&mut self, moment: &mut Moment) {
        if let Some(before) = self.deadline_ns {
            self.backoff.reset();
            self.arm(moment);
            self.deadline_ns = self.deadline_ns.min(Some(before));
        }
    }

    pub(crate) fn stop(&mut self) {
        self.deadline_ns = None;
        self.backoff.reset();
    }

    pub(crate) fn at(&mut self, deadline_ns: u64) {
        self.deadline_ns = Some(deadline_ns);
    }

    pub(crate) fn armed(&self) -> bool {
        self.deadline_ns.is_some()
    }

    /// Return whether the deadline has passed. A timer fires once, however late the tick is.
    pub(crate) fn fires(&mut self, moment: &Moment) -> bool {
        let due = self
            .deadline_ns
            .is_some_and(|deadline| deadline <= moment.ns());
        if due {
            self.deadline_ns = None;
        }
        due
    }
}

#[derive(Debug)]
pub(crate) struct Timers {
    /// The oldest uncommitted prepare is sent again. Armed while a primary has one.
    pub(crate) prepare: Timer,
    pub(crate) commit_message: Timer,
    pub(crate) normal_heartbeat: Timer,
    pub(crate) start_view_change: Timer,
    pub(crate) view_change_status: Timer,
    pub(crate) do_view_change: Timer,
    pub(crate) request_start_view: Timer,
    pub(crate) repair: Timer,
    pub(crate) repair_sync: Timer,
    pub(crate) abdicate: Timer,
    pub(crate) probe: Timer,
    pub(crate) transfer: Timer,
}

impl Timers {
    pub(crate) fn new(timeouts: &Timeouts) -> Self {
        Self {
            prepare: Timer::new(timeouts.prepare_ms, Wait::Growing),
            commit_message: Timer::new(timeouts.commit_message_ms, Wait::Fixed),
            normal_heartbeat: Timer::new(timeouts.normal_heartbeat_ms, Wait::Jittered),
            start_view_change: Timer::new(timeouts.start_view_change_ms, Wait::Growing),
            view_change_status: Timer::new(
                timeouts.view_change_status_ms,
                Wait::Capped(VIEW_CHANGE_STATUS_MAX_MS),
            ),
            do_view_change: Timer::new(timeouts.do_view_change_ms, Wait::Fixed),
            request_start_view: Timer::new(timeouts.request_start_view_ms, Wait::Jittered),
            repair: Timer::new(timeouts.repair_ms, Wait::Fixed),
            repair_sync: Timer::new(timeouts.repair_sync_ms, Wait::Fixed),
            abdicate: Timer::new(timeouts.primary_abdicate_ms, Wait::Fixed),
            probe: Timer::new(timeouts.probe_ms, Wait::Growing),
            // A chunk must be read, sent and stored: its timeout is five rounds of repair.
            transfer: Timer::new(timeouts.repair_ms.saturating_mul(5), Wait::Fixed),
        }
    }

    pub(crate) fn next(&self) -> Option<u64> {
        [
            &self.prepare,
            &self.commit_message,
            &self.normal_heartbeat,
            &self.start_view_change,
            &self.view_change_status,
            &self.do_view_change,
            &self.request_start_view,
            &self.repair,
            &self.repair_sync,
            &self.abdicate,
            &self.probe,
            &self.transfer,
        ]
        .into_iter()
        .filter_map(|timer| timer.deadline_ns)
        .min()
    }

    /// Stop the timers of a view: all but those of repair and transfer, which continue across views.
    pub(crate) fn leave_view(&mut self) {
        self.prepare.stop();
        self.commit_message.stop();
        self.normal_heartbeat.stop();
        self.start_view_change.stop();
        self.view_change_status.stop();
        self.do_view_change.stop();
        self.request_start_view.stop();
        self.repair_sync.stop();
        self.abdicate.stop();
        self.probe.stop();
    }
}
