//! Identity of a directory: the partition that the files belong to (LOG-12, LOG-13).
//!
//! The manifest says it; its copy replaces one that is lost, damaged or another partition's. What does not fit is never
//! removed: files of an earlier partition with the same number are moved away as a whole, and a directory of any other
//! partition is left as it is, out of service, until it is moved to its place.

use alloc::format;
use alloc::vec::Vec;

use crate::error::Notice;
use crate::manifest::{Listed, MANIFEST_BYTES_MAX, Manifest};
use crate::operations::pending::{Pending, Step};
use crate::record::Record;
use crate::recovery::Recovery;
use crate::recovery::relation::{Relation, relation};
use crate::recovery::{Outcome, fail_recovery};
use crate::state::LogState;
use crate::storage::{
    FileName, StorageErrorKind, StorageOperation, StorageOutcome, StorageRequest,
};

impl Recovery {
    pub(crate) fn listed(
        &mut self,
        outcome: Outcome,
        state: &mut LogState,
        out: &mut Vec<StorageRequest>,
    ) {
        let files = match outcome {
            Ok(StorageOutcome::Listed(files)) => files,
            Ok(_) => return state.fail_open("the directory cannot be listed".into()),
            Err(error) => {
                return state.fail_open(format!("the directory cannot be opened: {error}"));
            }
        };
        state.record.begin_epoch(state.now);
        self.files = files;
        if self.drop_all {
            if state.findings.is_foreign {
                return set_aside_directory(state, out);
            }
            self.hand_over_transaction_files(state);
            return self.drop_contents(false, state);
        }
        // A manifest is written before any of these.
        let is_of_a_log = |(file, _): &(FileName, u64)| {
            !matches!(
                file,
                FileName::Offsets
                    | FileName::Stage(_)
                    | FileName::DamagedStage(_)
                    | FileName::Transactions
            )
        };
        if !self.files.iter().any(is_of_a_log) {
            self.hand_over_transaction_files(state);
            return self.drop_contents(false, state);
        }
        self.read_manifest(FileName::Manifest, state, out);
    }

    /// Hand over the transaction files. They identify their partition themselves and outlive a purge.
    fn hand_over_transaction_files(&mut self, state: &mut LogState) {
        let is_theirs = |(file, _): &mut (FileName, u64)| {
            use FileName::{DamagedStage, Stage, Transactions};
            matches!(file, Stage(_) | DamagedStage(_) | Transactions)
        };
        let files = &mut self.files;
        let theirs = files.extract_if(.., is_theirs).collect();
        state.findings.transaction_files = Some(theirs);
    }

    /// Read the manifest or its copy.
    fn read_manifest(
        &mut self,
        file: FileName,
        state: &mut LogState,
        out: &mut Vec<StorageRequest>,
    ) {
        match self.size_of(file) {
            Some(size) if size <= MANIFEST_BYTES_MAX => {
                let operation = StorageOperation::Read {
                    file,
                    position: 0,
                    length: u32::try_from(size).expect("it is limited"),
                };
                state.operations.start_repeated(
                    Pending::Recover(Step::Manifest { file }),
                    operation,
                    out,
                );
            }
            Some(_) | None => self.judge(file, None, state, out),
        }
    }

    pub(crate) fn manifest_read(
        &mut self,
        file: FileName,
        outcome: Outcome,
        state: &mut LogState,
        out: &mut Vec<StorageRequest>,
    ) {
        let manifest = match outcome {
            Ok(StorageOutcome::Read(bytes)) => Manifest::decode(&bytes),
            Err(error)
                if !matches!(
                    error.kind,
                    StorageErrorKind::Damaged | StorageErrorKind::Missing
                ) =>
            {
                return fail_recovery(state, file, error);
            }
            Ok(_) | Err(_) => None,
        };
        self.judge(file, manifest, state, out);
    }

