//! Group commit: one write is under way; everything queued meanwhile is written by the next (LOG-4).

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use headrace_model::{Offset, Timestamp};

use crate::log::{Log, Pending};
use crate::record::ManifestFile;
use crate::segment::{FileState, Segment};
use crate::storage::{
    ALLOCATE_STEP_BYTES, FileName, StorageError, StorageErrorKind, StorageOperation, StorageRequest,
};
use crate::writing::tail::Chunk;

/// Segment size from which space is allocated ahead: most partitions are small and numerous.
pub(crate) const ALLOCATE_FROM_BYTES: u64 = 4 * 1024 * 1024;

/// Return whether all of a chunk is in its log file.
pub(crate) fn is_written(segments: &VecDeque<Segment>, chunk: &Chunk) -> bool {
    let index = segments.partition_point(|segment| segment.base < chunk.segment);
    match segments.get(index) {
        Some(segment) if segment.base == chunk.segment => {
            segment.written >= chunk.position + chunk.bytes().len() as u64
        }
        _ => true,
    }
}

impl Log {
    /// Start a write if one is due and none is under way.
    pub(crate) fn start_write(&mut self, now: Timestamp, out: &mut Vec<StorageRequest>) {
        self.start_rolled_file(out);
        if self.under_way.write
            || self.operations.is_backing_off()
            || self.tail.queued_bytes() == 0
            || !self.write_is_due(now)
        {
            return;
        }
        let Some(index) = self.segment_to_write() else {
            return;
        };
        if !self.is_writable(index, out) {
            return;
        }
        let Some(gathered) = self.tail.gather() else {
            return;
        };
        let segment = &self.segments[index];
        assert!(
            gathered.segment == segment.base && gathered.position == segment.written,
            "writes of a segment follow one another without gaps"
        );
        self.under_way.write = true;
        self.issued_end = self.issued_end.max(gathered.end);
        if self.tail.queued_bytes() == 0 {
            self.flush_deadline = None;
        }
        let pending = Pending::Write {
            segment: gathered.segment,
            bytes: gathered.bytes,
            end: gathered.end,
        };
        let operation = StorageOperation::Write {
            file: FileName::Log(gathered.segment),
            position: gathered.position,
            slices: gathered.slices,
        };
        self.operations.start(pending, operation, out);
    }

    fn write_is_due(&self, now: Timestamp) -> bool {
        if !self.config.durability.delays_writes() || self.closing {
            return true;
        }
        let waiting = self.next_offset.0 - self.issued_end.0;
        self.flush_target > self.issued_end
            || self.tail.queued_bytes() >= self.config.flush_bytes
            || waiting >= u64::from(self.config.flush_messages)
            || self.flush_deadline.is_some_and(|deadline| deadline <= now)
            // The segment is full: write its remainder, so that it can be sealed.
            || self.segments.back().is_some_and(|open| self.issued_end < open.base)
    }

    /// Oldest segment with bytes that are not written.
    fn segment_to_write(&self) -> Option<usize> {
        let settled = self
            .segments
            .iter()
            .rev()
            .position(|segment| segment.written == segment.size && segment.size > 0);
        let index = self.segments.len() - settled.unwrap_or(self.segments.len());
        (index < self.segments.len()).then_some(index)
    }

    /// Return whether the segment's log file can be written to. If not, the missing steps are started.
    ///
    /// A segment gets its first byte only after everything before it is on the device. At recovery a segment with any
    /// bytes therefore vouches for all earlier ones, and only one segment can ever be torn.
    fn is_writable(&mut self, index: usize, out: &mut Vec<StorageRequest>) -> bool {
        let segment = &self.segments[index];
        if segment.log_file != FileState::Ready {
            self.create_log_file(index, out);
            return false;
        }
        if !self.is_epoch_recorded(out) {
            return false;
        }
        index.checked_sub(1).is_none_or(|before| {
            let before = &self.segments[before];
            before.synced == before.size
        })
    }

    /// Create the file of a following segment while the one before is still being written. Files are created one after
    /// the other, because a crash must not leave a gap.
    fn start_rolled_file(&mut self, out: &mut Vec<StorageRequest>) {
        let missing = self
            .segments
            .iter()
            .rev()
            .take_while(|segment| segment.log_file != FileState::Ready)
            .count();
        let oldest = self.segments.len() - missing;
        if missing > 0 && oldest > 0 {
            self.create_log_file(oldest, out);
        }
    }

    fn create_log_file(&mut self, index: usize, out: &mut Vec<StorageRequest>) {
        let is_listed = self.record.may_exist(self.segments[index].base);
        if self.manifest_file != ManifestFile::Current || !is_listed {
            return self.require_manifest(out);
        }
        let segment = &mut self.segments[index];
        let base = segment.base;
        let is_leaving = self.removals.contains(FileName::Log(base));
        if segment.log_file == FileState::Missing && !is_leaving {
            segment.log_file = FileState::Creating;
            let operation = StorageOperation::Create {
                file: FileName::Log(base),
            };
            self.operations
                .start_repeated(Pending::CreateLog(base), operation, out);
        }
    }

    pub(crate) fn log_created(
        &mut self,
        base: Offset,
        result: Result<(), StorageError>,
        now: Timestamp,
    ) {
        let state = match result {
            Ok(()) => {
                self.retry_now();
                FileState::Ready
            }
            Err(error) => {
                if !self.fail_unless_out_of_space(now, "creating", FileName::Log(base), error) {
                    return;
                }
                FileState::Missing
            }
        };
        if let Some(segment) = self.segment_mut(base) {
            segment.log_file = state;
        }
    }

    pub(crate) fn written(
        &mut self,
        base: Offset,
        bytes: u64,
        end: Offset,
        result: Result<(), StorageError>,
        now: Timestamp,
    ) {
        self.under_way.write = false;
        if let Err(error) = result {
            let waits = match error.kind {
                StorageErrorKind::Exhausted => {
                    self.operations.back_off(now);
                    true
                }
                _ => self.fail_unless_out_of_space(now, "writing", FileName::Log(base), error),
            };
            if waits {
                let segment = self.segment_mut(base);
                let written = segment.map_or(0, |segment| segment.written);
                self.tail.rewind(base, written);
                self.issued_end = self.written_end;
                if self.config.durability.delays_writes() {
                    self.flush_deadline = Some(now);
                }
            }
            return;
        }
        self.messages_written();
        if let Some(segment) = self.segment_mut(base) {
            segment.written += bytes;
        }
        self.written_end = self.written_end.max(end);
        let segments = &self.segments;
        self.tail.evict(|chunk| is_written(segments, chunk));
        self.schedule_sync(now);
    }

    /// Reserve space ahead of the writer: appends get cheaper, and a full disk is noticed early.
    pub(crate) fn start_allocate(&mut self, out: &mut Vec<StorageRequest>) {
        let limit = self.segment_size_bytes();
        let Some(segment) = self.segments.back_mut() else {
            return;
        };
        let ahead = segment.written + ALLOCATE_STEP_BYTES / 2;
        if segment.written < ALLOCATE_FROM_BYTES
            || segment.log_file != FileState::Ready
            || segment.allocated >= ahead.min(limit)
        {
            return;
        }
        let position = segment.allocated.max(segment.written);
        let length = ALLOCATE_STEP_BYTES.min(limit.saturating_sub(position));
        if length == 0 {
            return;
        }
        segment.allocated = position + length;
        segment.has_reserve = true;
        let base = segment.base;
        let operation = StorageOperation::Allocate {
            file: FileName::Log(base),
            position,
            length,
        };
        self.start_maintenance(base, operation, out);
    }
}
