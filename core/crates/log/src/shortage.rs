//! No space is left: nothing is taken until there is some again, which is found out by trying (LOG-14).
//!
//! What could not be written stays in memory, in its place, and is what is tried with. Whoever appended it was told that
//! it failed; it is stored all the same once there is room, as after a response that was lost.

use alloc::format;
use alloc::vec::Vec;

use headrace_model::{Durability, Timestamp};

use crate::log::Log;
use crate::storage::{FileName, StorageError, StorageRequest};

/// Microseconds between two attempts.
const RETRY_MICROS: u64 = 1_000_000;

/// What is known of it.
#[derive(Debug)]
pub(crate) struct Shortage {
    retry_at: Timestamp,
    /// The file of stored offsets is one of those for which there was no room.
    offsets: bool,
    /// That file may be tried now.
    offsets_turn: bool,
}

impl Log {
    /// There was no room for something. The log is read-only until there is.
    pub(crate) fn run_short(
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
        self.shortage = Some(Shortage {
            retry_at: Timestamp(now.0 + RETRY_MICROS),
            offsets: had_offsets || file == FileName::Offsets,
            offsets_turn: false,
        });
    }

    /// Whether the reason why it is read-only may go away by itself.
    pub fn is_short_of_space(&self) -> bool {
        self.shortage.is_some()
    }

    /// When to try again.
    pub(crate) fn shortage_deadline(&self) -> Option<Timestamp> {
        self.shortage.as_ref().map(|shortage| shortage.retry_at)
    }

    /// Do not wait before trying again: something has succeeded, or was removed, or it is the last opportunity.
    pub(crate) fn hurry(&mut self) {
        if let Some(shortage) = &mut self.shortage {
            shortage.retry_at = Timestamp(0);
        }
    }

    /// Whether changed offsets may be tried to be written, this once.
    pub fn take_turn_of_offsets(&mut self) -> bool {
        self.shortage
            .as_mut()
            .is_some_and(|shortage| core::mem::take(&mut shortage.offsets_turn))
    }

    /// Changed offsets were written.
    pub fn offsets_have_room(&mut self) {
        if let Some(shortage) = &mut self.shortage {
            shortage.offsets = false;
            self.hurry();
        }
    }

    /// Messages were written.
    pub(crate) fn messages_have_room(&mut self) {
        if self.shortage.as_ref().is_some_and(|known| !known.offsets) {
            self.end_shortage();
        }
    }

    /// Files that others keep in the folder found no room while everything is being dropped: that makes some.
    pub(crate) fn end_shortage_of_wipe(&mut self, now: Timestamp) {
        let is_due = |shortage: &Shortage| shortage.retry_at <= now;
        if self.is_wiping() && self.shortage.as_ref().is_some_and(is_due) {
            self.end_shortage();
        }
    }

    fn end_shortage(&mut self) {
        self.shortage = None;
        self.failure = None;
    }

    /// Try whatever there was no room for, if it is time.
    pub(crate) fn try_again(&mut self, now: Timestamp, out: &mut Vec<StorageRequest>) {
        let has_messages = self.tail.queued_bytes() > 0 || self.under_way.write;
        let Some(shortage) = &mut self.shortage else {
            return;
        };
        if shortage.retry_at > now {
            return;
        }
        shortage.retry_at = Timestamp(now.0 + RETRY_MICROS);
        shortage.offsets_turn = shortage.offsets;
        if !has_messages && !shortage.offsets {
            return self.end_shortage();
        }
        if self.config.durability == Durability::Memory {
            self.flush_deadline = Some(now);
        }
        // A new segment waits for the sync of the one before.
        self.start_sync(now, out);
        self.start_write(now, out);
    }
}
