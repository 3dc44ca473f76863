//! Removal of segments: the oldest ones on request or by age, the newest messages by a truncation, or everything at once
//! by a purge.
//!
//! Retention by age removes sealed segments once all their messages have expired, and seals the open segment in time
//! for that (LOG-6).

use alloc::boxed::Box;
use alloc::vec::Vec;

use headrace_model::{Offset, Timestamp};
use headrace_wire::message::{HEADER_BYTES, HeaderView};

use crate::error::TruncateError;
use crate::operations::pending::Pending;
use crate::reading::Reader;
use crate::removal::retention::{RemovalProgress, Removed, Retention, RetentionRequest};
use crate::removal::truncation::{Truncation, TruncationTurn};
use crate::removal::wipe::Wipe;
use crate::segment::FileState;
use crate::state::{LogState, Phase};
use crate::storage::{FileName, StorageError, StorageOperation, StorageOutcome, StorageRequest};

pub(crate) mod queue;
pub(crate) mod retention;
pub(crate) mod truncation;
pub(crate) mod wipe;

/// Number of bytes that are read of a segment's first message.
#[expect(clippy::cast_possible_truncation, reason = "64")]
const HEADER_LENGTH: u32 = HEADER_BYTES as u32;

/// Removals in progress: of everything, and of what expires.
#[derive(Debug, Default)]
pub(crate) struct Remover {
    /// Set while all contents are being removed. Nothing else is begun meanwhile.
    wipe: Option<Box<Wipe>>,
    /// True while other files in the directory are still being written: a wipe waits for them.
    wipe_held: bool,
    /// Retention request that is being applied.
    retention_request: Option<Box<RetentionRequest>>,
    removed: Removed,
    truncation: Option<Box<Truncation>>,
}

impl Remover {
    /// Remove all contents that recovery found to be of another generation.
    pub(crate) fn begin_wipe(&mut self, wipe: Wipe) {
        self.wipe = Some(Box::new(wipe));
    }

    /// Forget the wipe, the retention and the truncation that are in progress.
    pub(crate) fn clear(&mut self) {
        self.wipe = None;
        self.retention_request = None;
        self.truncation = None;
    }

    /// Drop all files of an open log. They are marked as dropped first.
    pub(crate) fn purge(&mut self, state: &mut LogState) {
        let mut files: Vec<FileName> = state.removals.take_all().collect();
        if let Some(wipe) = self.wipe.take() {
            files.extend(wipe.into_files());
        }
        for segment in state.segments.iter() {
            if segment.log_file != FileState::Missing {
                files.push(FileName::Log(segment.base));
                files.push(FileName::Index(segment.base));
            }
        }
        files.append(&mut state.removals.set_aside);
        let has_files = !files.is_empty() || !state.record.is_outdated();
        files.push(FileName::Offsets);
        files.push(FileName::ManifestCopy);
        self.clear();
        if has_files {
            self.begin_wipe(Wipe::new(files, false));
        }
    }

    /// Defer a wipe while other files in the directory are still being written (`held`).
    pub(crate) fn defer_wipe(&mut self, held: bool) {
        self.wipe_held = held;
    }

    pub(crate) fn is_wiping(&self) -> bool {
        self.wipe.is_some()
    }

    pub(crate) fn advance_wipe(
        &mut self,
        now: Timestamp,
        state: &mut LogState,
        out: &mut Vec<StorageRequest>,
    ) {
        let Some(wipe) = &mut self.wipe else {
            return;
        };
        if state.health.may_wipe(now) && wipe.advance(self.wipe_held, state, out) {
            self.wipe = None;
        }
    }

    pub(crate) fn wipe_step_done(
        &mut self,
        result: Result<(), StorageError>,
        state: &mut LogState,
    ) {
        if let Some(wipe) = &mut self.wipe
            && wipe.step_done(result, state)
        {
            self.wipe = None;
        }
    }

    /// Begin a truncation of the open log.
    pub(crate) fn truncate(
        &mut self,
        truncation: Truncation,
        state: &mut LogState,
    ) -> Result<(), TruncateError> {
        if let Some(failure) = state.failure() {
            return Err(TruncateError::Failed(failure.clone()));
        }
        if !state.is_open() || state.closing || self.is_wiping() {
            return Err(TruncateError::Busy);
        }
        state.phase = Phase::Truncating;
        self.clear();
        self.truncation = Some(Box::new(truncation));
        Ok(())
    }

