//! Marker file of a replica whose votes do not count yet: see [`headrace_vsr::trust`].

use std::io::{self, ErrorKind};

use headrace_vsr::trust::Trust;

use crate::{errors::StartError, storage::DataDirectory};

const MARKER: &str = "unproven";

/// Mark a new data directory as unproven. A single replica has no peers to mislead, and is trusted at once.
///
/// The marker is durable before the first superblock: a directory with a superblock and no marker is a proven one.
pub(crate) fn mark_new(directory: &DataDirectory, is_alone: bool) -> Result<(), StartError> {
    if is_alone {
        return Ok(());
    }
    let failed = |source| StartError::storage("create", &directory.join(MARKER), source);
    directory.create_marker(MARKER).map_err(failed)
}

/// Initial trust of a start.
pub(crate) fn open(directory: &DataDirectory) -> Result<Trust, StartError> {
    let failed = |source| StartError::storage("open", &directory.join(MARKER), source);
    Ok(match directory.length(MARKER).map_err(failed)? {
        Some(_) => Trust::unproven(),
        None => Trust::Proven,
    })
}

/// Make the votes of this replica count, also after a restart.
pub(crate) fn remove_marker(directory: &DataDirectory) -> io::Result<Trust> {
    match directory.remove(MARKER) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => directory.sync()?,
    }
    Ok(Trust::Proven)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_directory_is_unproven_until_its_marker_is_removed_across_restarts() {
        let kept = tempfile::tempdir().unwrap();
        let directory = &DataDirectory::on_disk(kept.path());
        mark_new(directory, false).unwrap();
        assert!(!open(directory).unwrap().is_proven());
        assert!(!open(directory).unwrap().is_proven());
        assert!(remove_marker(directory).unwrap().is_proven());
        assert!(open(directory).unwrap().is_proven());
    }

    #[test]
    fn a_new_directory_of_a_single_replica_counts_at_once() {
        let kept = tempfile::tempdir().unwrap();
        let directory = &DataDirectory::on_disk(kept.path());
        mark_new(directory, true).unwrap();
        assert!(open(directory).unwrap().is_proven());
    }
}
