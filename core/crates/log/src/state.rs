//! Accessors to the state and the statistics of a log.

use alloc::sync::Arc;

use headrace_model::{LogEnd, Offset, Opening};

use alloc::vec::Vec;

use crate::config::LogConfig;
use crate::error::Failure;
use crate::error::Notice;
use crate::index::Index;
use crate::log::{Log, Phase};
use crate::manifest::Generation;
use crate::segment::Segment;

impl Log {
    /// Return whether messages can be appended and read.
    pub fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open)
    }

    /// Return whether closing is complete: no operation is under way and none will follow.
    pub fn is_closed(&self) -> bool {
        matches!(self.phase, Phase::Closed)
    }

    /// Return whether no operation is under way and no deadline is set.
    pub fn is_idle(&self) -> bool {
        self.operations.is_empty()
            && self.wipe.is_none()
            && self.next_deadline().is_none()
            && (self.failure.is_some() || self.tail.queued_bytes() == 0)
    }

    /// Number of files that were set aside: bytes cut from segments, and foreign logs.
    pub fn set_aside_count(&self) -> usize {
        self.set_aside_files.len()
    }

    /// Return whether the directory is another partition's, so that the log is out of service.
    pub const fn is_foreign(&self) -> bool {
        self.is_foreign
    }

    /// Reason why the log is read-only or out of service.
    pub fn failure(&self) -> Option<&Arc<Failure>> {
        self.failure.as_ref()
    }

    /// Settings of the log.
    pub fn config(&self) -> &LogConfig {
        &self.config
    }

    /// Generation of the log. The one on disk may have a later purge epoch than the settings.
    pub fn generation(&self) -> Generation {
        self.generation
    }

    /// Openings, ascending, up to the present one. See [`headrace_model::cut_since`].
    pub fn openings(&self) -> &Arc<[Opening]> {
        &self.openings
    }

    /// First offset retained.
    pub fn first_offset(&self) -> Offset {
        self.segments
            .front()
            .map_or(self.next_offset, |segment| segment.base)
    }

    /// Offset of the next message.
    pub fn next_offset(&self) -> Offset {
        self.next_offset
    }

    /// End of the messages in the log file.
    pub fn written_end(&self) -> Offset {
        self.written_end
    }

    /// End of the messages on the device.
    pub fn synced_end(&self) -> Offset {
        self.synced_end
    }

    /// End of the messages that are as durable as promised: those before it are acknowledged and can be read (LOG-15).
    pub fn visible_end(&self) -> Offset {
        match self.config.durability.acknowledged_end() {
            LogEnd::Appended => self.next_offset,
            LogEnd::Written => self.written_end,
            LogEnd::Synced => self.synced_end,
        }
    }

    /// Number of bytes retained, including those still in memory.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Number of segments, including the open one; 1 for an empty log.
    pub fn segments_count(&self) -> usize {
        self.segments.len().max(1)
    }

    /// Number of bytes written and not known to be on the device.
    pub fn unsynced_bytes(&self) -> u64 {
        self.segments
            .iter()
            .rev()
            .take_while(|segment| segment.synced < segment.size || segment.size == 0)
            .map(Segment::unsynced)
            .sum()
    }

    /// Number of bytes appended and not handed to a write yet.
    pub fn queued_bytes(&self) -> u64 {
        self.tail.queued_bytes()
    }

    /// Take the findings of recovery.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        core::mem::take(&mut self.notices)
    }

    /// Memory of the indexes in bytes.
    pub fn index_bytes(&self) -> u64 {
        let indexes = self.segments.iter().map(|segment| &segment.index);
        indexes.map(Index::memory_bytes).sum()
    }

    /// Memory in bytes that holds messages or speeds up reads.
    pub fn memory_bytes(&self) -> u64 {
        self.tail.memory_bytes() + self.reads.memory_bytes()
    }
}
