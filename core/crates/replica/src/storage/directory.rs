//! Data directory of a replica: its lock, and durable file names.

use std::{
    fmt::Debug,
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, ErrorKind, Read, Seek},
    os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::Arc,
};

use rustix::fs::FlockOperation;

use crate::{
    errors::StartError,
    surroundings::{Files, OpenFile, OpenMode},
};

/// Permissions of files. The state holds password hashes: only the owner may read it.
const FILE_MODE: u32 = 0o600;
const DIRECTORY_MODE: u32 = 0o700;
/// Suffix of files that are still being written.
const UNFINISHED: &str = "unfinished";

/// Data directory, on the machine's disk or in another file system.
#[derive(Debug, Clone)]
pub(crate) struct DataDirectory {
    path: PathBuf,
    files: Arc<dyn Files>,
}

/// Lock that keeps other processes out of a data directory until it is dropped or the process ends in any way.
#[derive(Debug)]
pub(crate) struct DirectoryLock {
    _held: Box<dyn Debug + Send>,
}

impl DataDirectory {
    pub(crate) fn new(path: &Path, files: Arc<dyn Files>) -> Self {
        Self {
            path: path.to_owned(),
            files,
        }
    }

    /// Data directory on the machine's disk.
    pub(crate) fn on_disk(path: &Path) -> Self {
        Self::new(path, Arc::new(MachineFiles))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    pub(crate) fn display(&self) -> std::path::Display<'_> {
        self.path.display()
    }

    /// Create the data directory if necessary, and lock it.
    pub(crate) fn create_and_lock(&self) -> Result<DirectoryLock, StartError> {
        self.files
            .create_directory(&self.path)
            .map_err(|source| StartError::storage("create the directory", &self.path, source))?;
        // The lock has its own file: the other files are replaced, and a lock belongs to the file that was opened.
        let path = self.join("replica.lock");
        match self.files.lock(&path) {
            Ok(held) => Ok(DirectoryLock { _held: held }),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                Err(StartError::DirectoryInUse {
                    data_directory: self.path.clone(),
                })
            }
            Err(source) => Err(StartError::storage("lock", &path, source)),
        }
    }

    pub(super) fn open(&self, name: &str, opening: OpenMode) -> io::Result<Box<dyn OpenFile>> {
        self.files.open(&self.join(name), opening)
    }

    /// Create an empty file, durable with its name.
    pub(crate) fn create_marker(&self, name: &str) -> io::Result<()> {
        self.open(name, OpenMode::Replace)?.sync_all()?;
        self.sync()
    }

    /// Read an entire file; `None` if it does not exist.
    pub(crate) fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        match self.open(name, OpenMode::Read) {
            Ok(file) => file.read_all().map(Some),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Read an entire file from the device, bypassing the page cache: the previous process may have been killed between a
    /// write and its sync, or a sync may have failed, after which the kernel marks the lost pages clean. What is read here
    /// is acted upon without another sync.
    pub(crate) fn read_from_device(&self, name: &str) -> io::Result<Vec<u8>> {
        let file = self.open(name, OpenMode::Read)?;
        file.sync_data()?;
        file.drop_cached_pages()?;
        file.read_all()
    }

    /// Length of a file in bytes; `None` if it does not exist.
    pub(crate) fn length(&self, name: &str) -> io::Result<Option<u64>> {
        match self.files.length(&self.join(name)) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(super) fn names(&self) -> io::Result<Vec<String>> {
        self.files.names(&self.path)
    }

    pub(super) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.files.rename(&self.join(from), &self.join(to))
    }

    pub(crate) fn remove(&self, name: &str) -> io::Result<()> {
        self.files.remove(&self.join(name))
    }

    /// Make the file names durable.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.files.sync_directory(&self.path)
    }

    /// Remove the unfinished files left by a crash.
    pub(crate) fn clear_unfinished(&self) -> io::Result<()> {
        for name in self.names()? {
            if Path::new(&name)
                .extension()
                .is_some_and(|extension| extension == UNFINISHED)
            {
                self.remove(&name)?;
            }
        }
        Ok(())
    }
}

/// Name of a file while it is being written.
pub(super) fn unfinished(name: &str) -> String {
    let stem = name.split_once('.').map_or(name, |(stem, _)| stem);
    format!("{stem}.{UNFINISHED}")
}

/// File system of this machine.
#[derive(Debug)]
pub(crate) struct MachineFiles;

impl Files for MachineFiles {
    fn create_directory(&self, directory: &Path) -> io::Result<()> {
        make(directory)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Debug + Send>> {
        let file = options().create(true).open(path)?;
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        Ok(Box::new(file))
    }

    fn open(&self, path: &Path, opening: OpenMode) -> io::Result<Box<dyn OpenFile>> {
        let file = match opening {
            OpenMode::Read => File::open(path),
            OpenMode::Write => options().open(path),
            OpenMode::Replace => options().create(true).truncate(true).open(path),
        };
        Ok(Box::new(file?))
    }

    fn length(&self, path: &Path) -> io::Result<u64> {
        Ok(fs::metadata(path)?.len())
    }

    fn names(&self, directory: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(directory)? {
            // Names that are not UTF-8 do not belong to a replica.
            names.extend(entry?.file_name().into_string());
        }
        Ok(names)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        sync_directory(directory)
    }
}

impl OpenFile for File {
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        FileExt::write_all_at(self, bytes, offset)
    }

    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        FileExt::read_exact_at(self, bytes, offset)
    }

    fn read_all(&self) -> io::Result<Vec<u8>> {
        let (mut file, mut bytes) = (self, Vec::new());
        file.rewind()?;
        file.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn sync_data(&self) -> io::Result<()> {
        Self::sync_data(self)
    }

    fn sync_all(&self) -> io::Result<()> {
        Self::sync_all(self)
    }

    fn drop_cached_pages(&self) -> io::Result<()> {
        Ok(rustix::fs::fadvise(
            self,
            0,
            None,
            rustix::fs::Advice::DontNeed,
        )?)
    }
}

/// Create a directory and its parents, each durable before the next: data synced in a directory whose own name is not
/// durable can be lost. An existing directory may stem from a process that was killed before it could sync the name.
fn make(directory: &Path) -> io::Result<()> {
    let Some(parent) = directory.parent() else {
        return Ok(());
    };
    if directory.is_dir() {
        return sync_directory(parent);
    }
    make(parent)?;
    match DirBuilder::new().mode(DIRECTORY_MODE).create(directory) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        Ok(()) | Err(_) => sync_directory(parent),
    }
}

/// Options for files of a data directory.
fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(FILE_MODE);
    options
}

/// Make the names in a directory durable.
fn sync_directory(directory: &Path) -> io::Result<()> {
    // The parent of a relative path of one part is the working directory.
    let directory = if directory.as_os_str().is_empty() {
        Path::new(".")
    } else {
        directory
    };
    File::open(directory)?.sync_all()
}
