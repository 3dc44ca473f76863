//! A file that cannot be written: the offsets stay in memory, and the whole file is written again until that succeeds.
//!
//! This concerns consumers only. Producers do not depend on the file, so messages are appended meanwhile.

use alloc::boxed::Box;

use headrace_log::storage::{FileName, StorageError};
use headrace_model::Timestamp;

use crate::retry::{FailingFile, may_try};

/// Effort that is made for the file after a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effort {
    /// Try until it succeeds.
    Endless,
    /// Try once more: the partition closes.
    Once,
    /// The last attempt is due, or was made.
    Nothing,
}

/// Attempts to write the file.
#[derive(Debug)]
pub(super) struct Attempts {
    /// Present while the file cannot be written.
    failing: Option<Box<FailingFile>>,
    effort: Effort,
}

impl Attempts {
    pub(super) const fn new() -> Self {
        Self {
            failing: None,
            effort: Effort::Endless,
        }
    }

    /// Reason why changes cannot be stored at present.
    pub(super) fn failure(&self) -> Option<StorageError> {
        self.failing.as_ref().map(|failing| failing.error)
    }

    /// Return whether the file may be tried now; an attempt that is due begins with this call.
    pub(super) fn may_try(&mut self) -> bool {
        may_try(&mut self.failing)
    }

    /// Allow an attempt after a failure if it is time.
    pub(super) fn pass(&mut self, now: Timestamp) {
        if let Some(failing) = &mut self.failing {
            failing.pass(now);
        }
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
    pub(super) fn close(&mut self) {
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
