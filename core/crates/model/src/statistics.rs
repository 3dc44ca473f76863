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
}
