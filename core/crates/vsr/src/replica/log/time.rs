//! Time of the log: the timestamps of its operations.

use crate::api::Now;

/// Newest timestamp of the log.
#[derive(Debug, Default)]
pub(crate) struct LogTime {
    stamped_ns: u64,
    /// Monotonic time at which it was made or received.
    at_ns: u64,
}

impl LogTime {
    /// Timestamp of the next prepare, if the one below has `below_ns`. Log time advances with the monotonic clock,
    /// within the window that the wall clocks of a majority allow. A log that is ahead of the window advances at half
    /// speed, so that deadlines still expire while the clocks catch up. Log time never goes back.
    pub(crate) fn stamp(&self, now: Now, below_ns: u64) -> u64 {
        let since_ns = if self.stamped_ns == below_ns {
            now.monotonic_ns.saturating_sub(self.at_ns)
        } else {
            0
        };
        below_ns
            .saturating_add(since_ns)
            .clamp(now.wall.earliest_ns, now.wall.latest_ns)
            .max(below_ns.saturating_add(since_ns / 2))
            .max(below_ns + 1)
    }

    /// Timestamp of the next prepare.
    pub(crate) fn next(&self, now: Now) -> u64 {
        self.stamp(now, self.stamped_ns)
    }

    /// Record the newest timestamp of the log at the end of a step.
    pub(crate) fn note(&mut self, stamped_ns: u64, now: Now) {
        if stamped_ns != self.stamped_ns {
            *self = Self {
                stamped_ns,
                at_ns: now.monotonic_ns,
            };
        }
    }
}
