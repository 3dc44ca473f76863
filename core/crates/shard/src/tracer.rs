//! Traces of sampled requests: fixed-size records in a ring of fixed capacity.
//!
//! Each request has two records, linked by [`Key`]: one of its connection, and one of its partition. The process that
//! embeds the node takes them and turns them into spans. A full ring drops new records and counts them.

use std::{
    num::NonZeroU32,
    sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
};

use crossbeam_queue::ArrayQueue;
use headrace_link::TraceContext;
use headrace_model::{Namespace, ShardId};
use headrace_wire::CommandCode;

/// Capacity of one shard's ring in records.
const CAPACITY: usize = 4096;

/// Identity of a request, shared by its two records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// Shard of the connection.
    pub shard: ShardId,
    /// Number of the request, counted by that shard.
    pub request: NonZeroU32,
}

/// A request at its connection. Times are microseconds since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestTrace {
    /// Identity of the request.
    pub key: Key,
    /// Trace and parent span of the request.
    pub context: TraceContext,
    /// Command of the request; `None` if its code is unknown.
    pub command: Option<CommandCode>,
    /// Time at which the request was read and started.
    pub began: u64,
    /// Time at which the answer was ready to be sent.
    pub ended: u64,
    /// Status of the answer; 0 is success.
    pub status: u32,
    /// Size of the batch.
    pub bytes: u64,
}

/// The same request at its partition. Times are microseconds since the Unix epoch; 0 if the step did not happen before
/// the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartitionTrace {
    /// Identity of the request.
    pub key: Key,
    /// Shard that owns the partition.
    pub owner: ShardId,
    /// Partition of the request.
    pub namespace: Namespace,
    /// True if the request appends a batch.
    pub is_append: bool,
    /// Time at which the request reached the partition.
    pub began: u64,
    /// Time at which the write that includes its messages was started.
    pub issued: u64,
    /// Time at which its messages were written to the log file.
    pub written: u64,
    /// Time at which its messages were synced to the device.
    pub synced: u64,
    /// Time of the answer.
    pub ended: u64,
    /// True if the request succeeded.
    pub is_fulfilled: bool,
    /// Number of messages appended or read.
    pub messages_count: u32,
}

/// One trace record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TraceRecord {
    /// Record of a connection.
    Request(RequestTrace),
    /// Record of a partition.
    Partition(PartitionTrace),
}

/// Trace records of one shard.
#[derive(Debug, Default)]
pub struct Tracer {
    /// Ring of records; `None` if tracing is disabled.
    ring: Option<ArrayQueue<TraceRecord>>,
    dropped: AtomicU64,
    last: AtomicU32,
}

impl Tracer {
    /// Create the ring if tracing is enabled.
    pub(crate) fn new(is_on: bool) -> Self {
        Self {
            ring: is_on.then(|| ArrayQueue::new(CAPACITY)),
            ..Self::default()
        }
    }

    pub(crate) fn is_on(&self) -> bool {
        self.ring.is_some()
    }

    /// Return the number of the next traced request.
    pub(crate) fn next(&self) -> NonZeroU32 {
        let next = NonZeroU32::new(self.last.load(Relaxed).wrapping_add(1));
        let next = next.unwrap_or(NonZeroU32::MIN);
        self.last.store(next.get(), Relaxed);
        next
    }

    pub(crate) fn record(&self, record: TraceRecord) {
        if let Some(ring) = &self.ring
            && ring.push(record).is_err()
        {
            self.dropped.fetch_add(1, Relaxed);
        }
    }

    /// Take all records, oldest first.
    pub fn take(&self) -> Vec<TraceRecord> {
        let ring = self.ring.iter();
        // Records added meanwhile are left for the next call.
        ring.flat_map(|ring| (0..ring.len()).map_while(|_| ring.pop()))
            .collect()
    }

    /// Number of records dropped because the ring was full.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONTEXT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_full_ring_drops_and_counts() {
        let record = TraceRecord::Request(RequestTrace {
            key: Key {
                shard: ShardId(0),
                request: NonZeroU32::MIN,
            },
            context: TraceContext::parse(CONTEXT).expect("well-formed"),
            command: Some(CommandCode::Ping),
            began: 1,
            ended: 2,
            status: 0,
            bytes: 0,
        });
        let tracer = Tracer::new(true);
        for _ in 0..CAPACITY + 3 {
            tracer.record(record);
        }
        assert_eq!(tracer.dropped(), 3);
        assert_eq!(tracer.take().len(), CAPACITY);
        assert!(tracer.take().is_empty());
        let off = Tracer::new(false);
        off.record(record);
        assert!(off.take().is_empty());
        assert_eq!(off.dropped(), 0);
    }

    #[test]
    fn numbers_are_never_zero() {
        let tracer = Tracer::new(true);
        assert_eq!(tracer.next().get(), 1);
        tracer.last.store(u32::MAX, Relaxed);
        assert_eq!(tracer.next().get(), 1);
    }
}
