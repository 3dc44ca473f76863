//! Counters of one partition: written by its owner, read by anyone.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// What others may know of a partition without asking its shard.
///
/// One writer (the owning shard), any number of readers, no ordering between the fields: every counter is
/// right by itself, two of them may be one append apart.
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

        /// The owner's new value.
        pub fn $set(&self, value: $type) {
            self.$get.store(value, Ordering::Relaxed);
        }
    };
}

impl PartitionStatistics {
    counter!(
        /// Messages retained, those still in memory included.
        messages_count, set_messages_count, u64
    );
    counter!(
        /// Bytes retained, message headers included.
        size_bytes, set_size_bytes, u64
    );
    counter!(
        /// Segments, the open one included.
        segments_count, set_segments_count, u32
    );
    counter!(
        /// Offset of the last message; 0 when there is none.
        current_offset, set_current_offset, u64
    );
    counter!(
        /// First offset still retained.
        first_offset, set_first_offset, u64
    );
    counter!(
        /// Bytes written but not yet synced to the device.
        unsynced_bytes, set_unsynced_bytes, u64
    );
    counter!(
        /// The partition closed itself after a failure.
        failed, set_failed, bool
    );
    counter!(
        /// Timestamp in microseconds of the newest message in the oldest segment, by which retention goes; 0 when the
        /// partition is empty, and until it was read.
        oldest_segment_timestamp, set_oldest_segment_timestamp, u64
    );
    counter!(
        /// Segments removed by retention since the partition was opened.
        removed_segments, set_removed_segments, u64
    );
    counter!(
        /// Bytes in the segments removed by retention since the partition was opened.
        removed_bytes, set_removed_bytes, u64
    );
    counter!(
        /// The topic is above its maximum size, and the oldest segment cannot go: consumers have not read it, or it is
        /// not on the device yet.
        retention_held, set_retention_held, bool
    );
    counter!(
        /// A cleaner looks after the partition: what is too old is removed.
        is_cleaned, set_is_cleaned, bool
    );
}
