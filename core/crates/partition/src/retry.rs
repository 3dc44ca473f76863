//! A file that cannot be written or read, although the partition depends on it: it is tried again until that succeeds.

use alloc::boxed::Box;

use headrace_log::storage::{FileName, StorageError};
use headrace_model::{Namespace, Timestamp};

use crate::api::PartitionError;

/// Microseconds between two attempts.
const RETRY_MICROS: u64 = 1_000_000;

/// Failure of the last attempt.
#[derive(Debug)]
pub(crate) struct FailingFile {
    pub(crate) file: FileName,
    pub(crate) error: StorageError,
    /// Time of the next attempt.
    pub(crate) retry_at: Timestamp,
    /// True if the file may be tried now.
    pub(crate) is_due: bool,
}

impl FailingFile {
    pub(crate) fn new(file: FileName, error: StorageError, now: Timestamp) -> Self {
        Self {
            file,
            error,
            retry_at: Timestamp(now.0 + RETRY_MICROS),
            is_due: false,
        }
    }

    /// Let the next attempt begin if it is time.
    pub(crate) fn pass(&mut self, now: Timestamp) {
        if self.retry_at <= now {
            self.retry_at = Timestamp(now.0 + RETRY_MICROS);
            self.is_due = true;
        }
    }
}

/// Return whether the file may be tried now: nothing has failed, or an attempt is due, which begins with this call.
pub(crate) fn may_try(failing: &mut Option<Box<FailingFile>>) -> bool {
    match failing {
        Some(failing) => core::mem::take(&mut failing.is_due),
        None => true,
    }
}

pub(crate) fn not_stored(
    namespace: Namespace,
    file: FileName,
    source: StorageError,
) -> PartitionError {
    PartitionError::Store {
        namespace,
        file,
        source,
    }
}
