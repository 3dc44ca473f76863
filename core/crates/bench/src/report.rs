//! Results of a measurement. GB and MB are powers of ten, and of user payload unless noted otherwise.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::BenchConfig;
use crate::process_cpu::ProcessCpu;

/// Maximum latency that is recorded; longer ones are recorded as this value.
const LATENCY_MAX: Duration = Duration::from_secs(600);
/// Number of significant digits: the error of a recorded value is at most a thousandth.
const LATENCY_DIGITS: u8 = 3;

/// Result of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BenchReport {
    /// Settings of the run, without the password.
    pub config: BenchConfig,
    /// Number of partitions of the topic.
    pub partitions_count: u32,
    /// True if the run was stopped early; all results cover the time until the stop.
    pub stopped: bool,
    /// Results of the producers; absent if there were none.
    pub producers: Option<GroupReport>,
    /// Results of the consumers; absent if there were none.
    pub consumers: Option<GroupReport>,
    /// CPU time of the server during the measurement; absent if its process is not known.
    pub server_cpu: Option<CpuReport>,
    /// CPU time of the load generator during the measurement.
    pub client_cpu: Option<CpuReport>,
}

/// Results of all producers, or of all consumers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GroupReport {
    /// Number of batches acknowledged, or of polls that returned messages.
    pub requests: u64,
    /// Number of polls that returned nothing.
    pub empty_polls: u64,
    /// Messages sent or received.
    pub messages: u64,
    /// Payload bytes (consumers: user headers included).
    pub payload_bytes: u64,
    /// Message bytes with their headers.
    pub message_bytes: u64,
    /// Time from the first start of an actor to the last end.
    pub wall_seconds: f64,
    /// Payload MB per second of `wall_seconds`: the number to quote.
    pub payload_mb_per_second: f64,
    /// Messages per second of `wall_seconds`.
    pub messages_per_second: f64,
    /// Sum of the actors' own averages in MB per second, as other load generators report it: too high if actors start
    /// late or end early.
    pub sum_of_actors_mb_per_second: f64,
    /// Latency of requests, from before the write to after the answer.
    pub latency: LatencyReport,
    /// Latency from the moment at which the batch was due, only with a rate limit: a stall counts for all batches that
    /// it delays.
    pub latency_from_due: Option<LatencyReport>,
    /// Results of each actor.
    pub actors: Vec<ActorReport>,
}

/// Results of one producer or consumer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ActorReport {
    /// Number among its kind, from 0.
    pub index: u32,
    /// Partition that it sends to or reads; absent if the server chooses.
    pub partition_id: Option<u32>,
    /// Start time, relative to the first of its kind.
    pub started_after_seconds: f64,
    /// Duration from its start to its end.
    pub seconds: f64,
    /// Number of batches acknowledged, or of polls that returned messages.
    pub requests: u64,
    /// Number of polls that returned nothing.
    pub empty_polls: u64,
    /// Messages sent or received.
    pub messages: u64,
    /// Payload bytes.
    pub payload_bytes: u64,
    /// Payload MB per second of `seconds`.
    pub payload_mb_per_second: f64,
    /// Messages per second of `seconds`.
    pub messages_per_second: f64,
    /// Latency of requests.
    pub latency: LatencyReport,
}

/// Latencies in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LatencyReport {
    /// Number of values recorded; if 0, all others are 0.
    pub count: u64,
    /// Mean.
    pub mean_micros: f64,
    /// Smallest.
    pub min_micros: f64,
    /// Median (50th percentile).
    pub p50_micros: f64,
    /// 90th percentile.
    pub p90_micros: f64,
    /// 95th percentile.
    pub p95_micros: f64,
    /// 99th percentile.
    pub p99_micros: f64,
    /// 99.9th percentile.
    pub p99_9_micros: f64,
    /// 99.99th percentile.
    pub p99_99_micros: f64,
    /// Longest.
    pub max_micros: f64,
}

/// CPU time of a process.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CpuReport {
    /// CPU time in user mode.
    pub user_seconds: f64,
    /// CPU time in the kernel.
    pub system_seconds: f64,
    /// Sum of both.
    pub total_seconds: f64,
    /// Average number of busy cores: 2.0 is two cores busy all the time.
    pub cores: f64,
    /// Total CPU time per GB of payload sent by producers plus received by consumers.
    pub seconds_per_gb: Option<f64>,
}

/// Counters of a running actor.
#[derive(Debug)]
pub(crate) struct Tally {
    pub(crate) requests: u64,
    pub(crate) empty_polls: u64,
    pub(crate) messages: u64,
    pub(crate) payload_bytes: u64,
    pub(crate) message_bytes: u64,
    latency: Histogram<u64>,
    latency_from_due: Option<Histogram<u64>>,
}

