//! Truncation: the newest messages are dropped, or all of them, while the log is in use.
//!
//! The manifest first states where the log ends. Then the log is opened again, and recovery carries that statement out, in
//! the same way as after a crash: a crash at any moment leaves the log as it was, or as it is to be. The manifest states
//! it until this opening writes, so that nothing new can be taken for what was dropped.

use alloc::vec::Vec;

use headrace_model::Offset;

use crate::error::TruncateError;
use crate::operations::pending::Pending;
use crate::state::LogState;
use crate::storage::{FileName, StorageError, StorageOperation, StorageRequest};

/// Truncation in progress.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Truncation {
    /// Messages before this offset are dropped.
    first: Offset,
    /// Messages from this offset on are dropped.
    end: Offset,
    step: TruncationStep,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TruncationStep {
    /// Queued messages are being written, and operations are under way.
    Draining,
    /// The manifest is being replaced.
    Marking,
    /// The manifest states where the log ends.
    Marked,
}

/// Continuation of a turn while the log is truncated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TruncationTurn {
    /// Messages are to be written.
    Writes,
    /// New work has to wait.
    Waits,
    /// The log is to be opened again. It ends at this offset.
    Reopens(Offset),
}

impl Truncation {
    /// Drop the messages from `end` on.
    pub(crate) fn to(end: Offset, state: &LogState) -> Result<Self, TruncateError> {
        let (first, next) = (state.first_offset(), state.next_offset());
        if end < first || end > next {
            return Err(TruncateError::OutOfRange { end, first, next });
        }
        let committed = state.committed_end();
        if state.config.replicated && end < committed {
            return Err(TruncateError::Committed { committed });
        }
        // A log without a message says by its first offset where it goes on.
        let first = if end == first {
            end
        } else {
            state.record.first()
        };
        Ok(Self {
            first,
            end,
            step: TruncationStep::Draining,
        })
    }

    /// Drop all messages. The next one has this offset.
    pub(crate) const fn to_nothing(first: Offset) -> Self {
        Self {
            first,
            end: first,
            step: TruncationStep::Draining,
        }
    }

    /// Return whether the manifest neither states the truncation nor is about to.
    pub(crate) fn is_draining(&self) -> bool {
        self.step == TruncationStep::Draining
    }

    /// Start the next step. `has_messages` is true as long as messages are to be written.
    pub(crate) fn advance(
        &mut self,
        has_messages: bool,
        state: &mut LogState,
        out: &mut Vec<StorageRequest>,
    ) -> TruncationTurn {
        if has_messages {
            return TruncationTurn::Writes;
        }
        if !state.operations.purposes().all(Pending::is_read) || state.closing {
            return TruncationTurn::Waits;
        }
        match self.step {
            TruncationStep::Draining if state.health.may_wipe(state.now) => {
                self.step = TruncationStep::Marking;
                let manifest = state
                    .record
                    .truncating(self.first, self.end, &state.segments);
                let operation = StorageOperation::Replace {
                    file: FileName::Manifest,
                    contents: manifest.encode(),
                };
                state
                    .operations
                    .start_repeated(Pending::Truncation, operation, out);
                TruncationTurn::Waits
            }
            TruncationStep::Draining | TruncationStep::Marking => TruncationTurn::Waits,
            TruncationStep::Marked => TruncationTurn::Reopens(self.end),
        }
    }

    /// Handle the end of the replacement of the manifest.
    pub(crate) fn marked(&mut self, result: Result<(), StorageError>, state: &mut LogState) {
        if let Err(error) = result {
            self.step = TruncationStep::Draining;
            let (what, file) = ("truncating by", FileName::Manifest);
            state.fail_unless_out_of_space(state.now, what, file, error);
        } else {
            self.step = TruncationStep::Marked;
            state.health.end_shortage();
        }
    }
}