    /// Give up a truncation that has changed nothing on the disk.
    pub(crate) fn give_up_truncation(&mut self, state: &mut LogState) {
        let truncation = &mut self.truncation;
        if truncation
            .take_if(|truncation| truncation.is_draining())
            .is_some()
        {
            state.phase = Phase::Open;
        }
    }

    /// Start the next step of a truncation. `has_messages` is true as long as messages are to be written.
    pub(crate) fn advance_truncation(
        &mut self,
        has_messages: bool,
        state: &mut LogState,
        out: &mut Vec<StorageRequest>,
    ) -> TruncationTurn {
        if state.failure().is_some() && !state.is_out_of_space() {
            self.give_up_truncation(state);
        }
        match &mut self.truncation {
            Some(truncation) => truncation.advance(has_messages, state, out),
            None => TruncationTurn::Writes,
        }
    }

    /// Handle the end of the replacement of the manifest by one that states the truncation.
    pub(crate) fn truncation_marked(
        &mut self,
        result: Result<(), StorageError>,
        state: &mut LogState,
    ) {
        if let Some(truncation) = &mut self.truncation {
            truncation.marked(result, state);
        }
    }

    /// Remove up to `count` sealed segments, oldest first, whose last message is not beyond `barrier`.
    pub(crate) fn delete_segments(
        count: u32,
        barrier: Option<Offset>,
        state: &mut LogState,
        reader: &mut Reader,
    ) -> RemovalProgress {
        let mut left = count;
        while left > 0 {
            let Some(oldest) = state.segments.front() else {
                left = 0;
                break;
            };
            // A message that is not committed may have to be sent to other replicas, or be dropped.
            let is_needed = barrier.is_some_and(|barrier| barrier.advanced_by(1) < oldest.end)
                || state.config.replicated && state.ends.committed < oldest.end;
            // The next segment's file determines the next offset: without it, a crash would restart the log at offset
            // 0.
            let has_follower = state
                .segments
                .get(1)
                .is_some_and(|follower| follower.log_file == FileState::Ready);
            if !has_follower || is_needed {
                left = 0;
                break;
            }
            if !oldest.is_removable() {
                if state.failure().is_some() || state.closing {
                    left = 0;
                }
                break;
            }
            let base = oldest.base;
            state.segments.pop_front();
            state.tail.drop_segment(base);
            reader.forget_segment(base);
            state.record.note_removed(state.first_offset());
            state.removals.push_segment(base);
            left -= 1;
        }
        RemovalProgress {
            sequence: state.removals.requested(),
            remaining: left,
        }
    }

    /// Try again to remove files of removed segments whose removal failed.
    pub(crate) fn retry_removals(state: &mut LogState) {
        if state.failure().is_none() || state.is_out_of_space() {
            state.removals.retry();
        }
    }

    /// Start the next removal if none is under way.
    pub(crate) fn start_removal(state: &mut LogState, out: &mut Vec<StorageRequest>) {
        let is_recorded = match state.removals.front() {
            None => return,
            Some(FileName::Log(base)) => {
                let (segments, operations) = (&state.segments, &mut state.operations);
                state
                    .record
                    .is_removal_recorded(base, segments, operations, out)
            }
            Some(_) => true,
        };
        if is_recorded && let Some(file) = state.removals.begin() {
            let operation = StorageOperation::Remove { file };
            state
                .operations
                .start_repeated(Pending::Remove, operation, out);
        }
    }

    /// Handle the end of a removal.
    pub(crate) fn removed(result: Result<(), StorageError>, state: &mut LogState) {
        if let Some(file) = state.removals.end(result, state.first_offset()) {
            if let FileName::Log(base) = file {
                state.record.remove(base);
            }
            state.health.retry_now();
        }
    }

