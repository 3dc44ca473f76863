//! Blocking work on a partition's directory, for the worker threads.
//!
//! A name is only durable once its directory is synced: all functions that create, rename or remove a name sync the
//! directory before they report success. A process that was killed may not have come to that, so names that are found
//! are synced before they are relied on.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write},
    os::{
        fd::OwnedFd,
        unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
};

use headrace_log::storage::FileName;
use rustix::fs::{Advice, FallocateFlags};

/// Mode of files: the owner writes, the group reads if it can enter the directories, which are the owner's alone.
const FILE_MODE: u32 = 0o600;
const DIRECTORY_MODE: u32 = 0o700;
/// Suffix of files that are written beside the ones they replace.
const TEMPORARY: &str = "tmp";
/// Free space that must remain after a cut-off tail has been saved.
const SPARE_BYTES: u64 = 64 * 1024 * 1024;
/// Number of bytes copied per system call.
const COPY_BYTES: usize = 256 * 1024;
/// Maximum number of attempts: another shard may remove an empty parent directory between two steps of creating the
/// path.
const CREATE_ATTEMPTS: u32 = 16;

/// Create the directory if it is missing, remove leftovers of a crash, and list the files with their sizes, ascending.
/// All of these names are durable.
pub(super) fn prepare(directory: &Path) -> io::Result<Vec<(FileName, u64)>> {
    for attempt in 1.. {
        match create_durably(directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && attempt < CREATE_ATTEMPTS => {}
            Err(error) => return Err(error),
            Ok(()) => break,
        }
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        if let Some(file) = FileName::parse(&name) {
            let metadata = entry.metadata()?;
            if metadata.is_file() {
                files.push((file, metadata.len()));
            }
        } else if is_half_made(&name) {
            fs::remove_file(entry.path())?;
        }
    }
    sync(directory)?;
    files.sort_unstable();
    Ok(files)
}

/// Create the file, empty.
pub(super) fn create(directory: &Path, path: &Path) -> io::Result<OwnedFd> {
    let file = options().create(true).truncate(true).open(path)?;
    sync(directory)?;
    Ok(file.into())
}

/// Open an existing file.
pub(super) fn open(path: &Path) -> io::Result<OwnedFd> {
    options().open(path).map(Into::into)
}

/// Replace the contents of a file atomically.
pub(super) fn replace(directory: &Path, path: &Path, contents: &[u8]) -> io::Result<()> {
    let temporary = temporary_of(path);
    let mut file = options().create(true).truncate(true).open(&temporary)?;
    file.write_all(contents)?;
    file.sync_all()?;
    fs::rename(&temporary, path)?;
    sync(directory)
}

/// Replace the contents of a file atomically.
pub fn replace_file(path: &Path, contents: &[u8]) -> io::Result<()> {
    let directory = path.parent().ok_or(io::ErrorKind::NotFound)?;
    replace(directory, path, contents)
}

/// Truncate an open file to this length after its tail was copied to the file `into` and synced. Fails with `ENOSPC`,
/// without copying, if less than [`SPARE_BYTES`] would stay free: a node on a full disk needs the space that truncating
/// frees to start at all.
pub(super) fn set_aside(
    directory: &Path,
    file: &OwnedFd,
    length: u64,
    into: &Path,
) -> io::Result<()> {
    let space = rustix::fs::fstatvfs(file)?;
    let size = u64::try_from(rustix::fs::fstat(file)?.st_size).unwrap_or(0);
    let needed = size.saturating_sub(length) + SPARE_BYTES;
    if space.f_bavail.saturating_mul(space.f_frsize) < needed {
        return Err(io::Error::from_raw_os_error(libc::ENOSPC));
    }
    let kept = options().create(true).truncate(true).open(into)?;
    let copied = copy_behind(file, length, &kept).and_then(|()| kept.sync_all());
    if let Err(error) = copied {
        // The copy is incomplete. If it cannot even be removed, the first error is the more useful one.
        let _ = fs::remove_file(into);
        return Err(error);
    }
    sync(directory)?;
    Ok(rustix::fs::ftruncate(file, length)?)
}

fn copy_behind(file: &OwnedFd, start: u64, into: &File) -> io::Result<()> {
    let mut buffer = vec![0; COPY_BYTES];
    let mut at = 0;
    loop {
        let count = rustix::io::pread(file, &mut buffer, start + at)?;
        if count == 0 {
            return Ok(());
        }
        into.write_all_at(&buffer[..count], at)?;
        at += count as u64;
    }
}

/// Rename the file.
pub(super) fn rename(directory: &Path, from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)?;
    sync(directory)
}

