//! Foreign logs: log files in the directory that are not this partition's.
//!
//! Only the manifest identifies them. A foreign log is renamed and reported, and never read.

use alloc::vec::Vec;

use headrace_model::Offset;

use crate::error::Notice;
use crate::log::{Log, ManifestFile, Pending};
use crate::manifest::{Manifest, SEGMENTS_LISTED_MAX};
use crate::recovery::recover::{Outcome, Step};
use crate::segment::FileState;
use crate::storage::{FileName, StorageOperation, StorageRequest};

/// Segments that the manifest lists.
#[derive(Debug, Default)]
pub(crate) struct SegmentList {
    /// List in the manifest on disk, ascending. None if the manifest has no list.
    on_disk: Option<Vec<Offset>>,
    /// List that is being written.
    next: Option<Vec<Offset>>,
}

impl SegmentList {
    pub(crate) fn found(&mut self, segments: Option<Vec<Offset>>) {
        self.on_disk = segments;
    }

    /// Return true if the log file of this segment may exist.
    pub(crate) fn has(&self, base: Offset) -> bool {
        let on_disk = self.on_disk.as_ref();
        on_disk.is_none_or(|listed| listed.binary_search(&base).is_ok())
    }

    /// Take over the list of the manifest that was just written.
    pub(crate) fn written(&mut self) {
        self.on_disk = self.next.take();
    }

    /// Remove a segment whose log file is gone.
    pub(crate) fn remove(&mut self, base: Offset) {
        for list in [&mut self.on_disk, &mut self.next].into_iter().flatten() {
            if let Ok(index) = list.binary_search(&base) {
                list.remove(index);
            }
        }
    }
}

impl Log {
    /// Replace the manifest by one that lists all segments, including those still to be removed.
    pub(crate) fn replace_manifest(&mut self, out: &mut Vec<StorageRequest>) {
        self.manifest_file = ManifestFile::Replacing;
        let mut segments: Vec<Offset> = self.segments.iter().map(|known| known.base).collect();
        segments.extend(self.listed.on_disk.iter().flatten());
        segments.sort_unstable();
        segments.dedup();
        self.listed.next = (segments.len() <= SEGMENTS_LISTED_MAX).then_some(segments);
        let manifest = Manifest {
            generation: self.generation,
            dropping: false,
            segments: self.listed.next.clone(),
        };
        let operation = StorageOperation::Replace {
            file: FileName::Manifest,
            contents: manifest.encode(),
        };
        self.operations
            .start_repeated(Pending::Manifest, operation, out);
    }

    /// Write a segment list into a directory whose manifest has none (format 1).
    pub(crate) fn add_missing_segment_list(&mut self, out: &mut Vec<StorageRequest>) {
        let has_files = |log: &Self| {
            let front = log.segments.front();
            front.is_some_and(|oldest| oldest.log_file == FileState::Ready)
        };
        if self.manifest_file == ManifestFile::Outdated && has_files(self) {
            self.replace_manifest(out);
        }
    }

    /// Rename the first log that is not listed; continue recovery with the listed ones when none is left.
    pub(crate) fn rename_foreign_logs(&mut self, out: &mut Vec<StorageRequest>) {
        let logs = self.recovery().logs();
        let Some((base, size)) = logs.into_iter().find(|(base, _)| !self.listed.has(*base)) else {
            return self.choose_active(out);
        };
        let file = FileName::Log(base);
        if size == 0 {
            // An empty log has no contents to preserve.
            self.recovery().files.retain(|(other, _)| *other != file);
            self.removals.push(file);
            return self.rename_foreign_logs(out);
        }
        let number = self.recovery().next_number(|file| match file {
            FileName::Foreign(of, number) if of == base => Some(number),
            _ => None,
        });
        let into = FileName::Foreign(base, number);
        let step = Step::Rename { file, into };
        let operation = StorageOperation::Rename { file, into };
        self.operations
            .start_repeated(Pending::Recover(step), operation, out);
    }

    pub(crate) fn foreign_set_aside(
        &mut self,
        (file, into): (FileName, FileName),
        outcome: &Outcome,
        out: &mut Vec<StorageRequest>,
    ) {
        if let Err(error) = outcome {
            return self.fail_recovery(file, *error);
        }
        let files = &mut self.recovery().files;
        let renamed = files.iter_mut().find(|(other, _)| *other == file);
        let bytes = renamed.map_or(0, |(name, bytes)| {
            *name = into;
            *bytes
        });
        self.notices.push(Notice::Foreign {
            file,
            bytes,
            kept: into,
        });
        self.rename_foreign_logs(out);
    }
}
