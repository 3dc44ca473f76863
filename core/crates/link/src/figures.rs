//! What a node tells of its partitions to those who list them.

use headrace_model::{Namespace, Offset, PartitionStatistics, StreamId, TopicId};

use crate::Place;

/// The partitions that are meant: those of the node that are part of this.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// All.
    Everything,
    /// A stream.
    Stream(StreamId),
    /// A topic.
    Topic(StreamId, TopicId),
}

impl Scope {
    /// Whether a partition is part of it.
    pub fn covers(self, namespace: Namespace) -> bool {
        match self {
            Self::Everything => true,
            Self::Stream(stream) => namespace.stream() == stream,
            Self::Topic(stream, topic) => {
                (namespace.stream(), namespace.topic()) == (stream, topic)
            }
        }
    }
}

/// [`PartitionStatistics`] of one partition at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Figures {
    /// The partition.
    pub namespace: Namespace,
    /// Tells it from another of the same numbers.
    pub incarnation: u64,
    /// Of its topic: what a later purge has removed is still counted.
    pub purge_epoch: u64,
    /// Messages retained.
    pub messages_count: u64,
    /// Bytes retained, message headers included.
    pub size_bytes: u64,
    /// Segments, the open one included.
    pub segments_count: u32,
    /// Of the last message; 0 when there is none.
    pub current_offset: Offset,
    /// First offset still retained.
    pub first_offset: Offset,
    /// Bytes written but not yet synced to the device.
    pub unsynced_bytes: u64,
    /// The partition closed itself after a failure.
    pub failed: bool,
    /// Timestamp in microseconds of the newest message in the oldest segment; 0: not known.
    pub oldest_segment_timestamp: u64,
    /// Segments removed by retention since the partition was opened.
    pub removed_segments: u64,
    /// Bytes in them.
    pub removed_bytes: u64,
    /// The oldest segment should go for the topic's size, and cannot.
    pub retention_held: bool,
    /// What is too old is removed there.
    pub is_cleaned: bool,
}

impl Figures {
    /// What the owner of a partition has written down.
    pub fn read(place: Place, statistics: &PartitionStatistics) -> Self {
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

    /// Write it down where the owner is elsewhere.
    pub fn write(&self, statistics: &PartitionStatistics) {
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
