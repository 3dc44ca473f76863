//! The folder of a replica: its lock, and names that are as durable as they need to be.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::Path,
};

use rustix::fs::FlockOperation;

use crate::errors::StartError;

/// The state holds password hashes: only the owner may read it.
pub(super) const FILE_MODE: u32 = 0o600;
const FOLDER_MODE: u32 = 0o700;
/// Of files that are still being written.
pub(super) const UNFINISHED: &str = "unfinished";

/// Keeps other processes away from a folder until it is dropped or the process ends, however it ends.
#[derive(Debug)]
pub(crate) struct FolderLock {
    _file: File,
}

impl FolderLock {
    /// Make the folder if need be, and take it.
    pub(crate) fn take(folder: &Path) -> Result<Self, StartError> {
        make(folder).map_err(|source| StartError::storage("make the folder", folder, source))?;
        // A file of its own: the others are replaced, and a lock stays with the file that was opened.
        let path = folder.join("replica.lock");
        let file = options()
            .create(true)
            .open(&path)
            .map_err(|source| StartError::storage("open", &path, source))?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { _file: file }),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(StartError::FolderInUse {
                folder: folder.to_owned(),
            }),
            Err(source) => Err(StartError::storage("lock", &path, source.into())),
        }
    }
}

fn make(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    DirBuilder::new()
        .recursive(true)
        .mode(FOLDER_MODE)
        .create(folder)?;
    folder.parent().map_or(Ok(()), sync_folder)
}

/// For files of this folder.
pub(super) fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(FILE_MODE);
    options
}

/// Make the names in a folder durable.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    // The parent of a relative path of one part is the working directory.
    let folder = if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    };
    File::open(folder)?.sync_all()
}

/// Remove what a crash has left half-made.
pub(crate) fn clear_unfinished(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == UNFINISHED)
        {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}
