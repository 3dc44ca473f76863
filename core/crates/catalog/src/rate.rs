//! Rates of quotas: what users and topics have used, and what they owe.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use headrace_model::Timestamp;

use crate::Quota;

/// Size below which a request counts as this much, so that many small ones use up a rate as well.
pub const REQUEST_BYTES_MIN: u64 = 1024;

const NANOS_PER_SECOND: u64 = 1_000_000_000;
const NANOS_PER_MICRO: u64 = 1_000;
/// Size of a burst, if that is more than the rate allows in a second.
const BURST_BYTES_MIN: u64 = 1 << 20;
/// Interval between two reports of delays by one rate.
const REPORT_NANOS: u64 = 60 * NANOS_PER_SECOND;

/// A limited rate, shared by all shards of a process and by all versions of the catalog with the same limit.
///
/// All that is used moves the time until which everything is paid (generic cell rate algorithm). A request may start
/// when that time has come, whatever its size, and the next one waits until it is paid.
#[derive(Debug)]
pub struct Rate {
    bytes_per_second: u64,
    /// Longest time before the present from which unused bytes can still be used.
    burst_nanos: u64,
    /// Time in nanoseconds since the Unix epoch until which everything is paid.
    paid_until: AtomicU64,
    /// Time of the last report in nanoseconds since the Unix epoch.
    reported_at: AtomicU64,
}

impl Rate {
    fn new(bytes_per_second: u64) -> Self {
        let nanos = BURST_BYTES_MIN * NANOS_PER_SECOND / bytes_per_second.max(1);
        Self {
            bytes_per_second,
            burst_nanos: nanos.max(NANOS_PER_SECOND),
            paid_until: AtomicU64::new(0),
            reported_at: AtomicU64::new(0),
        }
    }

    /// The limit.
    pub const fn bytes_per_second(&self) -> u64 {
        self.bytes_per_second
    }

    /// Return the time until which requests have to wait; `None` if one may start now.
    #[inline]
    pub fn owes_until(&self, now: Timestamp) -> Option<Timestamp> {
        let paid_until = self.paid_until.load(Relaxed);
        let is_owing = paid_until > nanos(now);
        is_owing.then(|| Timestamp(paid_until.div_ceil(NANOS_PER_MICRO)))
    }

    /// Charge a request or an answer of this size.
    pub fn charge(&self, now: Timestamp, bytes: u64) {
        let bytes = bytes.max(REQUEST_BYTES_MIN);
        let cost = bytes.saturating_mul(NANOS_PER_SECOND) / self.bytes_per_second.max(1);
        let floor = nanos(now).saturating_sub(self.burst_nanos);
        let add = |paid_until: u64| Some(paid_until.max(floor).saturating_add(cost));
        let _ = self.paid_until.fetch_update(Relaxed, Relaxed, add);
    }

    /// Return whether a delay is to be reported: once a minute.
    pub fn is_report_due(&self, now: Timestamp) -> bool {
        let now = nanos(now);
        let later = |at: u64| (at == 0 || at.saturating_add(REPORT_NANOS) <= now).then_some(now);
        let updated = self.reported_at.fetch_update(Relaxed, Relaxed, later);
        updated.is_ok()
    }
}

/// Rates of a user or a topic; nothing for directions without a limit.
#[derive(Debug, Clone, Default)]
pub struct Rates {
    /// Rate of messages sent.
    pub sent: Option<Arc<Rate>>,
    /// Rate of messages read.
    pub read: Option<Arc<Rate>>,
}

impl Rates {
    /// Make the rates of a quota. A limit that has not changed keeps what is owed; another one begins without debt.
    pub(crate) fn of(quota: &Quota, previous: Option<&Self>) -> Self {
        let of = |limit: u64, before: Option<&Arc<Rate>>| {
            let same = before.filter(|rate| rate.bytes_per_second == limit);
            (limit > 0).then(|| same.map_or_else(|| Arc::new(Rate::new(limit)), Arc::clone))
        };
        Self {
            sent: of(
                quota.sent_bytes_per_second,
                previous.and_then(|rates| rates.sent.as_ref()),
            ),
            read: of(
                quota.read_bytes_per_second,
                previous.and_then(|rates| rates.read.as_ref()),
            ),
        }
    }
}

