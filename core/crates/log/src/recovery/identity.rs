//! Identity of a directory: the partition that the files belong to (LOG-12, LOG-13).
//!
//! The manifest says it; its copy replaces one that is lost, damaged or another partition's. What does not fit is never
//! removed: files of an earlier partition with the same number are moved away as a whole, and a directory of any other
//! partition is left as it is, out of service, until it is moved to its place.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::error::Notice;
use crate::log::{Log, Pending};
use crate::manifest::{Listed, MANIFEST_BYTES_MAX, Manifest, Owner};
use crate::record::ManifestFile;
use crate::recovery::recover::{Outcome, Step};
use crate::storage::{
    FileName, StorageErrorKind, StorageOperation, StorageOutcome, StorageRequest,
};

/// Relation of a manifest to the partition.
#[derive(Debug)]
pub(crate) enum Relation {
    /// The directory is this partition's.
    Own,
    /// The directory is that of an earlier partition with the same number.
    Earlier,
    /// The directory is another partition's, for this reason.
    Foreign(String),
}

/// Compare a manifest with the partition at whose place it is, and with the incarnation that the catalog has.
pub(crate) fn relation(manifest: &Manifest, own: Owner, catalog_incarnation: u64) -> Relation {
    let namespace = manifest
        .owner
        .map_or(own.namespace, |owner| owner.namespace);
    let catalog = manifest.owner.map_or(0, |owner| owner.catalog);
    let incarnation = manifest.generation.incarnation;
    if catalog != own.catalog && catalog != 0 && own.catalog != 0 {
        return Relation::Foreign(format!(
            "the directory belongs to partition {namespace} of another catalog ({catalog:032x}, this one is \
             {:032x}): move it to the data directory that it comes from",
            own.catalog
        ));
    }
    if namespace != own.namespace {
        return Relation::Foreign(format!(
            "the directory belongs to partition {namespace}: move it to its place, or purge the topic, which moves \
             it to streams/set-aside"
        ));
    }
    if manifest.is_repaired() {
        return Relation::Own;
    }
    if incarnation > catalog_incarnation {
        return Relation::Foreign(format!(
            "the directory belongs to a later partition with this number (incarnation {incarnation}, the catalog \
             has {catalog_incarnation}): the catalog is older than the directory"
        ));
    }
    if incarnation < catalog_incarnation {
        return Relation::Earlier;
    }
    Relation::Own
}

