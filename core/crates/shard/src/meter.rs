//! Statistics of a shard: written by its thread only, read by any thread.
//!
//! With a single writer no locked instruction is needed: a counter is loaded and stored. Times are those of the loop's
//! turns, which the shard has anyway, so a request costs no clock reading.

use std::sync::{
    Arc,
    atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
};

use headrace_model::{ShardId, Timestamp};
use headrace_wire::CommandCode;

use crate::tracer::Tracer;

/// Upper bounds of the histogram buckets in microseconds: two for each power of two from 4 µs to 16.8 s. Values above
/// the last bound have a bucket of their own.
pub const LATENCY_BOUNDS_MICROS: [u64; CLASSES - 1] = bounds();

const CLASSES: usize = 2 * (LAST_OCTAVE - FIRST_OCTAVE) + 2;
/// Binary logarithm of the first bound.
const FIRST_OCTAVE: usize = 2;
/// Binary logarithm of the last bound.
const LAST_OCTAVE: usize = 24;
/// Number of statuses with a counter of their own. About 200 exist, of which a server returns a few.
const STATUSES: usize = 64;
/// Number of commands, plus one for unknown codes.
const COMMANDS: usize = CommandCode::ALL.len() + 1;

const fn bounds() -> [u64; CLASSES - 1] {
    let mut bounds = [0; CLASSES - 1];
    let mut index = 0;
    while index < bounds.len() {
        let octave = 1 << (FIRST_OCTAVE + index / 2);
        bounds[index] = octave + (octave / 2) * (index as u64 % 2);
        index += 1;
    }
    bounds
}

/// Return the bucket of a duration.
fn class_of(micros: u64) -> usize {
    // A bucket includes its upper bound.
    let below = micros.saturating_sub(1);
    if below < 1 << FIRST_OCTAVE {
        return 0;
    }
    let octave = below.ilog2() as usize;
    let upper_half = usize::from(below >> (octave - 1) & 1 == 1);
    (1 + 2 * (octave - FIRST_OCTAVE) + upper_half).min(CLASSES - 1)
}

/// Index of a command's counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CommandSlot(u8);

impl CommandSlot {
    /// Return the index for a received command code.
    pub(crate) fn of(code: u32) -> Self {
        let found = CommandCode::ALL.binary_search_by_key(&code, |command| command.code());
        let index = found.unwrap_or(CommandCode::ALL.len());
        Self(u8::try_from(index).expect("there are far fewer commands"))
    }

    /// Return the command code; 0 for an unknown command.
    pub(crate) fn code(self) -> u32 {
        let command = CommandCode::ALL.get(usize::from(self.0));
        command.map_or(0, |command| command.code())
    }
}

impl Default for CommandSlot {
    fn default() -> Self {
        Self::of(0)
    }
}

#[derive(Debug)]
struct Histogram {
    sum_micros: AtomicU64,
    classes: [AtomicU64; CLASSES],
}

/// Counters of one shard.
#[derive(Debug)]
pub struct Meter {
    shard: ShardId,
    now: AtomicU64,
    commands: Box<[Histogram]>,
    statuses: Box<[(AtomicU32, AtomicU64)]>,
    other_refusals: AtomicU64,
    accepted: AtomicU64,
    received_bytes: AtomicU64,
    sent_bytes: AtomicU64,
    appended_messages: AtomicU64,
    appended_bytes: AtomicU64,
    polled_messages: AtomicU64,
    polled_bytes: AtomicU64,
    storage_read_bytes: AtomicU64,
    published_messages: AtomicU64,
    missing_stages: AtomicU64,
    quota_delayed_micros: AtomicU64,
    /// Recorder of request traces.
    pub(crate) tracer: Tracer,
}

/// Add to a counter that only the shard's thread writes.
fn add(counter: &AtomicU64, count: u64) {
    counter.store(counter.load(Relaxed).wrapping_add(count), Relaxed);
}

impl Meter {
    /// Create a meter with all counters at 0.
    pub(crate) fn new(shard: ShardId, tracer: Tracer) -> Arc<Self> {
        let histogram = || Histogram {
            sum_micros: AtomicU64::new(0),
            classes: [const { AtomicU64::new(0) }; CLASSES],
        };
        Arc::new(Self {
            shard,
            now: AtomicU64::new(0),
            commands: (0..COMMANDS).map(|_| histogram()).collect(),
            statuses: (0..STATUSES).map(|_| Default::default()).collect(),
            other_refusals: AtomicU64::new(0),
            accepted: AtomicU64::new(0),
            received_bytes: AtomicU64::new(0),
            sent_bytes: AtomicU64::new(0),
            appended_messages: AtomicU64::new(0),
            appended_bytes: AtomicU64::new(0),
            polled_messages: AtomicU64::new(0),
            polled_bytes: AtomicU64::new(0),
            storage_read_bytes: AtomicU64::new(0),
            published_messages: AtomicU64::new(0),
            missing_stages: AtomicU64::new(0),
            quota_delayed_micros: AtomicU64::new(0),
            tracer,
        })
    }

