//! Checks of parts of a partition that a server uses: what does not change any more, or only as a whole.

use std::{io, path::Path};

use headrace_model::{Namespace, Offset};

use super::{Check, Finding, FindingKind, ManifestReport, Reading};

/// Part of a partition's files that is checked at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Unit {
    /// Manifest, stored offsets and stages.
    Companions,
    /// A sealed segment: its log and its index.
    Segment(Offset),
}

/// List the parts of a partition that can be checked now, ascending.
pub(crate) fn units(
    directory: &Path,
    (namespace, catalog): (Namespace, u128),
    reading: &dyn Reading,
) -> io::Result<Vec<Unit>> {
    let mut check = Check::of(directory.to_owned(), namespace, catalog, reading)?;
    let manifest = check.manifests()?;
    let sealed = check.sealed(manifest.as_ref());
    Ok([Unit::Companions].into_iter().chain(sealed).collect())
}

/// Check one part. A part that is gone meanwhile has no findings. What is being written may look damaged: findings
/// count if a later check has them too.
pub(crate) fn check_unit(
    directory: &Path,
    (namespace, catalog): (Namespace, u128),
    unit: Unit,
    reading: &dyn Reading,
) -> io::Result<Vec<Finding>> {
    let mut check = Check::of(directory.to_owned(), namespace, catalog, reading)?;
    let manifest = check.manifests()?;
    match (unit, &manifest) {
        (Unit::Companions, None) => {}
        (Unit::Companions, Some(found)) => check.companions(found.generation)?,
        (Unit::Segment(base), _) => {
            check.result.findings.clear();
            if check.sealed(manifest.as_ref()).contains(&unit) {
                let expected = check.expected_logs(manifest.as_ref());
                for log in expected.into_iter().filter(|log| log.base == base) {
                    check.check_log(log, manifest.as_ref())?;
                }
            }
        }
    }
    let is_problem = |finding: &Finding| {
        matches!(
            finding.kind,
            FindingKind::Damaged | FindingKind::Missing | FindingKind::Foreign
        )
    };
    check.result.findings.retain(is_problem);
    Ok(check.result.findings)
}

impl Check<'_> {
    fn sealed(&self, manifest: Option<&ManifestReport>) -> Vec<Unit> {
        let counts = |manifest: &&ManifestReport| !manifest.dropping;
        let logs = manifest
            .filter(counts)
            .map(|manifest| self.expected_logs(Some(manifest)));
        let logs = logs.into_iter().flatten();
        logs.filter(|log| log.end.is_some())
            .map(|log| Unit::Segment(log.base))
            .collect()
    }
}
