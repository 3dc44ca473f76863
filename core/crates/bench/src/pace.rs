//! A rate limit that does not drift.

use std::time::{Duration, Instant};

/// Computes when the next batch is due. Times are computed from the start and not from the last batch, so the producer
/// catches up after a stall, which shows in the latency of the batches that it delayed.
#[derive(Debug)]
pub(crate) struct Pace {
    start: Instant,
    batches_per_second: f64,
    batches: u64,
}

impl Pace {
    /// Create a rate limiter; `None` if there is no limit. All `producers` share the limit equally.
    pub(crate) fn new(
        start: Instant,
        limit_bytes_per_second: Option<u64>,
        producers: u32,
        batch_bytes: u64,
    ) -> Option<Self> {
        let share = super::report::as_f64(limit_bytes_per_second?) / f64::from(producers.max(1));
        Some(Self {
            start,
            batches_per_second: share / super::report::as_f64(batch_bytes.max(1)),
            batches: 0,
        })
    }

    /// Time at which the next batch is due; each call advances by one batch.
    pub(crate) fn next_due(&mut self) -> Instant {
        let seconds = super::report::as_f64(self.batches) / self.batches_per_second;
        self.batches += 1;
        // A limit of a byte per hour results in a time after the end of every run.
        let delay = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::from_secs(1 << 30));
        self.start + delay.min(Duration::from_secs(1 << 30))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_due_in_equal_steps_from_the_start() {
        let start = Instant::now();
        // 4000 B/s for two producers and batches of 500 B: four per second each.
        let mut pace = Pace::new(start, Some(4000), 2, 500).expect("limited");
        let due: Vec<u128> = (0..5)
            .map(|_| (pace.next_due() - start).as_millis())
            .collect();
        assert_eq!(due, [0, 250, 500, 750, 1000]);
        assert!(Pace::new(start, None, 2, 500).is_none());
    }
}
