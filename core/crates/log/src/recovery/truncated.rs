//! Truncation that the manifest states. Recovery carries it out: it removes the files behind the end before it looks at
//! the others, and ends its scan there.

use alloc::vec::Vec;

use crate::operations::pending::{Pending, Step};
use crate::recovery::{Outcome, Recovery, fail_recovery};
use crate::state::LogState;
use crate::storage::{FileName, StorageOperation, StorageRequest};

impl Recovery {
    /// Remove the files of messages that do not count, one after the other, and go on with the others.
    pub(crate) fn remove_truncated(&mut self, state: &mut LogState, out: &mut Vec<StorageRequest>) {
        let Some(end) = self.truncated_at else {
            return self.rename_foreign_logs(state, out);
        };
        let is_behind = |file: &FileName| matches!(file, FileName::Log(base) | FileName::Index(base) | FileName::Cut(base, _) if *base >= end);
        let mut files = self.files.iter().rev().map(|(file, _)| *file);
        let Some(file) = files.find(is_behind) else {
            state.record.forget_from(end, |_| false);
            return self.rename_foreign_logs(state, out);
        };
        let pending = Pending::Recover(Step::RemoveTruncated { file });
        let operation = StorageOperation::Remove { file };
        state.operations.start_repeated(pending, operation, out);
    }

    pub(crate) fn truncated_removed(
        &mut self,
        file: FileName,
        outcome: &Outcome,
        state: &mut LogState,
        out: &mut Vec<StorageRequest>,
    ) {
        if let Err(error) = outcome {
            return fail_recovery(state, file, *error);
        }
        self.files.retain(|(other, _)| *other != file);
        self.remove_truncated(state, out);
    }
}
