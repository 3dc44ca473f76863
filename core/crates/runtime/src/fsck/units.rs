//! Checks of parts of a partition that a server uses: what does not change any more, or only as a whole.

use std::{io, mem, path::Path};

use headrace_log::storage::FileName;
use headrace_model::{Namespace, Offset};

use super::{Check, Finding, FindingKind, ManifestReport, Reading, logs::ExpectedLog};

/// Part of a partition's files that is checked at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Unit {
    /// Manifest, stored offsets and stages.
    Companions,
    /// A sealed segment: its log and its index.
    Segment(Offset),
}

/// A partition that a server uses, with its files and its manifest as they were when it was opened.
pub(crate) struct LivePartition<'a> {
    check: Check<'a>,
    manifest: Option<ManifestReport>,
    /// Findings about the manifests.
    found: Vec<Finding>,
    /// Logs of the sealed segments, ascending.
    sealed: Vec<ExpectedLog>,
}

impl<'a> LivePartition<'a> {
    /// List the files and read the manifest.
    pub(crate) fn open(
        directory: &Path,
        (namespace, catalog): (Namespace, u128),
        reading: &'a dyn Reading,
    ) -> io::Result<Self> {
        let mut check = Check::of(directory.to_owned(), namespace, catalog, reading)?;
        let manifest = check.manifests()?;
        let mut found = mem::take(&mut check.result.findings);
        // The server writes the copy after each manifest.
        let copy = FileName::ManifestCopy.to_string();
        found.retain(|finding| finding.kind != FindingKind::Missing || finding.file != copy);
        let mut sealed = Vec::new();
        if let Some(manifest) = &manifest
            && !manifest.dropping
        {
            sealed = check.expected_logs(Some(manifest));
            sealed.retain(|log| log.end.is_some());
        }
        Ok(Self {
            check,
            manifest,
            found,
            sealed,
        })
    }

    /// Parts that can be checked, ascending.
    pub(crate) fn units(&self) -> Vec<Unit> {
        let segments = self.sealed.iter().map(|log| Unit::Segment(log.base));
        [Unit::Companions].into_iter().chain(segments).collect()
    }

    /// Check one part. A part that is gone meanwhile fails as not found, or has no findings. What is being written may
    /// look damaged: findings count if a partition that is opened later has them too.
    pub(crate) fn check(&mut self, unit: Unit) -> io::Result<Vec<Finding>> {
        self.check.result.findings.clear();
        match unit {
            Unit::Companions => {
                self.check.result.findings.clone_from(&self.found);
                if let Some(manifest) = &self.manifest {
                    self.check.companions(manifest.generation)?;
                }
            }
            Unit::Segment(base) => {
                if let Ok(index) = self.sealed.binary_search_by_key(&base, |log| log.base) {
                    self.check
                        .check_log(self.sealed[index], self.manifest.as_ref())?;
                }
            }
        }
        let mut found = mem::take(&mut self.check.result.findings);
        found.retain(|finding| {
            matches!(
                finding.kind,
                FindingKind::Damaged | FindingKind::Missing | FindingKind::Foreign
            )
        });
        Ok(found)
    }
}
