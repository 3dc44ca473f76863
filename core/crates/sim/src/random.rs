//! Counter-based randomness: the fate of the n-th message of a link is a function of the seed, the link and n.
//!
//! With a sequential generator the removal of one fault would shift all later draws, and a failing run could not be
//! minimized. Here draws are independent: without one fault or one client all other fates stay the same.

/// Purpose of a draw. Two domains never share a draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Domain {
    /// Configuration of the run.
    Options = 1,
    /// List of planned faults.
    Plan = 2,
    /// Fate of one frame on one link.
    Network = 3,
    /// Latency of one disk request.
    Disk = 4,
    /// Effect of a crash on writes in flight.
    Loss = 5,
    /// Place of damage at rest.
    Damage = 6,
    /// Next action of a client.
    Workload = 7,
    /// Seed for the jitter of a replica core.
    Core = 8,
    /// Speed of a process.
    Process = 9,
    /// Clock of a process.
    Clock = 10,
}

/// Seed from which all draws are derived.
#[derive(Clone, Copy, Debug)]
pub struct Fates {
    seed: u64,
}

impl Fates {
    /// Draws of the run with this seed.
    pub const fn new(seed: u64) -> Self {
        Self { seed }
    }

    /// Draw for the `count`-th event of `(domain, a, b)`.
    pub fn draw(&self, domain: Domain, a: u64, b: u64, count: u64) -> Draw {
        let mut state = mix(self.seed ^ 0x9e37_79b9_7f4a_7c15);
        for word in [domain as u64, a, b, count] {
            state = mix(state.wrapping_add(0x9e37_79b9_7f4a_7c15) ^ mix(word));
        }
        Draw { state }
    }
}

/// Random numbers for one event: a splitmix64 sequence.
#[derive(Clone, Debug)]
pub struct Draw {
    state: u64,
}

impl Draw {
    /// Next 64 bits.
    pub fn word(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.state)
    }

    /// Number in `0..bound`; 0 if `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        let wide = u128::from(self.word()) * u128::from(bound);
        u64::try_from(wide >> 64).expect("the upper half of a product of two words is one word")
    }

    /// Number in `low..=high`.
    pub fn within(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low).saturating_add(1))
    }

    /// Return true with a probability of `per_million` in a million.
    pub fn chance(&mut self, per_million: u32) -> bool {
        self.below(1_000_000) < u64::from(per_million)
    }

    /// One of `choices`, with equal probability.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[usize::try_from(self.below(choices.len() as u64)).expect("an index")]
    }

    /// Exponentially distributed number with this mean, computed in integers so that the result is the same on every
    /// machine.
    ///
    /// The logarithm is piecewise linear between the powers of two, with an error of at most 9 %.
    pub fn exponential(&mut self, mean: u64) -> u64 {
        let bits = self.word() | 1;
        let zeros = bits.leading_zeros();
        let fraction = (bits << zeros) >> 32 & 0x7fff_ffff;
        // log2 of 1/u in units of 2^-31, multiplied by ln 2.
        let log2 = (u128::from(zeros) << 31) + u128::from(0x8000_0000 - fraction);
        let scaled = u128::from(mean) * log2 * 693_147 / 1_000_000;
        u64::try_from(scaled >> 31).unwrap_or(u64::MAX)
    }
}

const fn mix(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_draw_depends_on_each_of_its_coordinates_and_on_nothing_else() {
        let fates = Fates::new(7);
        let base = fates.draw(Domain::Network, 1, 2, 3).word();
        assert_eq!(base, Fates::new(7).draw(Domain::Network, 1, 2, 3).word());
        for other in [
            fates.draw(Domain::Disk, 1, 2, 3).word(),
            fates.draw(Domain::Network, 2, 1, 3).word(),
            fates.draw(Domain::Network, 1, 2, 4).word(),
            Fates::new(8).draw(Domain::Network, 1, 2, 3).word(),
        ] {
            assert_ne!(base, other);
        }
    }

    #[test]
    fn exponential_draws_have_about_their_mean() {
        let fates = Fates::new(1);
        let total: u64 = (0..20_000)
            .map(|count| {
                fates
                    .draw(Domain::Network, 0, 0, count)
                    .exponential(1_000_000)
            })
            .sum();
        let mean = total / 20_000;
        assert!((900_000..1_150_000).contains(&mean), "mean {mean}");
    }

    #[test]
    fn draws_stay_in_their_bounds() {
        let mut draw = Fates::new(3).draw(Domain::Plan, 0, 0, 0);
        for _ in 0..1_000 {
            assert!(draw.below(7) < 7);
            assert!((5..=9).contains(&draw.within(5, 9)));
            assert_eq!(draw.below(0), 0);
            assert!(!draw.chance(0));
            assert!(draw.chance(1_000_000));
        }
    }
}