    /// Decide what the files in the directory are, by the manifest in `file`, which may be missing or damaged.
    fn judge(
        &mut self,
        file: FileName,
        manifest: Option<Manifest>,
        state: &mut LogState,
        out: &mut Vec<StorageRequest>,
    ) {
        let is_copy = file == FileName::ManifestCopy;
        let relation = manifest
            .as_ref()
            .map(|manifest| relation_of(manifest, &state.record));
        match (manifest, relation) {
            (Some(manifest), Some(Relation::Own)) => self.adopt(manifest, is_copy, state, out),
            // What the first one says counts if the copy is no better.
            (_, relation) if !is_copy => {
                self.relation = relation;
                self.read_manifest(FileName::ManifestCopy, state, out);
            }
            (_, relation) => {
                let first = self.relation.take();
                refuse(first.or(relation), state, out);
            }
        }
    }

    /// Go on with the files of this partition.
    fn adopt(
        &mut self,
        mut manifest: Manifest,
        is_copy: bool,
        state: &mut LogState,
        out: &mut Vec<StorageRequest>,
    ) {
        self.hand_over_transaction_files(state);
        let is_earlier = manifest.generation.purge_epoch < state.record.generation.purge_epoch;
        if is_earlier && !manifest.is_repaired() {
            return self.drop_contents(false, state);
        }
        // A purge may have reached the disk before the settings were updated.
        let incarnation = state.record.generation.incarnation;
        let is_repaired = manifest.is_repaired();
        state.record.generation = manifest.generation;
        if is_repaired {
            state.record.generation.incarnation = incarnation;
        }
        if manifest.dropping {
            return self.drop_contents(!is_copy, state);
        }
        // A manifest of an earlier format is replaced.
        let is_current =
            manifest.segments.is_some() && manifest.owner.is_some() && !is_copy && !is_repaired;
        // The copy may have been written before messages that came after a truncation.
        self.truncated_at = manifest.end.filter(|_| !is_copy);
        if is_copy {
            state.findings.notices.push(Notice::Rebuilt {
                file: FileName::Manifest,
            });
            // The copy may be older than the newest segments.
            if let Some(listed) = &mut manifest.segments {
                let last = listed.last().map(|listed| listed.base);
                let newer = self.logs().into_iter().map(|(base, _)| base);
                let newer = newer.filter(|base| last.is_none_or(|last| *base > last));
                listed.extend(newer.map(Listed::new));
            }
        }
        state.record.found(manifest, is_current);
        self.remove_truncated(state, out);
    }

    pub(crate) fn directory_set_aside(&mut self, outcome: &Outcome, state: &mut LogState) {
        if let Err(error) = outcome {
            return state.fail_open(format!(
                "files of an earlier partition with this number cannot be moved away: {error}"
            ));
        }
        state.findings.is_foreign = false;
        let files = core::mem::take(&mut self.files);
        state.findings.transaction_files = Some(Vec::new());
        state.findings.notices.push(Notice::SetAside {
            files_count: files.len() as u64,
            bytes: files.iter().map(|(_, bytes)| bytes).sum(),
        });
        self.drop_contents(false, state);
    }
}

/// Neither the manifest nor its copy is this partition's.
fn refuse(relation: Option<Relation>, state: &mut LogState, out: &mut Vec<StorageRequest>) {
    match relation {
        Some(Relation::Earlier) => set_aside_directory(state, out),
        Some(Relation::Foreign(reason)) => {
            state.findings.is_foreign = true;
            state.fail_open(reason);
        }
        Some(Relation::Own) | None => state.fail_open(format!(
            "{} is missing or damaged, and so is its copy, so it is unknown whose messages the directory contains: \
             `headrace fsck --repair` rebuilds it if they are this partition's",
            FileName::Manifest
        )),
    }
}

fn set_aside_directory(state: &mut LogState, out: &mut Vec<StorageRequest>) {
    state.operations.start_repeated(
        Pending::Recover(Step::SetAsideDirectory),
        StorageOperation::SetAsideDirectory,
        out,
    );
}

fn relation_of(manifest: &Manifest, record: &Record) -> Relation {
    relation(manifest, record.owner(), record.generation.incarnation)
}