/// Result of an actor.
#[derive(Debug)]
pub(crate) struct ActorOutcome {
    pub(crate) index: u32,
    pub(crate) partition_id: Option<u32>,
    pub(crate) start: Instant,
    pub(crate) end: Instant,
    pub(crate) tally: Tally,
}

impl Tally {
    pub(crate) fn new(has_due_times: bool) -> Self {
        Self {
            requests: 0,
            empty_polls: 0,
            messages: 0,
            payload_bytes: 0,
            message_bytes: 0,
            latency: histogram(),
            latency_from_due: has_due_times.then(histogram),
        }
    }

    pub(crate) fn record(&mut self, latency: Duration) {
        self.latency.saturating_record(nanos(latency));
    }

    pub(crate) fn record_from_due(&mut self, latency: Duration) {
        if let Some(histogram) = &mut self.latency_from_due {
            histogram.saturating_record(nanos(latency));
        }
    }
}

impl GroupReport {
    /// Summarise the outcomes; `None` if there are none.
    pub(crate) fn new(outcomes: &[ActorOutcome]) -> Option<Self> {
        let start = outcomes.iter().map(|outcome| outcome.start).min()?;
        let end = outcomes.iter().map(|outcome| outcome.end).max()?;
        let wall_seconds = (end - start).as_secs_f64();
        let sum =
            |field: fn(&Tally) -> u64| outcomes.iter().map(|outcome| field(&outcome.tally)).sum();
        let payload_bytes = sum(|tally| tally.payload_bytes);
        let messages = sum(|tally| tally.messages);
        let actors: Vec<_> = outcomes
            .iter()
            .map(|outcome| ActorReport::new(outcome, start))
            .collect();
        Some(Self {
            requests: sum(|tally| tally.requests),
            empty_polls: sum(|tally| tally.empty_polls),
            messages,
            payload_bytes,
            message_bytes: sum(|tally| tally.message_bytes),
            wall_seconds,
            payload_mb_per_second: rate(as_f64(payload_bytes) / 1e6, wall_seconds),
            messages_per_second: rate(as_f64(messages), wall_seconds),
            sum_of_actors_mb_per_second: actors
                .iter()
                .map(|actor| actor.payload_mb_per_second)
                .sum(),
            latency: merged(outcomes.iter().map(|outcome| &outcome.tally.latency)),
            latency_from_due: outcomes
                .iter()
                .any(|outcome| outcome.tally.latency_from_due.is_some())
                .then(|| {
                    merged(
                        outcomes
                            .iter()
                            .filter_map(|outcome| outcome.tally.latency_from_due.as_ref()),
                    )
                }),
            actors,
        })
    }
}

impl ActorReport {
    fn new(outcome: &ActorOutcome, first_start: Instant) -> Self {
        let seconds = (outcome.end - outcome.start).as_secs_f64();
        let tally = &outcome.tally;
        Self {
            index: outcome.index,
            partition_id: outcome.partition_id,
            started_after_seconds: (outcome.start - first_start).as_secs_f64(),
            seconds,
            requests: tally.requests,
            empty_polls: tally.empty_polls,
            messages: tally.messages,
            payload_bytes: tally.payload_bytes,
            payload_mb_per_second: rate(as_f64(tally.payload_bytes) / 1e6, seconds),
            messages_per_second: rate(as_f64(tally.messages), seconds),
            latency: LatencyReport::new(&tally.latency),
        }
    }
}

impl LatencyReport {
    fn new(histogram: &Histogram<u64>) -> Self {
        let micros = |nanos: u64| as_f64(nanos) / 1e3;
        let quantile = |quantile: f64| micros(histogram.value_at_quantile(quantile));
        Self {
            count: histogram.len(),
            mean_micros: histogram.mean() / 1e3,
            min_micros: micros(histogram.min()),
            p50_micros: quantile(0.5),
            p90_micros: quantile(0.9),
            p95_micros: quantile(0.95),
            p99_micros: quantile(0.99),
            p99_9_micros: quantile(0.999),
            p99_99_micros: quantile(0.9999),
            max_micros: micros(histogram.max()),
        }
    }
}

impl CpuReport {
    pub(crate) fn new(spent: ProcessCpu, wall_seconds: f64, payload_bytes: u64) -> Self {
        let total_seconds = spent.user_seconds + spent.system_seconds;
        Self {
            user_seconds: spent.user_seconds,
            system_seconds: spent.system_seconds,
            total_seconds,
            cores: rate(total_seconds, wall_seconds),
            seconds_per_gb: (payload_bytes > 0)
                .then(|| total_seconds / (as_f64(payload_bytes) / 1e9)),
        }
    }
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, nanos(LATENCY_MAX), LATENCY_DIGITS)
        .expect("the bounds are constants within range")
}

