//! Counters of one partition, written by its owner and read from any thread.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Statistics of a partition that can be read without a request to its shard.
///
/// The owning shard is the only writer; any number of threads may read. The fields are not ordered relative to each
/// other: every counter is consistent by itself, two of them may be one append apart.
#[derive(Debug, Default)]
pub struct PartitionStatistics {
    messages_count: AtomicU64,
    size_bytes: AtomicU64,
    segments_count: AtomicU32,
    current_offset: AtomicU64,
    first_offset: AtomicU64,
    unsynced_bytes: AtomicU64,
    failed: AtomicBool,
    oldest_segment_timestamp: AtomicU64,
    removed_segments: AtomicU64,
    removed_bytes: AtomicU64,
    retention_held: AtomicBool,
    is_cleaned: AtomicBool,
}

macro_rules! counter {
    ($(#[$doc:meta])* $get:ident, $set:ident, $type:ty) => {
        $(#[$doc])*
        pub fn $get(&self) -> $type {
            self.$get.load(Ordering::Relaxed)
        }

        /// Set a new value; for the owner only.
        pub fn $set(&self, value: $type) {
            self.$get.store(value, Ordering::Relaxed);
        }
    };
}

impl PartitionStatistics {
    counter!(
        /// Number of messages retained, including those still in memory.
        messages_count, set_messages_count, u64
    );
    counter!(
        /// Number of bytes retained, including message headers.
        size_bytes, set_size_bytes, u64
    );
    counter!(
        /// Number of segments, including the open one.
        segments_count, set_segments_count, u32
    );
    counter!(
        /// Offset of the last message; 0 if there is none.
        current_offset, set_current_offset, u64
    );
    counter!(
        /// First offset retained.
        first_offset, set_first_offset, u64
    );
    counter!(
        /// Number of bytes written but not yet synced to the device.
        unsynced_bytes, set_unsynced_bytes, u64
    );
    counter!(
        /// True if the partition closed itself after a failure, or one of its files cannot be written or read at present.
        failed, set_failed, bool
    );
    counter!(
        /// Timestamp in microseconds of the newest message in the oldest segment, which retention by age compares; 0 if
        /// the partition is empty, and until the timestamp was read.
        oldest_segment_timestamp, set_oldest_segment_timestamp, u64
    );
    counter!(
        /// Number of segments removed by retention since the partition was opened.
        removed_segments, set_removed_segments, u64
    );
    counter!(
        /// Number of bytes in the segments removed by retention since the partition was opened.
        removed_bytes, set_removed_bytes, u64
    );
    counter!(
        /// True if the topic is above its maximum size and the oldest segment cannot be removed, because consumers have
        /// not read it or it is not on the device yet.
        retention_held, set_retention_held, bool
    );
    counter!(
        /// True if retention is applied to the partition.
        is_cleaned, set_is_cleaned, bool
    );
}