    /// Apply these bounds from the next turn on. Segments with messages beyond `barrier` stay. A request replaces the
    /// one before. Removals that failed before are tried again.
    pub(crate) fn retain(
        &mut self,
        retention: Retention,
        barrier: Option<Offset>,
        state: &mut LogState,
    ) {
        Self::retry_removals(state);
        self.retention_request = Some(Box::new(RetentionRequest {
            retention,
            barrier,
            asked: None,
        }));
    }

    /// Removals by retention.
    pub(crate) fn removed_by_retention(&self) -> Removed {
        self.removed
    }

    /// Remove the oldest segment if it is sealed, on the device and not beyond `barrier`. Returns true if it was
    /// removed.
    pub(crate) fn remove_oldest(
        &mut self,
        barrier: Option<Offset>,
        state: &mut LogState,
        reader: &mut Reader,
    ) -> bool {
        if !state.is_open() || state.closing || self.wipe.is_some() {
            return false;
        }
        if state.failure().is_some() && !state.is_out_of_space() {
            return false;
        }
        let (count, bytes) = (state.segments.len(), state.size_bytes());
        Self::delete_segments(1, barrier, state, reader);
        let is_gone = state.segments.len() < count;
        if is_gone {
            self.removed.segments += 1;
            self.removed.bytes += bytes - state.size_bytes();
        }
        is_gone
    }

    /// Advance a retention request as far as timestamps are known, and read the next unknown one.
    pub(crate) fn advance_retention(
        &mut self,
        state: &mut LogState,
        reader: &mut Reader,
        out: &mut Vec<StorageRequest>,
    ) {
        if state.closing {
            self.retention_request = None;
        }
        let Some(mut cleaning) = self.retention_request.take() else {
            return;
        };
        if state.failure().is_none() && roll(&cleaning.retention, state, out) {
            self.retention_request = Some(cleaning);
            return;
        }
        while state.segments.len() > 1 {
            let last = match state.segments.last_timestamp_of_oldest() {
                Ok(last) => last,
                Err(segment) => {
                    if !reader.is_loading() {
                        if cleaning.asked == Some(segment) {
                            return;
                        }
                        cleaning.asked = Some(segment);
                        reader.start_load(segment, false, state, out);
                    }
                    self.retention_request = Some(cleaning);
                    return;
                }
            };
            let is_expired = last < cleaning.retention.expired_before.0;
            if !is_expired || !self.remove_oldest(cleaning.barrier, state, reader) {
                return;
            }
        }
    }

    /// Handle the result of reading the header of a segment's first message.
    pub(crate) fn first_message_read(
        &mut self,
        base: Offset,
        result: Result<StorageOutcome, StorageError>,
        state: &mut LogState,
    ) {
        let Ok(StorageOutcome::Read(bytes)) = result else {
            // The next request tries again.
            self.retention_request = None;
            return;
        };
        let Some(segment) = state.segments.at_mut(base) else {
            return;
        };
        let header = bytes.first_chunk::<HEADER_BYTES>().map(HeaderView);
        let header = header.filter(|header| header.offset() == base.0);
        // Assume the greatest age for a damaged message.
        segment.first_timestamp = Some(header.map_or(0, |header| header.timestamp()));
    }
}

/// Seal the open segment if it is due. Returns true if a timestamp has to be read for that decision.
fn roll(retention: &Retention, state: &mut LogState, out: &mut Vec<StorageRequest>) -> bool {
    let Some(open) = state.segments.back().filter(|open| open.size > 0) else {
        return false;
    };
    let is_due = match open.first_timestamp {
        _ if open.size >= retention.roll_bytes => true,
        // No message is old enough, whatever its timestamp.
        _ if retention.roll_before == Timestamp(0) => false,
        Some(first) => first < retention.roll_before.0,
        None if open.written < HEADER_BYTES as u64 => false,
        None => {
            let is_read = |pending: &Pending| matches!(pending, Pending::FirstMessage(_));
            if !state.operations.purposes().any(is_read) {
                let operation = StorageOperation::Read {
                    file: FileName::Log(open.base),
                    position: 0,
                    length: HEADER_LENGTH,
                };
                let pending = Pending::FirstMessage(open.base);
                state.operations.start(pending, operation, out);
            }
            return true;
        }
    };
    if is_due {
        state.begin_segment();
    }
    false
}
