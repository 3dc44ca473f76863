//! Recovery of complete stages and of the publication in progress.

use alloc::format;
use alloc::vec::Vec;

use headrace_log::storage::{
    FileName, StorageError, StorageErrorKind, StorageOperation, StorageOutcome, StorageRequest,
};
use headrace_model::StageId;

use super::Stages;
use super::file::{FOOTER_BYTES, Footer, HEADER_BYTES, resembles_footer};
use super::record::{NoRecord, RECORD_BYTES_MAX, Record};
use super::stage::Stage;
use super::state::{CompletionEffect, Loading, Purpose};

impl Stages {
    /// Return whether all files are loaded.
    pub(crate) const fn is_loaded(&self) -> bool {
        matches!(self.loading, Loading::Loaded)
    }

    /// Load the files, one after the other, once they are listed.
    pub(crate) fn load(
        &mut self,
        found: impl FnOnce() -> Option<Vec<(FileName, u64)>>,
        out: &mut Vec<StorageRequest>,
    ) {
        if matches!(self.loading, Loading::NotStarted)
            && let Some(files) = found()
        {
            self.loading = Loading::Reading {
                files,
                is_under_way: false,
            };
        }
        while let Loading::Reading {
            files,
            is_under_way: false,
        } = &mut self.loading
        {
            match files.pop() {
                Some((file, length)) => self.look_into(file, length, out),
                None => self.loading = Loading::Loaded,
            }
        }
    }

    /// Restart loading when the log opens again because of a purge.
    pub(crate) fn restart_loading(&mut self) {
        if self.is_loaded() {
            return;
        }
        self.operations.replace_purposes(|| Purpose::Disowned);
        self.all.clear();
        self.set_aside.clear();
        self.ready_to_advance.clear();
        self.bytes = 0;
        self.publishing.ignores_damage = true;
        self.loading = Loading::NotStarted;
    }

    fn look_into(&mut self, file: FileName, length: u64, out: &mut Vec<StorageRequest>) {
        let (purpose, position, wanted) = match file {
            FileName::Stage(stage) => {
                if length < (HEADER_BYTES + FOOTER_BYTES) as u64 {
                    return self.no_footer((stage, length), false, out);
                }
                let position = length - FOOTER_BYTES as u64;
                let purpose = Purpose::ReadEnd { stage, length };
                (purpose, position, FOOTER_BYTES as u64)
            }
            FileName::Transactions => (Purpose::ReadRecord, 0, length.min(RECORD_BYTES_MAX)),
            FileName::DamagedStage(stage) if self.publishing.ignores_damage => {
                return self.remove(file, Purpose::Remove(stage), out);
            }
            FileName::DamagedStage(stage) => return self.set_aside.push(stage),
            _ => return,
        };
        let operation = StorageOperation::Read {
            file,
            position,
            length: u32::try_from(wanted).expect("a few bytes"),
        };
        self.operations.start_repeated(purpose, operation, out);
        self.set_under_way(true);
    }

    fn set_under_way(&mut self, is: bool) {
        if let Loading::Reading { is_under_way, .. } = &mut self.loading {
            *is_under_way = is;
        }
    }

    pub(super) fn remove(
        &mut self,
        file: FileName,
        purpose: Purpose,
        out: &mut Vec<StorageRequest>,
    ) {
        let operation = StorageOperation::Remove { file };
        self.operations.start_repeated(purpose, operation, out);
    }

    /// Remove a stage without a valid footer: it is incomplete and was never acknowledged as complete. But a complete
    /// one may have been damaged, and its transaction may be committed, perhaps by a catalog that is still to come:
    /// such a stage stays until its publication, or until it is aborted or expires.
    fn no_footer(
        &mut self,
        (id, length): (StageId, u64),
        was_complete: bool,
        out: &mut Vec<StorageRequest>,
    ) {
        if was_complete || self.publishing.is_stage_pending(id) {
            self.bytes += length;
            self.all.insert(id, Stage::unreadable(length));
        } else {
            self.remove(FileName::Stage(id), Purpose::Remove(id), out);
        }
    }

    pub(super) fn end_read(
        &mut self,
        (id, length): (StageId, u64),
        result: Result<StorageOutcome, StorageError>,
        out: &mut Vec<StorageRequest>,
    ) -> CompletionEffect {
        self.set_under_way(false);
        let incarnation = self.incarnation;
        let (footer, was_complete) = match result {
            Ok(StorageOutcome::Read(bytes)) => (
                Footer::decode(&bytes, incarnation, id, length),
                resembles_footer(&bytes, incarnation, id, length),
            ),
            Ok(_) => (None, true),
            Err(error) if error.kind == StorageErrorKind::Missing => {
                return CompletionEffect::Nothing;
            }
            Err(error) if error.kind == StorageErrorKind::Damaged => (None, true),
            Err(error) => {
                return CompletionEffect::NotLoaded(FileName::Stage(id), error);
            }
        };
        match footer {
            Some(footer) => {
                self.bytes += footer.length;
                self.all.insert(id, Stage::found(footer));
            }
            None => self.no_footer((id, length), was_complete, out),
        }
        CompletionEffect::Nothing
    }

    pub(super) fn record_read(
        &mut self,
        result: Result<StorageOutcome, StorageError>,
    ) -> CompletionEffect {
        self.set_under_way(false);
        let decoded = match result {
            Ok(StorageOutcome::Read(bytes)) => Record::decode(&bytes, self.incarnation),
            Err(error) if error.kind != StorageErrorKind::Damaged => {
                return CompletionEffect::NotLoaded(FileName::Transactions, error);
            }
            Ok(_) | Err(_) => Err(NoRecord::Damaged),
        };
        match decoded {
            Ok(record) => self.publishing.found(record),
            // A record of another partition is replaced by the first publication.
            Err(NoRecord::Foreign) => {}
            Err(NoRecord::Damaged) if self.publishing.ignores_damage => {}
            Err(NoRecord::Damaged) => {
                return CompletionEffect::FileInvalid(format!(
                    "{} is damaged, so it is unknown what has been published",
                    FileName::Transactions
                ));
            }
        }
        CompletionEffect::Nothing
    }
}
