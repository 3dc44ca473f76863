//! Estimate of the true time from the wall clocks of all members.
//!
//! One wall clock can be wrong by hours. Of `2f + 1` clocks at most `f` are assumed to be wrong, so the median lies
//! between clocks that are right. The reply to a ping carries the wall clock of the peer, with an error bounded by the
//! round-trip time. The reading is advanced on the local monotonic clock until a newer one arrives. While some clocks
//! have not been read the median is unknown, but an earliest and a latest possible time are: a [`Window`]. Log
//! timestamps advance with the monotonic clock and are clamped to the window (`replica/normal/prepare.rs`).

use alloc::vec::Vec;

/// Number of readings kept per clock; the reading with the smallest error counts.
const READINGS: usize = 4;
/// Divisor for clock drift: the error of a reading grows by a thousandth of its age, more than monotonic clocks differ
/// in rate.
const DRIFT_DIVISOR: i64 = 1_000;
/// Distance from the agreed interval beyond which a clock counts as wrong.
const TOLERANCE_NS: u64 = 500_000_000;

/// Bounds of the true time, in nanoseconds since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Lower bound.
    pub earliest_ns: u64,
    /// Upper bound.
    pub latest_ns: u64,
}

impl Window {
    /// Window without bounds.
    pub const UNKNOWN: Self = Self {
        earliest_ns: 0,
        latest_ns: u64::MAX,
    };

    /// Window that consists of one clock's time.
    pub const fn exact(wall_ns: u64) -> Self {
        Self {
            earliest_ns: wall_ns,
            latest_ns: wall_ns,
        }
    }

    /// Return whether the upper bound is known.
    pub const fn is_known(self) -> bool {
        self.latest_ns != u64::MAX
    }

    /// Distance of a clock from the window, positive if the clock is ahead; 0 inside.
    pub const fn distance_ns(self, wall_ns: u64) -> i64 {
        if wall_ns > self.latest_ns {
            (wall_ns - self.latest_ns).cast_signed()
        } else if wall_ns < self.earliest_ns {
            (self.earliest_ns - wall_ns).cast_signed().saturating_neg()
        } else {
            0
        }
    }
}

impl Default for Window {
    fn default() -> Self {
        Self::UNKNOWN
    }
}

/// Agreement of the local clock with the clocks of the other members.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Agreement {
    /// Too few other clocks have been read since the start.
    #[default]
    Unknown,
    /// The local clock belongs to a majority that agrees.
    Agreed,
    /// A majority agrees, and the local clock is outside of its interval.
    OwnIsWrong {
        /// Deviation in nanoseconds: positive if the local clock is ahead, negative if it is behind.
        by_ns: i64,
    },
    /// No majority agrees: log timestamps advance with the monotonic clock only.
    Disagreed {
        /// Spread of the clocks that may be right, in nanoseconds.
        spread_ns: u64,
    },
}

impl Agreement {
    /// Short name for logs and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Agreed => "agreed",
            Self::OwnIsWrong { .. } => "own_is_wrong",
            Self::Disagreed { .. } => "disagreed",
        }
    }
}

/// One ping reply, received at a time of the local monotonic clock. The peer's wall clock minus the local monotonic
/// clock lies between `least_ns` and `most_ns`.
#[derive(Debug, Clone, Copy)]
struct Reading {
    taken_at: u64,
    least_ns: i64,
    most_ns: i64,
}

impl Reading {
    fn error_ns(self, now_ns: u64) -> i64 {
        let age = signed(now_ns.saturating_sub(self.taken_at));
        self.most_ns
            .saturating_sub(self.least_ns)
            .saturating_add(2 * (age / DRIFT_DIVISOR))
    }

    fn at(self, now_ns: u64) -> Window {
        let drift = signed(now_ns.saturating_sub(self.taken_at)) / DRIFT_DIVISOR;
        let shown = |offset: i64| unsigned(signed(now_ns).saturating_add(offset));
        Window {
            earliest_ns: shown(self.least_ns.saturating_sub(drift)),
            latest_ns: shown(self.most_ns.saturating_add(drift)),
        }
    }
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// Readings of the other members' clocks.
#[derive(Debug)]
pub struct Clocks {
    members: u8,
    peers: Vec<Vec<Reading>>,
}

impl Clocks {
    /// Create an instance without readings.
    pub fn new(members: u8) -> Self {
        Self {
            members,
            peers: (0..members).map(|_| Vec::new()).collect(),
        }
    }

