//! What a sampled request leaves behind on its way: records of a fixed size in a ring of a fixed size.
//!
//! Two for each request, which belong together by [`Key`]: one of its connection, and one of the partition that it went
//! to. Whoever embeds the node takes them and makes spans of them. A full ring drops what comes next, and counts it.

use std::{
    num::NonZeroU32,
    sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
};

use crossbeam_queue::ArrayQueue;
use headrace_link::TraceContext;
use headrace_model::{Namespace, ShardId};
use headrace_wire::CommandCode;

/// Records that wait to be taken from one shard.
const CAPACITY: usize = 4096;

/// What the two records of a request have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// The shard of its connection.
    pub shard: ShardId,
    /// Counted by that shard.
    pub request: NonZeroU32,
}

/// A request at its connection. Times are microseconds since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestTrace {
    /// Which.
    pub key: Key,
    /// Whose part it is.
    pub context: TraceContext,
    /// `None`: what came is no command.
    pub command: Option<CommandCode>,
    /// It was read and started.
    pub began: u64,
    /// Its answer was ready to be sent.
    pub ended: u64,
    /// Of the answer; 0 is success.
    pub status: u32,
    /// Of a batch.
    pub bytes: u64,
}

/// The same request at its partition. Times are microseconds since the Unix epoch; 0: it did not happen before the
/// answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartitionTrace {
    /// Which.
    pub key: Key,
    /// The shard that owns the partition.
    pub owner: ShardId,
    /// The partition.
    pub namespace: Namespace,
    /// It is a batch, whose messages are stored.
    pub is_append: bool,
    /// It reached the partition.
    pub began: u64,
    /// The write was started that its messages are part of.
    pub issued: u64,
    /// Its messages were in the log file.
    pub written: u64,
    /// Its messages were on the device.
    pub synced: u64,
    /// It was answered.
    pub ended: u64,
    /// Whether as it was asked for.
    pub is_fulfilled: bool,
    /// Appended or read.
    pub messages_count: u32,
}

/// One record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TraceRecord {
    /// Of a connection.
    Request(RequestTrace),
    /// Of a partition.
    Partition(PartitionTrace),
}

/// The records of one shard.
#[derive(Debug, Default)]
pub struct Tracer {
    /// `None`: nothing is recorded.
    ring: Option<ArrayQueue<TraceRecord>>,
    dropped: AtomicU64,
    last: AtomicU32,
}

impl Tracer {
    /// Records, if wanted.
    pub(crate) fn new(is_on: bool) -> Self {
        Self {
            ring: is_on.then(|| ArrayQueue::new(CAPACITY)),
            ..Self::default()
        }
    }

    pub(crate) fn is_on(&self) -> bool {
        self.ring.is_some()
    }

    /// The number of one more request that is traced.
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

    /// Everything that waits, oldest first.
    pub fn take(&self) -> Vec<TraceRecord> {
        let ring = self.ring.iter();
        // What comes meanwhile is for the next time.
        ring.flat_map(|ring| (0..ring.len()).map_while(|_| ring.pop()))
            .collect()
    }

    /// Records for which there was no room.
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
