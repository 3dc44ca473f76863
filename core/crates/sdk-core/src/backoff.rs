//! Increasing delays between attempts.

use std::time::Duration;

/// Delays that double with each attempt up to a maximum, each drawn from its upper half, so that clients that lost
/// their server together do not return together.
#[derive(Debug, Clone)]
pub struct Backoff {
    shortest: Duration,
    longest: Duration,
    attempts: u32,
    random: fastrand::Rng,
}

impl Backoff {
    /// Create a back-off; `seed` makes the drawn delays repeatable.
    pub fn new(shortest: Duration, longest: Duration, seed: u64) -> Self {
        Self {
            shortest,
            longest: longest.max(shortest),
            attempts: 0,
            random: fastrand::Rng::with_seed(seed),
        }
    }

    /// Return the next delay.
    pub fn next_delay(&mut self) -> Duration {
        let factor = 1_u32.checked_shl(self.attempts).unwrap_or(u32::MAX);
        self.attempts = self.attempts.saturating_add(1).min(31);
        let delay = self.shortest.saturating_mul(factor).min(self.longest);
        delay.mul_f64(0.5 + self.random.f64() / 2.0)
    }

    /// Begin again with the shortest delay.
    pub fn reset(&mut self) {
        self.attempts = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_longest_and_begin_again() {
        let (shortest, longest) = (Duration::from_millis(50), Duration::from_secs(5));
        let mut backoff = Backoff::new(shortest, longest, 7);
        for attempt in 0..40 {
            let full = shortest.saturating_mul(1 << attempt.min(12)).min(longest);
            let delay = backoff.next_delay();
            assert!(full / 2 <= delay && delay <= full, "{attempt}: {delay:?}");
        }
        backoff.reset();
        assert!(backoff.next_delay() <= shortest);
    }
}
