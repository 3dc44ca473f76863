//! Clocks of a process: a monotonic clock that is slightly fast or slow, and a wall clock that jumps.

use headrace_vsr::neighbours::Reading;

use crate::options::SECOND;
use crate::random::{Domain, Fates};

/// Virtual wall time at the start of a run: 2026-01-01.
const EPOCH_NS: u64 = 1_767_225_600 * SECOND;
const MILLION: i128 = 1_000_000;

/// Clocks of one node.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start_ns: u64,
    skew_ppm: i64,
    wall_offset_ns: i64,
}

impl Clock {
    /// Clocks of a replica: a rate error of at most `skew_ppm` and a wall clock offset of at most ten seconds.
    pub fn new(fates: &Fates, replica: u8, skew_ppm: u32) -> Self {
        let mut draw = fates.draw(Domain::Clock, replica.into(), 0, 0);
        let signed = |number: u64, half: u64| number.cast_signed() - half.cast_signed();
        let skew = u64::from(skew_ppm);
        Self {
            start_ns: draw.below(100 * SECOND),
            skew_ppm: signed(draw.below(2 * skew + 1), skew),
            wall_offset_ns: signed(draw.below(20 * SECOND), 10 * SECOND),
        }
    }

    /// Make the wall clock jump; the monotonic clock is unaffected.
    pub fn jump(&mut self, by_ns: i64) {
        self.wall_offset_ns += by_ns;
    }

    /// Readings of the clocks at this virtual time.
    pub fn at(&self, virtual_ns: u64) -> Reading {
        let monotonic_ns = self.start_ns + self.scale(virtual_ns);
        Reading {
            monotonic_ns,
            wall_ns: self.wall_ns(virtual_ns),
        }
    }

    /// Reading of the wall clock at this virtual time.
    pub const fn wall_ns(&self, virtual_ns: u64) -> u64 {
        (EPOCH_NS + virtual_ns).saturating_add_signed(self.wall_offset_ns)
    }

    /// First virtual time at which the monotonic clock shows at least `monotonic_ns`.
    pub fn virtual_of(&self, monotonic_ns: u64) -> u64 {
        let elapsed = i128::from(monotonic_ns.saturating_sub(self.start_ns));
        let estimate = elapsed * MILLION / (MILLION + i128::from(self.skew_ppm));
        let mut virtual_ns = u64::try_from(estimate)
            .expect("not negative")
            .saturating_sub(1);
        while self.start_ns + self.scale(virtual_ns) < monotonic_ns {
            virtual_ns += 1;
        }
        virtual_ns
    }

    fn scale(&self, virtual_ns: u64) -> u64 {
        let scaled = i128::from(virtual_ns) * (MILLION + i128::from(self.skew_ppm)) / MILLION;
        u64::try_from(scaled).expect("a clock is never faster than a hundredth")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_is_reached_at_its_virtual_time_and_not_before() {
        for replica in 0..20 {
            let clock = Clock::new(&Fates::new(5), replica, 10_000);
            for virtual_ns in [0, 1, 999, 10_000_007, 77 * SECOND] {
                let seen = clock.at(virtual_ns).monotonic_ns;
                let back = clock.virtual_of(seen);
                assert!(back <= virtual_ns && clock.at(back).monotonic_ns >= seen);
            }
        }
    }

    #[test]
    fn a_jump_moves_the_wall_clock_only() {
        let mut clock = Clock::new(&Fates::new(5), 1, 200);
        let before = clock.at(SECOND);
        clock.jump(-3_600_000_000_000);
        let after = clock.at(SECOND);
        assert_eq!(before.monotonic_ns, after.monotonic_ns);
        assert_eq!(before.wall_ns - after.wall_ns, 3_600 * SECOND);
    }
}
