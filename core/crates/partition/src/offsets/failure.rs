//! A file that cannot be written: the offsets stay in memory, and the whole file is written again until that succeeds.
//!
//! This concerns consumers only. Producers do not depend on the file, so messages are appended meanwhile.

use alloc::boxed::Box;

use headrace_log::storage::{FileName, StorageError};
use headrace_model::Timestamp;

use super::StoredOffsets;
use crate::retry::FailingFile;

/// Effort that is made for the file after a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effort {
    /// Try until it succeeds.
    Endless,
    /// Try once more: the partition closes.
    Once,
    /// The last attempt is due, or was made.
    Nothing,
}

impl StoredOffsets {
    /// Reason why changes cannot be stored at present.
    pub(crate) fn failure(&self) -> Option<StorageError> {
        self.failing.as_ref().map(|failing| failing.error)
    }

    /// Reason why messages must not be appended: the file names offsets that they would get.
    pub(crate) fn withholds_messages(&self) -> Option<StorageError> {
        self.failure().filter(|_| self.is_wrong)
    }

    /// Note that the file could not be written. A failed sync counts too: after it only a new file is known to be whole.
    pub(super) fn failed(&mut self, now: Timestamp, error: StorageError) {
        let mut failing = FailingFile::new(FileName::Offsets, error, now);
        failing.is_due = self.effort == Effort::Once;
        if self.effort != Effort::Endless {
            self.effort = Effort::Nothing;
        }
        self.failing = Some(Box::new(failing));
    }

    /// Forget the failure: the file was written, or nothing is to be written any more.
    pub(super) fn recovered(&mut self) {
        self.failing = None;
    }

    /// Time of the next attempt.
    pub(super) fn retry_deadline(&self) -> Option<Timestamp> {
        let failing = self.failing.as_ref()?;
        (self.effort == Effort::Endless).then_some(failing.retry_at)
    }

    /// Make one more attempt at most, which begins without delay.
    pub(crate) fn close(&mut self) {
        self.sync_all();
        self.effort = Effort::Once;
        if let Some(failing) = &mut self.failing {
            failing.is_due = true;
            self.effort = Effort::Nothing;
        }
    }

    /// Return whether the last attempt has begun, whatever comes of it.
    pub(super) fn is_given_up(&self) -> bool {
        let failing = self.failing.as_deref();
        self.effort == Effort::Nothing && failing.is_some_and(|failing| !failing.is_due)
    }
}
