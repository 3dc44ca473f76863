//! Statistics of partitions, sent by a node for listings.

use headrace_model::{Namespace, Offset, PartitionStatistics, StreamId, TopicId};

use crate::PartitionRef;

/// Set of partitions of a node for which statistics are requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// All partitions.
    All,
    /// Partitions of a stream.
    Stream(StreamId),
    /// Partitions of a topic.
    Topic(StreamId, TopicId),
}

impl Scope {
    /// Return whether a partition belongs to the scope.
    pub fn covers(self, namespace: Namespace) -> bool {
        match self {
            Self::All => true,
            Self::Stream(stream) => namespace.stream() == stream,
            Self::Topic(stream, topic) => {
                (namespace.stream(), namespace.topic()) == (stream, topic)
            }
        }
    }
}

/// [`PartitionStatistics`] of one partition at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatisticsSnapshot {
    /// The partition.
    pub namespace: Namespace,
    /// Incarnation, which distinguishes the partition from another with the same ids.
    pub incarnation: u64,
    /// Purge epoch of the topic; messages removed by a later purge are still counted.
    pub purge_epoch: u64,
    /// Number of messages retained.
    pub messages_count: u64,
    /// Number of bytes retained, message headers included.
    pub size_bytes: u64,
    /// Number of segments, the open one included.
    pub segments_count: u32,
    /// Offset of the last message; 0 if the partition is empty.
    pub current_offset: Offset,
    /// First retained offset.
    pub first_offset: Offset,
    /// Number of bytes written but not yet synced to the device.
    pub unsynced_bytes: u64,
    /// True if the partition closed itself after a failure.
    pub failed: bool,
    /// Timestamp in microseconds of the newest message in the oldest segment; 0 if unknown.
    pub oldest_segment_timestamp: u64,
    /// Number of segments removed by retention since the partition was opened.
    pub removed_segments: u64,
    /// Number of bytes in those segments.
    pub removed_bytes: u64,
    /// True if size-based retention should remove the oldest segment but cannot.
    pub retention_held: bool,
    /// True if the node removes expired messages of the partition.
    pub is_cleaned: bool,
}

impl StatisticsSnapshot {
    /// Read the statistics that the owner of a partition maintains.
    pub fn capture(place: PartitionRef, statistics: &PartitionStatistics) -> Self {
        Self {
            namespace: place.namespace,
            incarnation: place.incarnation,
            purge_epoch: place.purge_epoch,
            messages_count: statistics.messages_count(),
            size_bytes: statistics.size_bytes(),
            segments_count: statistics.segments_count(),
            current_offset: Offset(statistics.current_offset()),
            first_offset: Offset(statistics.first_offset()),
            unsynced_bytes: statistics.unsynced_bytes(),
            failed: statistics.failed(),
            oldest_segment_timestamp: statistics.oldest_segment_timestamp(),
            removed_segments: statistics.removed_segments(),
            removed_bytes: statistics.removed_bytes(),
            retention_held: statistics.retention_held(),
            is_cleaned: statistics.is_cleaned(),
        }
    }

    /// Store the statistics in a process that does not own the partition.
    pub fn store_to(&self, statistics: &PartitionStatistics) {
        statistics.set_messages_count(self.messages_count);
        statistics.set_size_bytes(self.size_bytes);
        statistics.set_segments_count(self.segments_count);
        statistics.set_current_offset(self.current_offset.0);
        statistics.set_first_offset(self.first_offset.0);
        statistics.set_unsynced_bytes(self.unsynced_bytes);
        statistics.set_failed(self.failed);
        statistics.set_oldest_segment_timestamp(self.oldest_segment_timestamp);
        statistics.set_removed_segments(self.removed_segments);
        statistics.set_removed_bytes(self.removed_bytes);
        statistics.set_retention_held(self.retention_held);
        statistics.set_is_cleaned(self.is_cleaned);
    }
}
