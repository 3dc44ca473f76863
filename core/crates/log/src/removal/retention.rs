//! Retention by age: sealed segments are removed once all their messages have expired, and the open segment is sealed
//! in time for that (LOG-6).

use alloc::boxed::Box;
use alloc::vec::Vec;

use headrace_model::{Offset, Timestamp};
use headrace_wire::message::{HEADER_BYTES, HeaderView};

use crate::log::{Log, Pending};
use crate::storage::{FileName, StorageError, StorageOperation, StorageOutcome, StorageRequest};

/// Number of bytes that are read of a segment's first message.
#[expect(clippy::cast_possible_truncation, reason = "64")]
const HEADER_LENGTH: u32 = HEADER_BYTES as u32;

/// Retention bounds of a log at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Sealed segments whose messages are all older are removed; 0 keeps messages of any age.
    pub expired_before: Timestamp,
    /// Time before which the first message of the open segment must be for the segment to be sealed.
    pub roll_before: Timestamp,
    /// Size from which the open segment is sealed.
    pub roll_bytes: u64,
}

/// Request to apply the bounds in progress; timestamps may have to be read first.
#[derive(Debug)]
pub(crate) struct RetentionRequest {
    retention: Retention,
    /// Offset beyond which messages keep their segment.
    barrier: Option<Offset>,
    /// Segment whose index was requested. A load that yields no timestamp is not repeated before the next request.
    asked: Option<Offset>,
}

/// Number of segments removed by retention and their bytes, since the log was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Removed {
    /// Segments.
    pub segments: u64,
    /// Bytes of messages.
    pub bytes: u64,
}

impl Log {
    /// Apply these bounds from the next [`Log::end_of_turn`] on. Segments with messages beyond `barrier` stay. A
    /// request replaces the one before. Removals that failed before are tried again.
    pub fn retain(&mut self, retention: Retention, barrier: Option<Offset>) {
        self.retry_removals();
        self.retention_request = Some(Box::new(RetentionRequest {
            retention,
            barrier,
            asked: None,
        }));
    }

    /// Removals by [`Log::retain`] and [`Log::remove_oldest`].
    pub fn removed_by_retention(&self) -> Removed {
        self.removed
    }

    /// Remove the oldest segment if it is sealed, on the device and not beyond `barrier`. Returns true if it was
    /// removed.
    pub fn remove_oldest(&mut self, barrier: Option<Offset>) -> bool {
        if !self.is_open() || self.closing || self.wipe.is_some() {
            return false;
        }
        if self.failure.is_some() && !self.is_out_of_space() {
            return false;
        }
        let (count, bytes) = (self.segments.len(), self.size_bytes);
        self.delete_segments(1, barrier);
        let is_gone = self.segments.len() < count;
        if is_gone {
            self.removed.segments += 1;
            self.removed.bytes += bytes - self.size_bytes;
        }
        is_gone
    }

    /// Timestamp of the newest message in the oldest segment, which retention by age compares. None if the log is
    /// empty, or until the timestamp was read.
    pub fn oldest_segment_timestamp(&self) -> Option<Timestamp> {
        let oldest = self.segments.front().filter(|oldest| oldest.size > 0)?;
        oldest.last_timestamp.map(Timestamp)
    }

    /// Advance a retention request as far as timestamps are known, and read the next unknown one.
    pub(crate) fn advance_retention(&mut self, out: &mut Vec<StorageRequest>) {
        if self.closing {
            self.retention_request = None;
        }
        let Some(mut cleaning) = self.retention_request.take() else {
            return;
        };
        if self.failure.is_none() && self.roll(&cleaning.retention, out) {
            self.retention_request = Some(cleaning);
            return;
        }
        while self.segments.len() > 1 {
            let last = match self.last_timestamp_of_oldest() {
                Ok(last) => last,
                Err(segment) => {
                    if self.reads.load.is_none() {
                        if cleaning.asked == Some(segment) {
                            return;
                        }
                        cleaning.asked = Some(segment);
                        self.start_load(segment, false, out);
                    }
                    self.retention_request = Some(cleaning);
                    return;
                }
            };
            let is_expired = last < cleaning.retention.expired_before.0;
            if !is_expired || !self.remove_oldest(cleaning.barrier) {
                return;
            }
        }
    }

    /// Seal the open segment if it is due. Returns true if a timestamp has to be read for that decision.
    fn roll(&mut self, retention: &Retention, out: &mut Vec<StorageRequest>) -> bool {
        let Some(open) = self.segments.back_mut().filter(|open| open.size > 0) else {
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
                if !self.operations.purposes().any(is_read) {
                    let operation = StorageOperation::Read {
                        file: FileName::Log(open.base),
                        position: 0,
                        length: HEADER_LENGTH,
                    };
                    let pending = Pending::FirstMessage(open.base);
                    self.operations.start(pending, operation, out);
                }
                return true;
            }
        };
        if is_due {
            self.begin_segment();
        }
        false
    }

    /// Handle the result of reading the header of a segment's first message.
    pub(crate) fn first_message_read(
        &mut self,
        base: Offset,
        result: Result<StorageOutcome, StorageError>,
    ) {
        let Ok(StorageOutcome::Read(bytes)) = result else {
            // The next request tries again.
            self.retention_request = None;
            return;
        };
        let Some(segment) = self.segment_mut(base) else {
            return;
        };
        let header = bytes.first_chunk::<HEADER_BYTES>().map(HeaderView);
        let header = header.filter(|header| header.offset() == base.0);
        // Assume the greatest age for a damaged message.
        segment.first_timestamp = Some(header.map_or(0, |header| header.timestamp()));
    }

    /// Timestamp of the oldest segment's last message, or the segment whose index has to be loaded first.
    ///
    /// The timestamps of damaged messages at the end of a segment are not known: those of later segments bound them.
    fn last_timestamp_of_oldest(&self) -> Result<u64, Offset> {
        let mut last = 0;
        for segment in &self.segments {
            last = last.max(segment.last_timestamp.ok_or(segment.base)?);
            if !segment.index.rebuilt {
                break;
            }
        }
        Ok(last)
    }
}
