//! Results of a run, in the format of the native load generator's report.

use std::time::{Duration, Instant};

use hdrhistogram::{CreationError, Histogram};
use serde::Serialize;

use crate::process_cpu::ProcessCpu;

/// Maximum recorded latency; longer ones are recorded as this value.
const LATENCY_MAX: Duration = Duration::from_secs(600);

/// Results of a run.
#[derive(Debug, Serialize)]
pub struct Report {
    pub group: Group,
    pub server_cpu: ProcessCpu,
    pub client_cpu: ProcessCpu,
}

/// Results of all connections together.
#[derive(Debug, Serialize)]
pub struct Group {
    /// Number of batches acknowledged, or of polls that returned messages.
    pub requests: u64,
    pub messages: u64,
    pub payload_bytes: u64,
    /// Seconds from the first start of a connection's work to the last end.
    pub wall_seconds: f64,
    pub latency: Latency,
}

/// Latencies of requests, in microseconds.
#[derive(Debug, Serialize)]
#[allow(
    clippy::struct_field_names,
    reason = "the names of the native generator's report"
)]
pub struct Latency {
    pub p50_micros: f64,
    pub p99_micros: f64,
    pub max_micros: f64,
}

/// Counters of one connection.
#[derive(Debug)]
pub struct Tally {
    pub start: Instant,
    pub end: Instant,
    pub requests: u64,
    pub messages: u64,
    pub payload_bytes: u64,
    latency: Histogram<u64>,
}

impl Tally {
    pub fn new() -> Result<Self, CreationError> {
        let now = Instant::now();
        Ok(Self {
            start: now,
            end: now,
            requests: 0,
            messages: 0,
            payload_bytes: 0,
            latency: Histogram::new_with_bounds(1, nanos(LATENCY_MAX), 3)?,
        })
    }

    /// Record a request that began at `start` and was answered at `end`.
    pub fn record(&mut self, start: Instant, end: Instant, messages: u64, payload_bytes: u64) {
        self.requests += 1;
        self.messages += messages;
        self.payload_bytes += payload_bytes;
        self.latency.saturating_record(nanos(end - start));
        self.end = end;
    }
}

impl Group {
    /// Merge the counters; `None` without connections.
    pub fn new(tallies: &[Tally]) -> Option<Self> {
        let start = tallies.iter().map(|tally| tally.start).min()?;
        let end = tallies.iter().map(|tally| tally.end).max()?;
        let mut latency = tallies.first()?.latency.clone();
        for tally in &tallies[1..] {
            latency.add(&tally.latency).ok()?;
        }
        let sum = |field: fn(&Tally) -> u64| tallies.iter().map(field).sum();
        Some(Self {
            requests: sum(|tally| tally.requests),
            messages: sum(|tally| tally.messages),
            payload_bytes: sum(|tally| tally.payload_bytes),
            wall_seconds: (end - start).as_secs_f64(),
            latency: Latency {
                p50_micros: micros(latency.value_at_quantile(0.5)),
                p99_micros: micros(latency.value_at_quantile(0.99)),
                max_micros: micros(latency.max()),
            },
        })
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn micros(nanos: u64) -> f64 {
    Duration::from_nanos(nanos).as_secs_f64() * 1e6
}
