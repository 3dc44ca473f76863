//! State of the removal of all contents of a directory.

use alloc::vec::Vec;

use crate::operations::pending::Pending;
use crate::state::LogState;
use crate::storage::{FileName, StorageError, StorageOperation, StorageRequest};

/// Removal of all contents of the directory.
///
/// The manifest first states that the contents are being dropped, so that none of them count after a crash in the
/// middle. This statement is replaced only before the first file of the new generation is created.
///
/// On a full disk there may be no space for the statement. Index files are then removed before it, which frees some:
/// they are derived, so the contents still count without them if the process ends before the statement is made.
#[derive(Debug)]
pub(crate) struct Wipe {
    files: Vec<FileName>,
    step: WipeStep,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WipeStep {
    /// Operations of the previous generation are still under way.
    Draining,
    /// The manifest is being replaced.
    Marking,
    /// The manifest has no space, and there are index files whose removal frees some.
    OutOfSpace,
    /// This many removals of index files are under way.
    Freeing(usize),
    /// The manifest states that the contents are being dropped.
    Marked,
    /// This many removals are under way.
    Removing(usize),
}

impl Wipe {
    /// Drop these files. `is_marked` is true if the manifest on disk states so already.
    pub(crate) fn new(mut files: Vec<FileName>, is_marked: bool) -> Self {
        // Files may be listed twice if a purge follows another that is not complete.
        files.sort_unstable();
        files.dedup();
        let step = if is_marked {
            WipeStep::Marked
        } else {
            WipeStep::Draining
        };
        Self { files, step }
    }

    /// Files that are not known to be removed.
    pub(crate) fn into_files(self) -> Vec<FileName> {
        self.files
    }

    /// Start the next step. Returns true if nothing is left to be removed. `is_held` is true while other files in the
    /// directory are still being written.
    pub(crate) fn advance(
        &mut self,
        is_held: bool,
        state: &mut LogState,
        out: &mut Vec<StorageRequest>,
    ) -> bool {
        let is_drained = state.operations.is_empty() && !is_held;
        match self.step {
            WipeStep::Draining if is_drained => {
                self.step = WipeStep::Marking;
                let operation = StorageOperation::Replace {
                    file: FileName::Manifest,
                    contents: state.record.dropping().encode(),
                };
                state
                    .operations
                    .start_repeated(Pending::Wipe, operation, out);
            }
            WipeStep::OutOfSpace if is_drained => {
                let files: Vec<FileName> = self.index_files().collect();
                self.step = WipeStep::Freeing(files.len());
                start_removals(files, state, out);
            }
            WipeStep::Marked if self.files.is_empty() => return true,
            WipeStep::Marked => {
                self.step = WipeStep::Removing(self.files.len());
                // Keep the list: a following purge cannot know which of these removals succeeded.
                start_removals(self.files.clone(), state, out);
            }
            WipeStep::Draining
            | WipeStep::Marking
            | WipeStep::OutOfSpace
            | WipeStep::Freeing(_)
            | WipeStep::Removing(_) => {}
        }
        false
    }

    /// Handle the end of an operation. Returns true if everything is removed.
    pub(crate) fn step_done(
        &mut self,
        result: Result<(), StorageError>,
        state: &mut LogState,
    ) -> bool {
        if let Err(error) = result {
            self.failed(error, state);
            return false;
        }
        match self.step {
            WipeStep::Marking => {
                self.step = WipeStep::Marked;
                state.health.end_shortage();
            }
            WipeStep::Freeing(1) => {
                self.files.retain(|file| !is_index(file));
                self.step = WipeStep::Draining;
                state.health.retry_now();
            }
            WipeStep::Freeing(remaining) => self.step = WipeStep::Freeing(remaining - 1),
            WipeStep::Removing(1) => return true,
            WipeStep::Removing(remaining) => self.step = WipeStep::Removing(remaining - 1),
            WipeStep::Draining | WipeStep::OutOfSpace | WipeStep::Marked => {}
        }
        false
    }

    fn failed(&mut self, error: StorageError, state: &mut LogState) {
        let (what, file) = ("dropping what was purged from", FileName::Manifest);
        if self.step != WipeStep::Marking {
            return state.fail_writes(what, file, error);
        }
        let may_free_some = self.index_files().next().is_some();
        self.step = if may_free_some {
            WipeStep::OutOfSpace
        } else {
            WipeStep::Draining
        };
        if state.fail_unless_out_of_space(state.now, what, file, error) && may_free_some {
            state.health.retry_now();
        }
    }

    fn index_files(&self) -> impl Iterator<Item = FileName> {
        self.files.iter().copied().filter(is_index)
    }
}

fn start_removals(files: Vec<FileName>, state: &mut LogState, out: &mut Vec<StorageRequest>) {
    for file in files {
        let operation = StorageOperation::Remove { file };
        state
            .operations
            .start_repeated(Pending::Wipe, operation, out);
    }
}

fn is_index(file: &FileName) -> bool {
    matches!(file, FileName::Index(_))
}
