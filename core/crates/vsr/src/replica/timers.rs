//! Timers. All deadlines are on the monotonic clock; safety depends on none of them.

use crate::api::Status;
use crate::rules::Rules;
use crate::timeouts::{Backoff, VIEW_CHANGE_STATUS_MAX_MS, jittered_ns};

use crate::replica::{Flow, Replica};

const MS: u64 = 1_000_000;

/// Deadline with its backoff.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Timer {
    deadline_ns: Option<u64>,
    pub(super) backoff: Backoff,
}

impl Timer {
    pub(super) fn stop(&mut self) {
        self.deadline_ns = None;
        self.backoff.reset();
    }

    pub(super) fn at(&mut self, deadline_ns: u64) {
        self.deadline_ns = Some(deadline_ns);
    }

    pub(super) fn armed(&self) -> bool {
        self.deadline_ns.is_some()
    }

    /// Return whether the deadline has passed. A timer fires once, however late the tick is.
    fn fires(&mut self, now_ns: u64) -> bool {
        let due = self.deadline_ns.is_some_and(|deadline| deadline <= now_ns);
        if due {
            self.deadline_ns = None;
        }
        due
    }
}

#[derive(Debug, Default)]
pub(super) struct Timers {
    pub(super) prepare: Timer,
    pub(super) commit_message: Timer,
    pub(super) normal_heartbeat: Timer,
    pub(super) start_view_change: Timer,
    pub(super) view_change_status: Timer,
    pub(super) do_view_change: Timer,
    pub(super) request_start_view: Timer,
    pub(super) repair: Timer,
    pub(super) repair_sync: Timer,
    pub(super) abdicate: Timer,
    pub(super) probe: Timer,
    pub(super) transfer: Timer,
}

impl Timers {
    fn all(&self) -> [&Timer; 12] {
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
    }

    pub(super) fn next(&self) -> Option<u64> {
        self.all()
            .into_iter()
            .filter_map(|timer| timer.deadline_ns)
            .min()
    }

    /// Stop the timers of a view: all but those of repair and transfer, which continue across views.
    pub(super) fn leave_view(&mut self) {
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

impl<R: Rules> Replica<R> {
    fn after(&self, ms: u32) -> u64 {
        self.now.monotonic_ns + u64::from(ms) * MS
    }

    pub(super) fn arm_prepare(&mut self) {
        let wait = u64::from(self.config.timeouts.prepare_ms) * MS;
        self.timers.prepare.backoff.reset();
        self.timers.prepare.at(self.now.monotonic_ns + wait);
    }

    pub(super) fn arm_commit_message(&mut self) {
        let at = self.after(self.config.timeouts.commit_message_ms);
        self.timers.commit_message.at(at);
    }

    pub(super) fn arm_normal_heartbeat(&mut self) {
        let wait = jittered_ns(self.config.timeouts.normal_heartbeat_ms, &mut self.random);
        self.timers
            .normal_heartbeat
            .at(self.now.monotonic_ns + wait);
    }

    pub(super) fn arm_start_view_change(&mut self) {
        let ms = self.config.timeouts.start_view_change_ms;
        let wait = self
            .timers
            .start_view_change
            .backoff
            .next_ns(ms, &mut self.random);
        self.timers
            .start_view_change
            .at(self.now.monotonic_ns + wait);
    }

    pub(super) fn arm_view_change_status(&mut self) {
        let ms = self.config.timeouts.view_change_status_ms;
        let wait = self.timers.view_change_status.backoff.next_capped_ns(
            ms,
            VIEW_CHANGE_STATUS_MAX_MS,
            &mut self.random,
        );
        self.timers
            .view_change_status
            .at(self.now.monotonic_ns + wait);
    }

    /// Wait as after the first attempt, but no longer than before.
    pub(super) fn hasten_view_change_status(&mut self) {
        if let Some(before) = self.timers.view_change_status.deadline_ns {
            self.timers.view_change_status.backoff.reset();
            self.arm_view_change_status();
            let timer = &mut self.timers.view_change_status;
            timer.deadline_ns = timer.deadline_ns.min(Some(before));
        }
    }

    pub(super) fn arm_do_view_change(&mut self) {
        let at = self.after(self.config.timeouts.do_view_change_ms);
        self.timers.do_view_change.at(at);
    }

    pub(super) fn arm_request_start_view(&mut self) {
        let wait = jittered_ns(self.config.timeouts.request_start_view_ms, &mut self.random);
        self.timers
            .request_start_view
            .at(self.now.monotonic_ns + wait);
    }

    pub(super) fn arm_repair(&mut self) {
        let at = self.after(self.config.timeouts.repair_ms);
        self.timers.repair.at(at);
    }

    pub(super) fn arm_repair_sync(&mut self) {
        let at = self.after(self.config.timeouts.repair_sync_ms);
        self.timers.repair_sync.at(at);
    }

    pub(super) fn arm_abdicate(&mut self) {
        let at = self.after(self.config.timeouts.primary_abdicate_ms);
        self.timers.abdicate.at(at);
    }

    pub(super) fn arm_probe(&mut self) {
        let ms = self.config.timeouts.probe_ms;
        let wait = self.timers.probe.backoff.next_ns(ms, &mut self.random);
        self.timers.probe.at(self.now.monotonic_ns + wait);
    }

    pub(super) fn arm_transfer(&mut self) {
        // A chunk must be read, sent and stored: its timeout is five rounds of repair.
        let at = self.after(self.config.timeouts.repair_ms.saturating_mul(5));
        self.timers.transfer.at(at);
    }

    pub(super) fn fire_timers(&mut self) -> Flow {
        let now = self.now.monotonic_ns;
        if self.timers.prepare.fires(now) {
            self.on_prepare_timeout();
        }
        if self.timers.commit_message.fires(now) {
            self.on_commit_message_timeout();
        }
        if self.timers.normal_heartbeat.fires(now) {
            self.on_silence();
        }
        if self.timers.start_view_change.fires(now) {
            self.on_start_view_change_timeout();
        }
        if self.timers.view_change_status.fires(now) {
            self.on_view_change_stalled();
        }
        if self.timers.do_view_change.fires(now) {
            self.on_do_view_change_timeout();
        }
        if self.timers.request_start_view.fires(now) {
            self.on_request_start_view_timeout();
        }
        if self.timers.repair.fires(now) {
            self.on_repair_timeout();
        }
        if self.timers.repair_sync.fires(now) {
            self.on_repair_sync_timeout();
        }
        if self.timers.abdicate.fires(now) {
            self.on_abdicate_timeout();
        }
        if self.timers.probe.fires(now) {
            self.on_probe_timeout();
        }
        if self.timers.transfer.fires(now) {
            self.on_transfer_timeout();
        }
        // A view is entered when the votes suffice, no matter whose timer completed them.
        self.enter_when_voted()
    }

    /// Arm the timers of a view that this replica has just begun to serve or to follow.
    pub(super) fn arm_normal(&mut self) {
        debug_assert_eq!(self.status, Status::Normal);
        self.timers.leave_view();
        if self.config.replica_count == 1 {
            return;
        }
        self.arm_repair_sync();
        if self.is_primary() {
            self.arm_commit_message();
            self.arm_abdicate();
            if self.head > self.commit_max {
                self.arm_prepare();
            }
        } else {
            self.arm_normal_heartbeat();
        }
    }
}
