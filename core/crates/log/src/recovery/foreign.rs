//! Foreign logs: log files in the directory that are not this partition's.
//!
//! Only the manifest identifies them: it does not list them, or they begin with another message than it says. A foreign
//! log is renamed and reported, and never read.

use alloc::vec::Vec;

use headrace_model::Offset;

use crate::error::Notice;
use crate::operations::pending::{Pending, Step};
use crate::recovery::Recovery;
use crate::recovery::compare::{Comparison, beginning, compare};
use crate::recovery::{Outcome, fail_recovery};
use crate::segment::FirstMessage;
use crate::state::LogState;
use crate::storage::{FileName, StorageOperation, StorageOutcome, StorageRequest};

impl Recovery {
    /// Rename the first log that is not listed; continue recovery with the listed ones when none is left.
    pub(crate) fn rename_foreign_logs(
        &mut self,
        state: &mut LogState,
        out: &mut Vec<StorageRequest>,
    ) {
        self.finish_removals(state);
        let logs = self.logs();
        let is_foreign = |base: Offset| !state.record.may_exist(base);
        let Some((base, size)) = logs.into_iter().find(|(base, _)| is_foreign(*base)) else {
            return self.choose_active(state, out);
        };
        let file = FileName::Log(base);
        if size == 0 {
            // An empty log has no contents to preserve.
            self.files.retain(|(other, _)| *other != file);
            state.removals.push(file);
            return self.rename_foreign_logs(state, out);
        }
        self.rename_foreign_log(base, state, out);
    }

    fn rename_foreign_log(
        &mut self,
        base: Offset,
        state: &mut LogState,
        out: &mut Vec<StorageRequest>,
    ) {
        let file = FileName::Log(base);
        let number = self.next_number(|file| match file {
            FileName::Foreign(of, number) if of == base => Some(number),
            _ => None,
        });
        let into = FileName::Foreign(base, number);
        let step = Step::Rename { file, into };
        let operation = StorageOperation::Rename { file, into };
        state
            .operations
            .start_repeated(Pending::Recover(step), operation, out);
    }

    pub(crate) fn foreign_set_aside(
        &mut self,
        (file, into): (FileName, FileName),
        outcome: &Outcome,
        state: &mut LogState,
        out: &mut Vec<StorageRequest>,
    ) {
        if let Err(error) = outcome {
            return fail_recovery(state, file, *error);
        }
        let files = &mut self.files;
        let renamed = files.iter_mut().find(|(other, _)| *other == file);
        let bytes = renamed.map_or(0, |(name, bytes)| {
            *name = into;
            *bytes
        });
        state.findings.notices.push(Notice::Foreign {
            file,
            bytes,
            kept: into,
        });
        self.rename_foreign_logs(state, out);
    }

    /// Read the beginning of the log that is about to be scanned.
    pub(crate) fn read_first_message(
        &mut self,
        length: u64,
        state: &mut LogState,
        out: &mut Vec<StorageRequest>,
    ) {
        let operation = beginning(self.scanned_segment.0, length);
        state
            .operations
            .start_repeated(Pending::Recover(Step::FirstMessage), operation, out);
    }

    pub(crate) fn first_message_found(
        &mut self,
        outcome: &Outcome,
        state: &mut LogState,
        out: &mut Vec<StorageRequest>,
    ) {
        let (base, size) = self.scanned_segment;
        let recorded = state
            .record
            .listed(base)
            .and_then(|listed| listed.first_checksum);
        let bytes = match outcome {
            Ok(StorageOutcome::Read(bytes)) => &bytes[..],
            // The scan meets the same failure, if it comes to that place.
            Ok(_) | Err(_) => &[],
        };
        match compare(base, size, recorded, bytes) {
            Comparison::Same(first) => {
                self.first_message = first;
                self.read_active_index(state, out);
            }
            Comparison::Damaged(recorded) => {
                // The first read compares the last message, if the segment is sealed.
                self.first_message = FirstMessage::Recorded(recorded);
                self.read_active_index(state, out);
            }
            Comparison::Needs(length) => self.read_first_message(length, state, out),
            Comparison::Another(_) => self.rename_foreign_log(base, state, out),
        }
    }
}
