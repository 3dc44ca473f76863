//! What can be known of a log, and what of it is only there to be fast.

use alloc::sync::Arc;

use headrace_model::{Durability, Offset};

use alloc::vec::Vec;

use crate::config::LogConfig;
use crate::error::Failure;
use crate::error::Notice;
use crate::index::Index;
use crate::log::{Log, Phase};
use crate::manifest::Life;
use crate::segment::Segment;

impl Log {
    /// Whether it can be appended to and read from.
    pub fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open)
    }

    /// Whether closing is complete: no operation is under way and none will follow.
    pub fn is_closed(&self) -> bool {
        matches!(self.phase, Phase::Closed)
    }

    /// Whether nothing is under way and nothing waits for a deadline.
    pub fn is_idle(&self) -> bool {
        self.operations.is_empty()
            && self.wipe.is_none()
            && self.next_deadline().is_none()
            && (self.failure.is_some() || self.tail.queued_bytes() == 0)
    }

    /// Why it is read-only or out of service.
    pub fn failure(&self) -> Option<&Arc<Failure>> {
        self.failure.as_ref()
    }

    /// The settings.
    pub fn config(&self) -> &LogConfig {
        &self.config
    }

    /// Which life of the partition this is: the one on disk may have been purged more often than the settings say.
    pub fn life(&self) -> Life {
        self.life
    }

    /// The first offset retained.
    pub fn first_offset(&self) -> Offset {
        self.segments
            .front()
            .map_or(self.next_offset, |segment| segment.base)
    }

    /// The offset that the next message gets.
    pub fn next_offset(&self) -> Offset {
        self.next_offset
    }

    /// Messages before this one are in the log file.
    pub fn written_end(&self) -> Offset {
        self.written_end
    }

    /// Messages before this one are on the device.
    pub fn synced_end(&self) -> Offset {
        self.synced_end
    }

    /// Messages before this one are as durable as promised, so they are acknowledged and can be read (LOG-15).
    pub fn visible_end(&self) -> Offset {
        match self.config.durability {
            Durability::Memory => self.next_offset,
            Durability::Os => self.written_end,
            Durability::Fsync => self.synced_end,
        }
    }

    /// Bytes retained, those still in memory included.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Segments, the open one included; 1 for an empty log.
    pub fn segments_count(&self) -> usize {
        self.segments.len().max(1)
    }

    /// Bytes written and not known to be on the device.
    pub fn unsynced_bytes(&self) -> u64 {
        self.segments
            .iter()
            .rev()
            .take_while(|segment| segment.synced < segment.size || segment.size == 0)
            .map(Segment::unsynced)
            .sum()
    }

    /// Bytes appended and not handed to a write yet.
    pub fn queued_bytes(&self) -> u64 {
        self.tail.queued_bytes()
    }

    /// Take the findings of recovery.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        core::mem::take(&mut self.notices)
    }

    /// Bytes of memory that hold indexes.
    pub fn index_bytes(&self) -> u64 {
        let indexes = self.segments.iter().map(|segment| &segment.index);
        indexes.map(Index::memory_bytes).sum()
    }

    /// Bytes of memory that speed up reads or hold messages.
    pub fn memory_bytes(&self) -> u64 {
        self.tail.memory_bytes() + self.reads.memory_bytes()
    }
}
