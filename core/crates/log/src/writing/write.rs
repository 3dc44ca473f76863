//! Group commit: one write is under way; everything queued meanwhile is written by the next (LOG-4). `start` has the
//! order of what is due.

use alloc::vec::Vec;

use headrace_model::{Offset, Timestamp};

use crate::operations::pending::Pending;
use crate::segment::{ALLOCATE_FROM_BYTES, FileState};
use crate::state::LogState;
use crate::storage::{
    ALLOCATE_STEP_BYTES, FileName, StorageError, StorageErrorKind, StorageOperation, StorageRequest,
};
use crate::writing::Writer;
use crate::writing::sync::{is_index_up_to_date, start_trim};

impl Writer {
    /// Start what is due: a write, a sync, index entries, and space for more.
    pub(crate) fn start(
        &mut self,
        now: Timestamp,
        state: &mut LogState,
        out: &mut Vec<StorageRequest>,
    ) {
        self.start_write(now, state, out);
        self.start_sync(now, state, out);
        start_trim(state, out);
        self.start_save(state, out);
        start_allocate(state, out);
    }

    /// Return whether messages are to be written, or are being written.
    pub(crate) fn has_messages(&self, state: &LogState) -> bool {
        state.tail.queued_bytes() > 0 || self.write
    }

    /// Return whether all messages and their index entries are stored.
    pub(crate) fn has_drained(state: &LogState) -> bool {
        state.tail.queued_bytes() == 0
            && state.segments.iter().rev().all(|segment| {
                segment.synced == segment.size && is_index_up_to_date(segment, state)
            })
    }

    /// Retry whatever lacked space, if it is time.
    pub(crate) fn retry_after_shortage(
        &mut self,
        now: Timestamp,
        state: &mut LogState,
        out: &mut Vec<StorageRequest>,
    ) {
        if !state.health.take_retry(now, self.has_messages(state)) {
            return;
        }
        if state.config.durability.delays_writes() {
            self.flush_deadline = Some(now);
        }
        // A new segment waits for the sync of the one before.
        self.start_sync(now, state, out);
        self.start_write(now, state, out);
    }

