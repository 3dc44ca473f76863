//! Handling of a full disk: the log is read-only until a retry finds space again (LOG-14).
//!
//! Messages that could not be written stay in memory at their offsets, and are what is retried. Their producers
//! received an error; the messages are stored once there is space all the same, as after a lost response.

use alloc::format;
use alloc::vec::Vec;

use headrace_model::Timestamp;

use crate::log::Log;
use crate::storage::{FileName, StorageError, StorageRequest};

/// Microseconds between two attempts.
const RETRY_MICROS: u64 = 1_000_000;

/// State of a shortage of space.
#[derive(Debug)]
pub(crate) struct OutOfSpace {
    retry_at: Timestamp,
    /// True if the file of stored offsets is among the files that lack space.
    offsets: bool,
    /// True if that file may be tried now.
    may_retry_offsets: bool,
}

impl Log {
    /// Record a lack of space. The log is read-only until there is space again.
    pub(crate) fn enter_out_of_space(
        &mut self,
        now: Timestamp,
        what: &str,
        file: FileName,
        error: StorageError,
    ) {
        if self.failure.is_some() && self.shortage.is_none() {
            return;
        }
        let reason = format!("{what} {file} failed: {error}; it goes on when there is some");
        self.note_failure(true, reason);
        let had_offsets = self.shortage.take().is_some_and(|known| known.offsets);
        self.shortage = Some(OutOfSpace {
            retry_at: Timestamp(now.0 + RETRY_MICROS),
            offsets: had_offsets || file == FileName::Offsets,
            may_retry_offsets: false,
        });
    }

    /// Return whether the log is read-only only until space is found.
    pub fn is_out_of_space(&self) -> bool {
        self.shortage.is_some()
    }

    /// Time of the next retry.
    pub(crate) fn shortage_deadline(&self) -> Option<Timestamp> {
        self.shortage.as_ref().map(|shortage| shortage.retry_at)
    }

    /// Retry without delay: an operation succeeded, a file was removed, or this is the last opportunity.
    pub(crate) fn retry_now(&mut self) {
        if let Some(shortage) = &mut self.shortage {
            shortage.retry_at = Timestamp(0);
        }
    }

    /// Return whether a write of changed offsets may be tried now; true once per retry.
    pub fn take_offsets_retry(&mut self) -> bool {
        self.shortage
            .as_mut()
            .is_some_and(|shortage| core::mem::take(&mut shortage.may_retry_offsets))
    }

    /// Note that changed offsets were written.
    pub fn offsets_written(&mut self) {
        if let Some(shortage) = &mut self.shortage {
            shortage.offsets = false;
            self.retry_now();
        }
    }

    /// Note that messages were written.
    pub(crate) fn messages_written(&mut self) {
        if self.shortage.as_ref().is_some_and(|known| !known.offsets) {
            self.end_shortage();
        }
    }

    /// Return whether a wipe may go on: there is no failure, or a retry of what lacked space is due. The shortage lasts
    /// until the retry succeeds: otherwise each retry would take messages and refuse them a moment later.
    pub(crate) fn may_wipe(&mut self, now: Timestamp) -> bool {
        let Some(shortage) = &mut self.shortage else {
            return self.failure.is_none();
        };
        let is_due = shortage.retry_at <= now;
        if is_due {
            shortage.retry_at = Timestamp(now.0 + RETRY_MICROS);
        }
        is_due
    }

    /// End the shortage, if there is one. A failure that is no shortage stays.
    pub(crate) fn end_shortage(&mut self) {
        if self.shortage.take().is_some() {
            self.failure = None;
        }
    }

    /// Retry whatever lacked space, if it is time.
    pub(crate) fn retry_after_shortage(&mut self, now: Timestamp, out: &mut Vec<StorageRequest>) {
        let has_messages = self.tail.queued_bytes() > 0 || self.under_way.write;
        let Some(shortage) = &mut self.shortage else {
            return;
        };
        if shortage.retry_at > now {
            return;
        }
        shortage.retry_at = Timestamp(now.0 + RETRY_MICROS);
        shortage.may_retry_offsets = shortage.offsets;
        if !has_messages && !shortage.offsets {
            return self.end_shortage();
        }
        if self.config.durability.delays_writes() {
            self.flush_deadline = Some(now);
        }
        // A new segment waits for the sync of the one before.
        self.start_sync(now, out);
        self.start_write(now, out);
    }
}