    /// Record the reply to a ping that was sent at `asked_ns` and answered at `now_ns`, both on the local monotonic
    /// clock.
    pub fn read(&mut self, peer: u8, asked_ns: u64, now_ns: u64, wall_ns: u64) {
        let Some(readings) = self.peers.get_mut(usize::from(peer)) else {
            return;
        };
        if asked_ns > now_ns {
            // The ping was sent before a restart of this machine.
            return;
        }
        if readings.len() == READINGS {
            readings.remove(0);
        }
        let offset = |at_ns| signed(wall_ns).saturating_sub(signed(at_ns));
        readings.push(Reading {
            taken_at: now_ns,
            least_ns: offset(now_ns),
            most_ns: offset(asked_ns),
        });
    }

    /// Window of the true time, if the local clock shows `wall_ns`.
    pub fn window(&self, now_ns: u64, wall_ns: u64) -> Window {
        let (mut earliest, mut latest) = (alloc::vec![wall_ns], alloc::vec![wall_ns]);
        for readings in &self.peers {
            let best = readings
                .iter()
                .min_by_key(|reading| reading.error_ns(now_ns));
            if let Some(best) = best {
                let window = best.at(now_ns);
                earliest.push(window.earliest_ns);
                latest.push(window.latest_ns);
            }
        }
        let wrong = usize::from(self.members.saturating_sub(1) / 2);
        let read = earliest.len();
        if read <= wrong {
            return Window::UNKNOWN;
        }
        earliest.sort_unstable();
        latest.sort_unstable();
        Window {
            earliest_ns: earliest[read - wrong - 1],
            latest_ns: latest[wrong],
        }
    }