    pub(crate) fn shard(&self) -> ShardId {
        self.shard
    }

    /// Set the time of the turn that begins.
    pub(crate) fn set_now(&self, now: Timestamp) {
        self.now.store(now.0, Relaxed);
    }

    pub(crate) fn now(&self) -> u64 {
        self.now.load(Relaxed)
    }

    /// Count an answered request.
    pub(crate) fn answered(&self, command: CommandSlot, began: u64, status: u32) {
        let micros = self.now().saturating_sub(began);
        let histogram = &self.commands[usize::from(command.0)];
        add(&histogram.sum_micros, micros);
        add(&histogram.classes[class_of(micros)], 1);
        if status != 0 {
            self.refused(status);
        }
    }

    fn refused(&self, status: u32) {
        let start = status as usize % STATUSES;
        for step in 0..STATUSES {
            let (code, count) = &self.statuses[(start + step) % STATUSES];
            let known = code.load(Relaxed);
            if known == 0 {
                code.store(status, Relaxed);
            } else if known != status {
                continue;
            }
            return add(count, 1);
        }
        add(&self.other_refusals, 1);
    }

    pub(crate) fn accepted(&self) {
        add(&self.accepted, 1);
    }

    pub(crate) fn received(&self, bytes: u64) {
        add(&self.received_bytes, bytes);
    }

    pub(crate) fn sent(&self, bytes: u64) {
        add(&self.sent_bytes, bytes);
    }

    /// Count the messages of an acknowledged batch.
    pub(crate) fn appended(&self, messages: u32) {
        add(&self.appended_messages, messages.into());
    }

    /// Count the bytes of an accepted batch.
    pub(crate) fn took(&self, bytes: u64) {
        add(&self.appended_bytes, bytes);
    }

    /// Count messages returned to a consumer.
    pub(crate) fn polled(&self, messages: u32, bytes: u64) {
        add(&self.polled_messages, messages.into());
        add(&self.polled_bytes, bytes);
    }

    /// Count bytes that were read from the files of a partition.
    pub(crate) fn read_from_storage(&self, bytes: usize) {
        add(&self.storage_read_bytes, bytes as u64);
    }

    /// Count the messages that a committed transaction appended, and its missing staged batches.
    pub(crate) fn published(&self, messages: u64, missing_stages: u32) {
        add(&self.published_messages, messages);
        add(&self.missing_stages, missing_stages.into());
    }

    /// Count the time for which a request has waited because of a quota.
    pub(crate) fn delayed(&self, micros: u64) {
        add(&self.quota_delayed_micros, micros);
    }

    /// Add the current counts to `reading`.
    pub fn add_to(&self, reading: &mut Reading) {
        for (index, histogram) in self.commands.iter().enumerate() {
            let total = &mut reading.commands[index];
            total.sum_micros += histogram.sum_micros.load(Relaxed);
            for (sum, class) in total.classes.iter_mut().zip(&histogram.classes) {
                *sum += class.load(Relaxed);
            }
        }
        for (code, count) in &self.statuses {
            let (code, count) = (code.load(Relaxed), count.load(Relaxed));
            if count > 0 {
                *reading.refusals.entry(code).or_default() += count;
            }
        }
        let other = self.other_refusals.load(Relaxed);
        if other > 0 {
            *reading.refusals.entry(0).or_default() += other;
        }
        reading.accepted_connections += self.accepted.load(Relaxed);
        reading.received_bytes += self.received_bytes.load(Relaxed);
        reading.sent_bytes += self.sent_bytes.load(Relaxed);
        reading.appended_messages += self.appended_messages.load(Relaxed);
        reading.appended_bytes += self.appended_bytes.load(Relaxed);
        reading.polled_messages += self.polled_messages.load(Relaxed);
        reading.polled_bytes += self.polled_bytes.load(Relaxed);
        reading.storage_read_bytes += self.storage_read_bytes.load(Relaxed);
        reading.published_messages += self.published_messages.load(Relaxed);
        reading.missing_stages += self.missing_stages.load(Relaxed);
        reading.quota_delayed_micros += self.quota_delayed_micros.load(Relaxed);
        reading.traces_dropped += self.tracer.dropped();
    }

    /// Return the recorder of request traces.
    pub fn tracer(&self) -> &Tracer {
        &self.tracer
    }
}

