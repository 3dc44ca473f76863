//! Marker file of a replica whose votes do not count yet: see [`headrace_vsr::trust`].

use std::io::{self, ErrorKind};

use headrace_vsr::trust::Trust;

use crate::{errors::StartError, storage::Folder};

const MARKER: &str = "unproven";

/// Initial trust of a start. A new data directory of a single replica is trusted: it has no peers to mislead.
pub(crate) fn open(folder: &Folder, is_new: bool, is_alone: bool) -> Result<Trust, StartError> {
    let failed = |source| StartError::storage("open", &folder.join(MARKER), source);
    if is_new && !is_alone {
        folder.mark(MARKER).map_err(failed)?;
    }
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
        assert!(!open(folder, true, false).unwrap().is_proven());
        assert!(!open(folder, false, false).unwrap().is_proven());
        assert!(prove(folder).unwrap().is_proven());
        assert!(open(folder, false, false).unwrap().is_proven());
    }

    #[test]
    fn a_new_folder_of_one_that_is_alone_counts_at_once() {
        let kept = tempfile::tempdir().unwrap();
        let folder = &Folder::real(kept.path());
        assert!(open(folder, true, true).unwrap().is_proven());
    }
}
