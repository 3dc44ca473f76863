//! The wall clock as shards see it: monotonic.

use std::time::{SystemTime, UNIX_EPOCH};

use headrace_model::Timestamp;

/// Reads the system's clock; after a step back the last value is returned until the clock has caught up.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    last: u64,
}

impl Clock {
    /// Microseconds since the epoch, never less than the last call returned.
    pub(crate) fn now(&mut self) -> Timestamp {
        #[allow(
            clippy::disallowed_methods,
            reason = "the one place where shards get their time from"
        )]
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
            .as_micros();
        self.last = self.last.max(u64::try_from(now).unwrap_or(u64::MAX));
        Timestamp(self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_never_goes_back() {
        let mut clock = Clock { last: u64::MAX - 1 };
        assert_eq!(clock.now(), Timestamp(u64::MAX - 1));
        let mut clock = Clock::default();
        let first = clock.now();
        assert!(clock.now() >= first && first.0 > 0);
    }
}