/// Latencies of one command.
#[derive(Debug, Clone)]
pub struct Latencies {
    /// Measured command; `None` for requests with an unknown command.
    pub command: Option<CommandCode>,
    /// Sum of the durations from the start of a request to its answer.
    pub sum_micros: u64,
    /// Number of requests in each bucket of [`LATENCY_BOUNDS_MICROS`], and above the last bound.
    pub classes: Vec<u64>,
}

/// Sums of the statistics of several shards.
#[derive(Debug, Clone)]
pub struct Reading {
    /// Latencies of every command, including unused ones.
    pub commands: Vec<Latencies>,
    /// Number of refusals by status. Status 0 stands for all statuses without a counter of their own.
    pub refusals: std::collections::BTreeMap<u32, u64>,
    /// Accepted connections, including in-process ones.
    pub accepted_connections: u64,
    /// Bytes received from connections.
    pub received_bytes: u64,
    /// Bytes sent to connections.
    pub sent_bytes: u64,
    /// Acknowledged messages.
    pub appended_messages: u64,
    /// Bytes of the requests that appended them, without request headers.
    pub appended_bytes: u64,
    /// Messages returned to consumers.
    pub polled_messages: u64,
    /// Bytes of the messages returned to consumers.
    pub polled_bytes: u64,
    /// Bytes read from the files of partitions: logs and their indexes. Bytes in memory are not read again.
    pub storage_read_bytes: u64,
    /// Messages appended by the commit of their transactions.
    pub published_messages: u64,
    /// Staged batches that were committed but missing.
    pub missing_stages: u64,
    /// Time for which requests have waited because of quotas.
    pub quota_delayed_micros: u64,
    /// Trace records dropped because the ring was full.
    pub traces_dropped: u64,
}

impl Default for Reading {
    fn default() -> Self {
        let latencies = |command| Latencies {
            command,
            sum_micros: 0,
            classes: vec![0; CLASSES],
        };
        let commands = CommandCode::ALL.iter().copied().map(Some).chain([None]);
        Self {
            commands: commands.map(latencies).collect(),
            refusals: std::collections::BTreeMap::new(),
            accepted_connections: 0,
            received_bytes: 0,
            sent_bytes: 0,
            appended_messages: 0,
            appended_bytes: 0,
            polled_messages: 0,
            polled_bytes: 0,
            storage_read_bytes: 0,
            published_messages: 0,
            missing_stages: 0,
            quota_delayed_micros: 0,
            traces_dropped: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_in_the_first_class_whose_bound_is_not_below() {
        let bounds = LATENCY_BOUNDS_MICROS;
        assert_eq!(bounds[..6], [4, 6, 8, 12, 16, 24]);
        assert_eq!(bounds[bounds.len() - 1], 1 << LAST_OCTAVE);
        let mut samples: Vec<u64> = (0..100_000).collect();
        samples.extend(
            bounds
                .iter()
                .flat_map(|bound| [bound - 1, *bound, bound + 1]),
        );
        samples.push(u64::MAX);
        for micros in samples {
            let expected = bounds.iter().position(|bound| micros <= *bound);
            assert_eq!(
                class_of(micros),
                expected.unwrap_or(bounds.len()),
                "{micros}"
            );
        }
    }

    #[test]
    fn answers_are_counted_by_command_and_status() {
        let meter = Meter::new(ShardId(0), Tracer::default());
        meter.set_now(Timestamp(1000));
        meter.answered(CommandSlot::of(CommandCode::Ping.code()), 1000, 0);
        meter.answered(CommandSlot::of(CommandCode::Ping.code()), 990, 40);
        meter.answered(CommandSlot::of(77_777), 1000, 3);
        let mut reading = Reading::default();
        meter.add_to(&mut reading);
        meter.add_to(&mut reading);
        assert_eq!(reading.commands[0].command, Some(CommandCode::Ping));
        assert_eq!(reading.commands[0].sum_micros, 20);
        assert_eq!(reading.commands[0].classes[..4], [2, 0, 0, 2]);
        let last = reading
            .commands
            .last()
            .expect("there is one for what is none");
        assert_eq!((last.command, last.classes[0]), (None, 2));
        assert_eq!(reading.refusals, [(3, 2), (40, 2)].into());
    }

    #[test]
    fn more_statuses_than_there_is_room_for_are_counted_together() {
        let meter = Meter::new(ShardId(0), Tracer::default());
        for round in 0..3 {
            for status in 1..=100 {
                meter.answered(CommandSlot::default(), round, status);
            }
        }
        let mut reading = Reading::default();
        meter.add_to(&mut reading);
        assert_eq!(reading.refusals.len(), STATUSES + 1);
        assert_eq!(reading.refusals.values().sum::<u64>(), 300);
        assert!(reading.refusals.values().skip(1).all(|count| *count == 3));
    }
}