    /// Agreement of the clocks, if the local clock shows `wall_ns`.
    pub fn agreement(&self, now_ns: u64, wall_ns: u64) -> Agreement {
        let window = self.window(now_ns, wall_ns);
        if !window.is_known() {
            return Agreement::Unknown;
        }
        let (by_ns, spread_ns) = (
            window.distance_ns(wall_ns),
            window.latest_ns.saturating_sub(window.earliest_ns),
        );
        if by_ns.unsigned_abs() > TOLERANCE_NS {
            Agreement::OwnIsWrong { by_ns }
        } else if spread_ns > 2 * TOLERANCE_NS {
            Agreement::Disagreed { spread_ns }
        } else {
            Agreement::Agreed
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const HOUR: u64 = 3_600 * SECOND;
    /// Wall clock time of a correct clock when the monotonic clock shows 0.
    const EPOCH: u64 = 1_700_000_000 * SECOND;

    /// Clocks of the given members, read at second 10 in a round of 2 ms.
    fn read(members: u8, others: &[(u8, i64)]) -> Clocks {
        let mut clocks = Clocks::new(members);
        for (peer, off_ns) in others {
            let (asked, now) = (10 * SECOND, 10 * SECOND + 2_000_000);
            let wall = (EPOCH + asked + 1_000_000).saturating_add_signed(*off_ns);
            clocks.read(*peer, asked, now, wall);
        }
        clocks
    }

    fn off(hours: i64) -> i64 {
        hours * HOUR.cast_signed()
    }

    #[test]
    fn one_wrong_clock_of_three_moves_nothing() {
        let (now, right) = (11 * SECOND, EPOCH + 11 * SECOND);
        let others = read(3, &[(1, 0), (2, 0)]);
        for wrong in [right + HOUR, right - HOUR] {
            let window = others.window(now, wrong);
            assert!(window.distance_ns(right) == 0, "{window:?}");
            assert!(
                window.latest_ns - window.earliest_ns < 10_000_000,
                "{window:?}"
            );
            let by_ns = (wrong.cast_signed()) - right.cast_signed();
            match others.agreement(now, wrong) {
                Agreement::OwnIsWrong { by_ns: said } => assert!(said.abs_diff(by_ns) < 10_000_000),
                other => panic!("{other:?}"),
            }
        }
        for hours in [1, -1] {
            let other_is_wrong = read(3, &[(1, off(hours)), (2, 0)]);
            let window = other_is_wrong.window(now, right);
            assert!(
                window.latest_ns - window.earliest_ns < 10_000_000,
                "{window:?}"
            );
            assert_eq!(other_is_wrong.agreement(now, right), Agreement::Agreed);
        }
    }

    #[test]
    fn two_of_three_that_differ_leave_open_which_is_right() {
        let (now, right) = (11 * SECOND, EPOCH + 11 * SECOND);
        let window = read(3, &[(2, off(1))]).window(now, right);
        assert!(window.earliest_ns <= right && window.latest_ns >= right + HOUR);
        assert!(matches!(
            read(3, &[(2, off(1))]).agreement(now, right),
            Agreement::Disagreed { spread_ns } if spread_ns.abs_diff(HOUR) < 10_000_000
        ));
        assert_eq!(read(3, &[(2, 0)]).agreement(now, right), Agreement::Agreed);
        assert!(!read(3, &[]).window(now, right).is_known());
        assert!(!read(5, &[(1, 0)]).window(now, right).is_known());
    }

    #[test]
    fn a_replica_that_is_alone_believes_its_clock() {
        let clocks = Clocks::new(1);
        assert_eq!(clocks.window(5, EPOCH), Window::exact(EPOCH));
        assert_eq!(clocks.agreement(5, EPOCH), Agreement::Agreed);
    }

    #[test]
    fn a_clock_that_was_put_right_is_believed_after_some_readings() {
        let mut clocks = read(3, &[(1, off(1)), (2, 0)]);
        for count in 0..4 {
            let asked = (12 + count) * SECOND;
            clocks.read(1, asked, asked + 3_000_000, EPOCH + asked + 1_000_000);
        }
        // The third clock is unreachable, and the local clock is now wrong.
        let (now, right) = (17 * SECOND, EPOCH + 17 * SECOND);
        assert!(matches!(
            clocks.agreement(now, right + HOUR),
            Agreement::OwnIsWrong { .. }
        ));
    }

    #[test]
    fn answers_to_pings_of_an_earlier_boot_and_of_other_processes_are_ignored() {
        let mut clocks = Clocks::new(3);
        clocks.read(1, 100, 50, EPOCH);
        clocks.read(9, 10, 50, EPOCH);
        assert!(!clocks.window(60, EPOCH).is_known());
    }

    proptest! {
        /// Property: with at most f wrong clocks, the window lies between clocks that are right once all have been
        /// read.
        #[test]
        fn the_window_is_bracketed_by_right_clocks(
            five: bool,
            wrong in proptest::collection::vec(any::<u64>(), 2),
            places in proptest::collection::vec(0..5_u8, 2),
            apart in proptest::collection::vec(0..SECOND, 5),
            round in 0..SECOND,
        ) {
            let members: u8 = if five { 5 } else { 3 };
            let faulty = usize::from(members / 2);
            let (asked, now) = (HOUR, HOUR + round);
            let shown: Vec<u64> = (0..members)
                .map(|member| {
                    let place = places[..faulty].iter().position(|place| place % members == member);
                    place.map_or(EPOCH + now + apart[usize::from(member)], |place| wrong[place])
                })
                .collect();
            let right: Vec<u64> = (0..members)
                .filter(|member| !places[..faulty].iter().any(|place| place % members == *member))
                .map(|member| EPOCH + now + apart[usize::from(member)])
                .collect();
            let mut clocks = Clocks::new(members);
            for (peer, wall) in (0..members).zip(&shown).skip(1) {
                clocks.read(peer, asked, now, *wall);
            }
            let window = clocks.window(now, shown[0]);
            prop_assert!(window.earliest_ns <= window.latest_ns);
            prop_assert!(window.earliest_ns >= *right.iter().min().unwrap());
            prop_assert!(window.latest_ns <= right.iter().max().unwrap() + round);
        }
    }
}