impl Log {
    pub(crate) fn listed(&mut self, outcome: Outcome, out: &mut Vec<StorageRequest>) {
        let files = match outcome {
            Ok(StorageOutcome::Listed(files)) => files,
            Ok(_) => return self.fail_open("the directory cannot be listed".into()),
            Err(error) => {
                return self.fail_open(format!("the directory cannot be opened: {error}"));
            }
        };
        // What was read in an opening that has left no trace is another one's also without a record.
        self.epoch = self.now.0.max(1);
        let recovery = self.recovery();
        recovery.files = files;
        if recovery.drop_all {
            if self.is_foreign {
                return self.set_aside_directory(out);
            }
            self.hand_over_transaction_files();
            return self.drop_contents(false);
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
        if !recovery.files.iter().any(is_of_a_log) {
            self.hand_over_transaction_files();
            return self.drop_contents(false);
        }
        self.read_manifest(FileName::Manifest, out);
    }

    /// Hand over the transaction files. They identify their partition themselves and outlive a purge.
    fn hand_over_transaction_files(&mut self) {
        let is_theirs = |(file, _): &mut (FileName, u64)| {
            use FileName::{DamagedStage, Stage, Transactions};
            matches!(file, Stage(_) | DamagedStage(_) | Transactions)
        };
        let files = &mut self.recovery().files;
        let theirs = files.extract_if(.., is_theirs).collect();
        self.transaction_files = Some(theirs);
    }

    /// Read the manifest or its copy.
    fn read_manifest(&mut self, file: FileName, out: &mut Vec<StorageRequest>) {
        match self.recovery().size_of(file) {
            Some(size) if size <= MANIFEST_BYTES_MAX => {
                let operation = StorageOperation::Read {
                    file,
                    position: 0,
                    length: u32::try_from(size).expect("it is limited"),
                };
                self.operations.start_repeated(
                    Pending::Recover(Step::Manifest { file }),
                    operation,
                    out,
                );
            }
            Some(_) | None => self.judge(file, None, out),
        }
    }

    pub(crate) fn manifest_read(
        &mut self,
        file: FileName,
        outcome: Outcome,
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
                return self.fail_recovery(file, error);
            }
            Ok(_) | Err(_) => None,
        };
        self.judge(file, manifest, out);
    }

    /// Decide what the files in the directory are, by the manifest in `file`, which may be missing or damaged.
    fn judge(&mut self, file: FileName, manifest: Option<Manifest>, out: &mut Vec<StorageRequest>) {
        let is_copy = file == FileName::ManifestCopy;
        let relation = manifest.as_ref().map(|manifest| self.relation_of(manifest));
        match (manifest, relation) {
            (Some(manifest), Some(Relation::Own)) => self.adopt(manifest, is_copy, out),
            // What the first one says counts if the copy is no better.
            (_, relation) if !is_copy => {
                self.recovery().relation = relation;
                self.read_manifest(FileName::ManifestCopy, out);
            }
            (_, relation) => {
                let first = self.recovery().relation.take();
                self.refuse(first.or(relation), out);
            }
        }
    }

    /// Neither the manifest nor its copy is this partition's.
    fn refuse(&mut self, relation: Option<Relation>, out: &mut Vec<StorageRequest>) {
        match relation {
            Some(Relation::Earlier) => self.set_aside_directory(out),
            Some(Relation::Foreign(reason)) => {
                self.is_foreign = true;
                self.fail_open(reason);
            }
            Some(Relation::Own) | None => self.fail_open(format!(
                "{} is missing or damaged, and so is its copy, so it is unknown whose messages the directory contains: \
                 `headrace fsck --repair` rebuilds it if they are this partition's",
                FileName::Manifest
            )),
        }
    }

    fn relation_of(&self, manifest: &Manifest) -> Relation {
        relation(manifest, self.owner(), self.generation.incarnation)
    }

    /// Go on with the files of this partition.
    fn adopt(&mut self, mut manifest: Manifest, is_copy: bool, out: &mut Vec<StorageRequest>) {
        self.hand_over_transaction_files();
        let is_earlier = manifest.generation.purge_epoch < self.generation.purge_epoch;
        if is_earlier && !manifest.is_repaired() {
            return self.drop_contents(false);
        }
        // A purge may have reached the disk before the settings were updated.
        let incarnation = self.generation.incarnation;
        let is_repaired = manifest.is_repaired();
        self.generation = manifest.generation;
        if is_repaired {
            self.generation.incarnation = incarnation;
        }
        if manifest.dropping {
            return self.drop_contents(!is_copy);
        }
        self.epoch = self.epoch.max(manifest.epoch.saturating_add(1));
        // A manifest of an earlier format is replaced.
        let is_current =
            manifest.segments.is_some() && manifest.owner.is_some() && !is_copy && !is_repaired;
        self.manifest_file = if is_current {
            ManifestFile::Current
        } else {
            ManifestFile::Outdated
        };
        if is_copy {
            self.notices.push(Notice::Rebuilt {
                file: FileName::Manifest,
            });
            // The copy may be older than the newest segments.
            if let Some(listed) = &mut manifest.segments {
                let last = listed.last().map(|listed| listed.base);
                let newer = self.recovery().logs().into_iter().map(|(base, _)| base);
                let newer = newer.filter(|base| last.is_none_or(|last| *base > last));
                listed.extend(newer.map(Listed::new));
            }
        }
        self.record.found(manifest);
        self.rename_foreign_logs(out);
    }

    fn set_aside_directory(&mut self, out: &mut Vec<StorageRequest>) {
        self.operations.start_repeated(
            Pending::Recover(Step::SetAsideDirectory),
            StorageOperation::SetAsideDirectory,
            out,
        );
    }

    pub(crate) fn directory_set_aside(&mut self, outcome: &Outcome) {
        if let Err(error) = outcome {
            return self.fail_open(format!(
                "files of an earlier partition with this number cannot be moved away: {error}"
            ));
        }
        self.is_foreign = false;
        let files = core::mem::take(&mut self.recovery().files);
        self.transaction_files = Some(Vec::new());
        self.notices.push(Notice::SetAside {
            files_count: files.len() as u64,
            bytes: files.iter().map(|(_, bytes)| bytes).sum(),
        });
        self.drop_contents(false);
    }
}