fn nanos(time: Timestamp) -> u64 {
    time.0.saturating_mul(NANOS_PER_MICRO)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: u64 = 1_000_000;
    const START: u64 = 1_700_000_000 * SECOND;

    fn at(micros: u64) -> Timestamp {
        Timestamp(START + micros)
    }

    #[test]
    fn a_burst_of_a_second_is_free_and_what_is_beyond_it_is_owed() {
        let rate = Rate::new(4 << 20);
        rate.charge(at(0), 4 << 20);
        assert_eq!(rate.owes_until(at(0)), None);
        rate.charge(at(0), 2 << 20);
        assert_eq!(rate.owes_until(at(0)), Some(at(SECOND / 2)));
        assert_eq!(rate.owes_until(at(SECOND / 2)), None);
    }

    #[test]
    fn a_small_rate_has_a_burst_of_a_mebibyte() {
        let rate = Rate::new(1024);
        rate.charge(at(0), 1 << 20);
        assert_eq!(rate.owes_until(at(0)), None);
        rate.charge(at(0), 1);
        assert_eq!(
            rate.owes_until(at(0)),
            Some(at(SECOND)),
            "a byte counts as a KiB"
        );
    }

    #[test]
    fn what_was_not_used_is_not_saved_up_for_longer_than_a_burst() {
        let rate = Rate::new(2 << 20);
        rate.charge(at(0), 1);
        let later = 3600 * SECOND;
        rate.charge(at(later), 4 << 20);
        assert_eq!(rate.owes_until(at(later)), Some(at(later + SECOND)));
    }

    #[test]
    fn a_delay_is_reported_once_a_minute() {
        let rate = Rate::new(1024);
        assert!(rate.is_report_due(at(0)));
        assert!(!rate.is_report_due(at(59 * SECOND)));
        assert!(rate.is_report_due(at(60 * SECOND)));
    }

    #[test]
    fn an_unchanged_limit_keeps_its_debt_and_another_one_begins_without() {
        let quota = |sent, read| Quota {
            sent_bytes_per_second: sent,
            read_bytes_per_second: read,
            ..Quota::default()
        };
        let first = Rates::of(&quota(1024, 0), None);
        assert!(first.read.is_none());
        let owing = first.sent.as_ref().expect("a rate");
        owing.charge(at(0), 2 << 20);
        let same = Rates::of(&quota(1024, 7), Some(&first));
        assert!(Arc::ptr_eq(owing, same.sent.as_ref().expect("a rate")));
        assert_eq!(same.read.as_ref().expect("a rate").bytes_per_second(), 7);
        let other = Rates::of(&quota(2048, 7), Some(&first));
        assert_eq!(other.sent.expect("a rate").owes_until(at(0)), None);
        assert!(Rates::of(&quota(0, 0), Some(&first)).sent.is_none());
    }

    proptest! {
        /// A client that goes on when nothing is owed, as late as a shard may notice, gets its rate: neither less nor, but
        /// for a burst and a request, more.
        #[test]
        fn the_rate_is_reached_and_not_exceeded(
            limit in 1024_u64..1 << 32,
            requests in prop::collection::vec((1_u64..1 << 20, 0_u64..200_000), 1..200),
        ) {
            let rate = Rate::new(limit);
            let (mut now, mut charged) = (0, 0);
            for (bytes, delay) in &requests {
                if let Some(until) = rate.owes_until(at(now)) {
                    now = until.0 - START + delay;
                }
                rate.charge(at(now), *bytes);
                charged += bytes.max(&REQUEST_BYTES_MIN);
            }
            let worth = |micros: u64| u128::from(limit) * u128::from(micros) / u128::from(SECOND);
            let burst = worth(rate.burst_nanos / NANOS_PER_MICRO + 1);
            prop_assert!(u128::from(charged) <= worth(now) + burst + (1 << 20) + worth(200));
            prop_assert!(u128::from(charged) + worth(200_000 + 200) >= worth(now));
        }

        /// No size and no rate makes the arithmetic overflow.
        #[test]
        fn any_amount_can_be_charged(limit in 1_u64.., bytes: u64, now: u64) {
            let rate = Rate::new(limit);
            rate.charge(Timestamp(now), bytes);
            rate.charge(Timestamp(now), bytes);
            let _ = rate.owes_until(Timestamp(now));
        }
    }
}
