//! Marker file of a replica whose votes do not count yet: see [`headrace_vsr::trust`].

use std::io::{self, ErrorKind};

use headrace_vsr::trust::Trust;

use crate::{errors::StartError, storage::Folder};

const MARKER: &str = "unproven";

/// Mark a new data directory as unproven. A single replica has no peers to mislead, and is trusted at once.
///
/// The marker is durable before the first superblock: a directory with a superblock and no marker is a proven one.
pub(crate) fn mark_new(folder: &Folder, is_alone: bool) -> Result<(), StartError> {
    if is_alone {
        return Ok(());
    }
    let failed = |source| StartError::storage("create", &folder.join(MARKER), source);
    folder.mark(MARKER).map_err(failed)
}

/// Initial trust of a start.
pub(crate) fn open(folder: &Folder) -> Result<Trust, StartError> {
    let failed = |source| StartError::storage("open", &folder.join(MARKER), source);
    Ok(match folder.length(MARKER).map_err(failed)? {
        Some(_) => Trust::unproven(),
        None => Trust::Proven,
    })
}

/// Make the votes of this replica count, also after a restart.
pub(crate) fn prove(folder: &Folder) -> io::Result<Trust> {
    match folder.remove(MARKER) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => folder.sync()?,
    }
    Ok(Trust::Proven)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_folder_is_unproven_until_it_is_proven_also_across_restarts() {
        let kept = tempfile::tempdir().unwrap();
        let folder = &Folder::real(kept.path());
        mark_new(folder, false).unwrap();
        assert!(!open(folder).unwrap().is_proven());
        assert!(!open(folder).unwrap().is_proven());
        assert!(prove(folder).unwrap().is_proven());
        assert!(open(folder).unwrap().is_proven());
    }

    #[test]
    fn a_new_folder_of_one_that_is_alone_counts_at_once() {
        let kept = tempfile::tempdir().unwrap();
        let folder = &Folder::real(kept.path());
        mark_new(folder, true).unwrap();
        assert!(open(folder).unwrap().is_proven());
    }
}
