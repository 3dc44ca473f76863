//! Time of a shard: the wall clock, except that it never goes back and never stands still.

use std::{
    collections::VecDeque,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use headrace_model::{Level, Timestamp};
use headrace_shard::ClockState;

/// Nanoseconds of the monotonic clock for each microsecond of time while the wall clock is behind.
const CATCH_UP_NANOS: u64 = 2_000;

/// Lead over the wall clock that is reported. Smaller steps are common corrections, and are over soon.
const REPORTED_LEAD_MICROS: u64 = 1_000_000;

/// Step forward of the wall clock, against the monotonic one, that is doubted. Smaller ones are corrections.
const DOUBTED_STEP_MICROS: u64 = 60_000_000;

/// Time after which a step forward is believed, if the wall clock was not set back meanwhile.
const BELIEVED_AFTER: Duration = Duration::from_secs(600);

/// Follows the system's wall clock. After a step back, time advances at half the speed of the monotonic clock until the
/// wall clock has caught up: deadlines expire late, but they expire (decision 32).
#[derive(Debug, Default)]
pub(crate) struct Clock {
    last: u64,
    wall: u64,
    read_at: Option<Instant>,
    /// Monotonic time that has not made a microsecond yet, in nanoseconds.
    remainder_nanos: u64,
    is_reported: bool,
    /// Microseconds of steps forward that are doubted, and the time of the newest one.
    doubted_micros: u64,
    doubted_since: Option<Instant>,
    notices: VecDeque<(Level, String)>,
}

impl Clock {
    /// Microseconds since the epoch, never less than the last call returned. Reads two clocks of the vDSO, which needs
    /// no system call.
    pub(crate) fn now(&mut self) -> Timestamp {
        #[allow(
            clippy::disallowed_methods,
            reason = "the one place where shards get their time from"
        )]
        let (wall, instant) = (SystemTime::now(), Instant::now());
        let wall = wall
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
            .as_micros();
        self.advance(u64::try_from(wall).unwrap_or(u64::MAX), instant)
    }

    /// Microseconds by which the last time returned was ahead of the wall clock.
    pub(crate) fn lead_micros(&self) -> u64 {
        self.last - self.wall
    }

    /// Relation of the last time returned to the wall clock.
    pub(crate) fn state(&self) -> ClockState {
        ClockState {
            lead_micros: self.lead_micros(),
            doubted_micros: self.doubted_micros,
        }
    }

    /// Line for the log: one after the wall clock was set back, one when it has caught up, and one for each step ahead.
    pub(crate) fn take_notice(&mut self) -> Option<(Level, String)> {
        if let Some(notice) = self.notices.pop_front() {
            return Some(notice);
        }
        let lead_micros = self.lead_micros();
        if !self.is_reported && lead_micros >= REPORTED_LEAD_MICROS {
            self.is_reported = true;
            let message = format!(
                "the clock was set back by {} s: until it has caught up, time advances at half speed, messages are \
                 stamped ahead of the clock, and deadlines expire late; a restart ends that at once",
                lead_micros / 1_000_000
            );
            return Some((Level::Warning, message));
        }
        if self.is_reported && lead_micros == 0 {
            self.is_reported = false;
            let message = "the clock has caught up: time advances at its speed again".to_owned();
            return Some((Level::Info, message));
        }
        None
    }

    /// Return the time for readings of both clocks, the wall clock in microseconds since the epoch.
    fn advance(&mut self, wall: u64, instant: Instant) -> Timestamp {
        let passed = self.read_at.map_or(0, |before| {
            let passed = instant.saturating_duration_since(before).as_nanos();
            u64::try_from(passed).unwrap_or(u64::MAX)
        });
        if self.read_at.is_some() {
            self.doubt(wall, instant, passed / 1_000);
        }
        self.read_at = Some(instant);
        let nanos = passed.saturating_add(self.remainder_nanos);
        let slow = self.last.saturating_add(nanos / CATCH_UP_NANOS);
        self.remainder_nanos = if wall > slow {
            0
        } else {
            nanos % CATCH_UP_NANOS
        };
        self.wall = wall;
        self.last = wall.max(slow);
        Timestamp(self.last)
    }

    /// Compare the wall clock with the monotonic one, which says that `passed_micros` have passed since the last reading.
    fn doubt(&mut self, wall: u64, instant: Instant, passed_micros: u64) {
        let expected = self.wall.saturating_add(passed_micros);
        let step = wall.saturating_sub(expected);
        if step > DOUBTED_STEP_MICROS {
            self.doubted_micros = self.doubted_micros.saturating_add(step);
            self.doubted_since = Some(instant);
            let message = format!(
                "the clock went ahead by {} s at once: messages become older for retention in {} minutes, unless it \
                 is set back until then",
                step / 1_000_000,
                BELIEVED_AFTER.as_secs() / 60
            );
            self.notices.push_back((Level::Warning, message));
        }
        let back = expected.saturating_sub(wall);
        if back > DOUBTED_STEP_MICROS {
            self.doubted_micros = self.doubted_micros.saturating_sub(back);
        }
        let is_believed = |since| instant.saturating_duration_since(since) >= BELIEVED_AFTER;
        if self.doubted_micros == 0 || self.doubted_since.is_some_and(is_believed) {
            self.doubted_micros = 0;
            self.doubted_since = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000;
    const HOUR: u64 = 3_600 * SECOND;
    const START: u64 = 1_700_000_000 * SECOND;

    #[test]
    fn time_never_goes_back() {
        let mut clock = Clock {
            last: u64::MAX - 1,
            ..Clock::default()
        };
        assert_eq!(clock.now(), Timestamp(u64::MAX - 1));
        let mut clock = Clock::default();
        let first = clock.now();
        assert!(clock.now() >= first && first.0 > 0);
    }

    #[test]
    fn a_wall_clock_that_is_set_back_stops_no_timer() {
        let begin = Instant::now();
        let at = |micros| begin + Duration::from_micros(micros);
        let mut clock = Clock::default();
        let mut last = clock.advance(START, at(0));
        assert_eq!((last, clock.lead_micros()), (Timestamp(START), 0));
        let deadline = Timestamp(START + 400_000);
        // Readings at intervals of less than the time that makes a microsecond lose nothing.
        for micros in 1..=SECOND {
            let now = clock.advance(START - HOUR + micros, at(micros));
            assert!(now >= last);
            last = now;
        }
        assert!(last >= deadline);
        assert_eq!(last, Timestamp(START + SECOND / 2));
        assert_eq!(clock.lead_micros(), HOUR - SECOND / 2);
    }

    #[test]
    fn time_is_that_of_the_wall_clock_again_when_it_has_caught_up() {
        let begin = Instant::now();
        let mut clock = Clock::default();
        clock.advance(START, begin);
        let mut after = |micros: u64| {
            let wall = START - HOUR + micros;
            let now = clock.advance(wall, begin + Duration::from_micros(micros));
            (now.0 - START, clock.lead_micros())
        };
        assert_eq!(after(2 * HOUR - 2 * SECOND), (HOUR - SECOND, SECOND));
        assert_eq!(after(2 * HOUR + SECOND), (HOUR + SECOND, 0));
        assert_eq!(after(2 * HOUR + 3 * SECOND), (HOUR + 3 * SECOND, 0));
    }

    /// LOG-6: a clock that is wrong for seconds makes nothing old.
    #[test]
    fn a_step_ahead_is_doubted_until_it_has_lasted() {
        let begin = Instant::now();
        let mut clock = Clock::default();
        let mut after = |seconds: u64, ahead: u64| {
            let at = begin + Duration::from_secs(seconds);
            clock.advance(START + seconds * SECOND + ahead, at);
            (clock.doubted_micros, clock.take_notice().is_some())
        };
        let day = 24 * HOUR;
        assert_eq!(after(10, 0), (0, false));
        assert_eq!(after(20, 50 * SECOND), (0, false), "a correction");
        assert_eq!(after(30, 8 * day), (8 * day - 50 * SECOND, true));
        assert_eq!(after(34, 8 * day), (8 * day - 50 * SECOND, false));
        // It is set back, which is reported as well.
        assert_eq!(after(40, 0), (0, true));
        assert_eq!(after(50, day), (day, true));
        assert_eq!(after(649, day), (day, false));
        assert_eq!(after(650, day), (0, false));
        assert_eq!(after(700, day), (0, false));
    }

    #[test]
    fn a_wall_clock_that_is_set_back_is_reported_once() {
        let begin = Instant::now();
        let mut clock = Clock::default();
        let mut after = |micros: u64, step: u64| {
            let at = begin + Duration::from_micros(micros);
            clock.advance(START + micros - step, at);
            clock.take_notice()
        };
        assert_eq!(after(0, 0), None);
        assert_eq!(after(SECOND, SECOND), None, "a small correction");
        let (level, message) = after(2 * SECOND, HOUR).expect("a warning");
        assert_eq!(level, Level::Warning);
        assert!(message.contains("set back by 3599 s"), "{message}");
        assert_eq!(after(2 * HOUR - SECOND, HOUR), None, "still ahead");
        let (level, _) = after(3 * HOUR, HOUR).expect("an end");
        assert_eq!(level, Level::Info);
        assert_eq!(after(3 * HOUR + SECOND, HOUR), None);
    }

    #[test]
    fn a_wall_clock_that_goes_ahead_is_followed_at_once() {
        let begin = Instant::now();
        let mut clock = Clock::default();
        clock.advance(START, begin);
        assert_eq!(clock.advance(START + HOUR, begin), Timestamp(START + HOUR));
        assert_eq!(clock.lead_micros(), 0);
    }
}