    /// Start a write if one is due and none is under way.
    pub(crate) fn start_write(
        &mut self,
        now: Timestamp,
        state: &mut LogState,
        out: &mut Vec<StorageRequest>,
    ) {
        start_rolled_file(state, out);
        if self.write
            || state.operations.is_backing_off()
            || state.tail.queued_bytes() == 0
            || !self.write_is_due(now, state)
        {
            return;
        }
        let Some(index) = segment_to_write(state) else {
            return;
        };
        if !is_writable(index, state, out) {
            return;
        }
        let Some(gathered) = state.tail.gather() else {
            return;
        };
        let segment = &state.segments[index];
        assert!(
            gathered.segment == segment.base && gathered.position == segment.written,
            "writes of a segment follow one another without gaps"
        );
        self.write = true;
        self.issued_end = self.issued_end.max(gathered.end);
        if state.tail.queued_bytes() == 0 {
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
        state.operations.start(pending, operation, out);
    }

    fn write_is_due(&self, now: Timestamp, state: &LogState) -> bool {
        if !state.config.durability.delays_writes() || state.closing {
            return true;
        }
        let waiting = state.ends.next.0 - self.issued_end.0;
        self.flush_target > self.issued_end
            || state.tail.queued_bytes() >= state.config.flush_bytes
            || waiting >= u64::from(state.config.flush_messages)
            || self.flush_deadline.is_some_and(|deadline| deadline <= now)
            // The segment is full: write its remainder, so that it can be sealed.
            || state.segments.back().is_some_and(|open| self.issued_end < open.base)
    }

    pub(crate) fn written(
        &mut self,
        (base, bytes, end): (Offset, u64, Offset),
        (now, state): (Timestamp, &mut LogState),
        result: Result<(), StorageError>,
    ) {
        self.write = false;
        if let Err(error) = result {
            let waits = match error.kind {
                StorageErrorKind::Exhausted => {
                    state.operations.back_off(now);
                    true
                }
                _ => state.fail_unless_out_of_space(now, "writing", FileName::Log(base), error),
            };
            if waits {
                let segment = state.segments.at_mut(base);
                let written = segment.map_or(0, |segment| segment.written);
                state.tail.rewind(base, written);
                self.issued_end = state.ends.written;
                if state.config.durability.delays_writes() {
                    self.flush_deadline = Some(now);
                }
            }
            return;
        }
        state.health.messages_written();
        if let Some(segment) = state.segments.at_mut(base) {
            segment.written += bytes;
        }
        state.ends.written = state.ends.written.max(end);
        let segments = &state.segments;
        state.tail.evict(|chunk| segments.is_written(chunk));
        self.schedule_sync(now, state);
    }
}

/// Oldest segment with bytes that are not written.
fn segment_to_write(state: &LogState) -> Option<usize> {
    let settled = state
        .segments
        .iter()
        .rev()
        .position(|segment| segment.written == segment.size && segment.size > 0);
    let index = state.segments.len() - settled.unwrap_or(state.segments.len());
    (index < state.segments.len()).then_some(index)
}

/// Return whether the segment's log file can be written to. If not, the missing steps are started.
///
/// A segment gets its first byte only after everything before it is on the device. At recovery a segment with any
/// bytes therefore vouches for all earlier ones, and only one segment can ever be torn.
fn is_writable(index: usize, state: &mut LogState, out: &mut Vec<StorageRequest>) -> bool {
    let segment = &state.segments[index];
    if segment.log_file != FileState::Ready {
        create_log_file(index, state, out);
        return false;
    }
    if !state
        .record
        .is_epoch_recorded(&state.segments, &mut state.operations, out)
    {
        return false;
    }
    index.checked_sub(1).is_none_or(|before| {
        let before = &state.segments[before];
        before.synced == before.size
    })
}

/// Create the file of a following segment while the one before is still being written. Files are created one after
/// the other, because a crash must not leave a gap.
fn start_rolled_file(state: &mut LogState, out: &mut Vec<StorageRequest>) {
    let missing = state
        .segments
        .iter()
        .rev()
        .take_while(|segment| segment.log_file != FileState::Ready)
        .count();
    let oldest = state.segments.len() - missing;
    if missing > 0 && oldest > 0 {
        create_log_file(oldest, state, out);
    }
}

fn create_log_file(index: usize, state: &mut LogState, out: &mut Vec<StorageRequest>) {
    let is_listed = state.record.may_exist(state.segments[index].base);
    if !state.record.is_current() || !is_listed {
        let (segments, operations) = (&state.segments, &mut state.operations);
        return state.record.require(segments, operations, out);
    }
    let segment = &mut state.segments[index];
    let base = segment.base;
    let is_leaving = state.removals.contains(FileName::Log(base));
    if segment.log_file == FileState::Missing && !is_leaving {
        segment.log_file = FileState::Creating;
        let operation = StorageOperation::Create {
            file: FileName::Log(base),
        };
        state
            .operations
            .start_repeated(Pending::CreateLog(base), operation, out);
    }
}

/// Reserve space ahead of the writer: appends get cheaper, and a full disk is noticed early.
pub(crate) fn start_allocate(state: &mut LogState, out: &mut Vec<StorageRequest>) {
    let limit = state.segment_size_bytes();
    let Some(segment) = state.segments.back_mut() else {
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
    state.start_maintenance(base, operation, out);
}

/// Handle the end of the creation of a log file.
pub(crate) fn log_created(
    base: Offset,
    (now, state): (Timestamp, &mut LogState),
    result: Result<(), StorageError>,
) {
    let file = match result {
        Ok(()) => {
            state.health.retry_now();
            FileState::Ready
        }
        Err(error) => {
            if !state.fail_unless_out_of_space(now, "creating", FileName::Log(base), error) {
                return;
            }
            FileState::Missing
        }
    };
    if let Some(segment) = state.segments.at_mut(base) {
        segment.log_file = file;
    }
}