fn merged<'h>(histograms: impl Iterator<Item = &'h Histogram<u64>>) -> LatencyReport {
    let mut all = histogram();
    for histogram in histograms {
        all.add(histogram).expect("all have the same bounds");
    }
    LatencyReport::new(&all)
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Amount per second; 0 for a duration of 0, since JSON cannot express infinity.
fn rate(amount: f64, seconds: f64) -> f64 {
    if seconds > 0.0 { amount / seconds } else { 0.0 }
}

#[allow(
    clippy::cast_precision_loss,
    reason = "a report for people: 53 bits are more than enough"
)]
pub(crate) fn as_f64(value: u64) -> f64 {
    value as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(
        base: Instant,
        index: u32,
        start_ms: u64,
        end_ms: u64,
        requests: u64,
    ) -> ActorOutcome {
        let mut tally = Tally::new(false);
        for request in 1..=requests {
            tally.requests += 1;
            tally.messages += 10;
            tally.payload_bytes += 1_000_000;
            tally.message_bytes += 1_000_640;
            tally.record(Duration::from_micros(request * 100));
        }
        ActorOutcome {
            index,
            partition_id: Some(index),
            start: base + Duration::from_millis(start_ms),
            end: base + Duration::from_millis(end_ms),
            tally,
        }
    }

    fn close(left: f64, right: f64) {
        assert!(
            (left - right).abs() <= right.abs() * 2e-3,
            "{left} is not {right}"
        );
    }

    #[test]
    fn the_wall_runs_from_the_first_start_to_the_last_end() {
        let base = Instant::now();
        // The second actor starts late: the sum of averages counts only its own time, the wall time counts all of it.
        let outcomes = [
            outcome(base, 0, 0, 2000, 100),
            outcome(base, 1, 1500, 2500, 100),
        ];
        let report = GroupReport::new(&outcomes).expect("a producer or consumer worked");
        close(report.wall_seconds, 2.5);
        assert_eq!(report.requests, 200);
        assert_eq!(report.messages, 2000);
        assert_eq!(report.payload_bytes, 200_000_000);
        assert_eq!(report.message_bytes, 200_128_000);
        close(report.payload_mb_per_second, 80.0);
        close(report.messages_per_second, 800.0);
        close(report.sum_of_actors_mb_per_second, 50.0 + 100.0);
        close(report.actors[1].started_after_seconds, 1.5);
        close(report.actors[1].seconds, 1.0);
        assert!(GroupReport::new(&[]).is_none());
    }

    #[test]
    fn percentiles_are_those_of_all_actors() {
        let base = Instant::now();
        let outcomes = [outcome(base, 0, 0, 1, 1000), outcome(base, 1, 0, 1, 1000)];
        let latency = GroupReport::new(&outcomes)
            .expect("a producer or consumer worked")
            .latency;
        assert_eq!(latency.count, 2000);
        close(latency.mean_micros, 50_050.0);
        close(latency.min_micros, 100.0);
        close(latency.p50_micros, 50_000.0);
        close(latency.p90_micros, 90_000.0);
        close(latency.p95_micros, 95_000.0);
        close(latency.p99_micros, 99_000.0);
        close(latency.p99_9_micros, 99_900.0);
        close(latency.p99_99_micros, 100_000.0);
        close(latency.max_micros, 100_000.0);
    }

    #[test]
    fn nothing_measured_is_zero_and_not_infinite() {
        let base = Instant::now();
        let report =
            GroupReport::new(&[outcome(base, 0, 0, 0, 0)]).expect("a producer or consumer worked");
        assert_eq!(report.latency.count, 0);
        assert!(report.payload_mb_per_second.abs() < f64::EPSILON);
        let json = serde_json::to_string(&report).expect("serialisable");
        assert!(
            !json.contains("null") || report.latency_from_due.is_none(),
            "{json}"
        );
    }

    #[test]
    fn cpu_is_per_payload_moved() {
        let spent = ProcessCpu {
            user_seconds: 0.5,
            system_seconds: 1.5,
        };
        let report = CpuReport::new(spent, 4.0, 2_500_000_000);
        close(report.total_seconds, 2.0);
        close(report.cores, 0.5);
        close(report.seconds_per_gb.expect("bytes moved"), 0.8);
        assert_eq!(CpuReport::new(spent, 4.0, 0).seconds_per_gb, None);
    }

    #[test]
    fn due_times_are_reported_only_when_there_are_any() {
        let base = Instant::now();
        let mut with = outcome(base, 0, 0, 1, 0);
        with.tally = Tally::new(true);
        with.tally.record_from_due(Duration::from_millis(5));
        let report = GroupReport::new(&[with]).expect("a producer or consumer worked");
        close(report.latency_from_due.expect("paced").max_micros, 5000.0);
        let without = outcome(base, 0, 0, 1, 1);
        assert!(
            GroupReport::new(&[without])
                .expect("a producer or consumer worked")
                .latency_from_due
                .is_none()
        );
    }
}