/// Remove the file if it exists.
pub(super) fn remove(directory: &Path, path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Ok(()) => sync(directory),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Sync an open file, then drop its cached pages from `position` on. The kernel keeps a large page whose start is not
/// dropped, so the range begins at a multiple of the largest page there can be.
pub(super) fn uncache(file: &OwnedFd, position: u64) -> io::Result<()> {
    rustix::fs::fdatasync(file)?;
    let page_bytes = rustix::param::page_size() as u64;
    // One page of the table that maps pages, with 8 bytes for each.
    let largest = page_bytes * (page_bytes / 8);
    let start = position - position % largest;
    Ok(rustix::fs::fadvise(file, start, None, Advice::DontNeed)?)
}

/// Allocate space without changing the length.
pub(super) fn allocate(file: &OwnedFd, position: u64, length: u64) -> io::Result<()> {
    Ok(rustix::fs::fallocate(
        file,
        FallocateFlags::KEEP_SIZE,
        position,
        length,
    )?)
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(FILE_MODE);
    options
}

fn temporary_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(TEMPORARY);
    name.into()
}

fn is_half_made(name: &str) -> bool {
    name.strip_suffix(TEMPORARY)
        .and_then(|name| name.strip_suffix('.'))
        .is_some_and(|name| FileName::parse(name).is_some())
}

/// Create a directory and its parents, each durable before the next. An existing directory may have been created by a
/// process that was killed before it could sync the name, or by another thread a moment ago; its parents were durable
/// before it was created.
pub fn create_durably(directory: &Path) -> io::Result<()> {
    let Some(parent) = directory.parent() else {
        return Err(io::ErrorKind::NotFound.into());
    };
    if directory.is_dir() {
        return sync(parent);
    }
    create_durably(parent)?;
    match DirBuilder::new().mode(DIRECTORY_MODE).create(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        Ok(()) | Err(_) => sync(parent),
    }
}

pub(super) fn sync(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use headrace_model::{Offset, StageId};

    use super::*;

    #[test]
    fn prepare_lists_what_belongs_to_a_partition_and_clears_what_a_crash_left() {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("streams/1/topics/2/partitions/3");
        assert_eq!(prepare(&directory).unwrap(), []);
        for made in directory
            .ancestors()
            .take_while(|made| *made != root.path())
        {
            let mode = fs::metadata(made).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, DIRECTORY_MODE, "{}", made.display());
        }
        for (name, length) in [
            ("00000000000000000100.log", 7),
            ("00000000000000000000.log", 5),
            ("00000000000000000000.index", 3),
            ("offsets", 2),
            ("offsets.tmp", 9),
            ("transactions", 4),
            ("transactions.tmp", 4),
            ("000000000000000a000000000000000b.stage", 6),
            ("notes.tmp", 1),
            ("notes", 1),
        ] {
            fs::write(directory.join(name), vec![0; length]).unwrap();
        }
        fs::create_dir(directory.join("partition.json")).unwrap();
        let listed = prepare(&directory).unwrap();
        assert_eq!(
            listed,
            [
                (FileName::Log(Offset(0)), 5),
                (FileName::Log(Offset(100)), 7),
                (FileName::Index(Offset(0)), 3),
                (FileName::Offsets, 2),
                (FileName::Stage(StageId((10 << 64) + 11)), 6),
                (FileName::Transactions, 4),
            ]
        );
        assert!(!directory.join("transactions.tmp").exists());
        assert!(!directory.join("offsets.tmp").exists());
        assert!(directory.join("notes.tmp").exists() && directory.join("notes").exists());
    }

    #[test]
    fn what_is_cut_is_in_the_other_file() {
        let root = tempfile::tempdir().unwrap();
        let (log, kept) = (root.path().join("log"), root.path().join("kept"));
        let bytes: Vec<u8> = (0..COPY_BYTES + 1000)
            .map(|place| u8::try_from(place % 251).unwrap())
            .collect();
        fs::write(&log, &bytes).unwrap();
        fs::write(
            &kept,
            b"what a crash left half-made, and longer than what is cut last",
        )
        .unwrap();
        let file = open(&log).unwrap();
        set_aside(root.path(), &file, 700, &kept).unwrap();
        assert!(fs::read(&log).unwrap() == bytes[..700]);
        assert!(fs::read(&kept).unwrap() == bytes[700..]);
        set_aside(root.path(), &file, 690, &kept).unwrap();
        assert_eq!(fs::read(&kept).unwrap(), &bytes[690..700]);
        let nowhere = root.path().join("nowhere/kept");
        assert!(set_aside(root.path(), &file, 0, &nowhere).is_err());
        assert_eq!(
            fs::metadata(&log).unwrap().len(),
            690,
            "nothing is cut that is not kept"
        );
    }
}
