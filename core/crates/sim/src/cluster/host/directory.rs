//! Data directory of a node as used by the production host: files of a simulated disk with fault injection.

use std::fmt::Debug;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use headrace_replica::surroundings::{Files, OpenFile, OpenMode};

use crate::cluster::{MARKER, SUPERBLOCK};
use crate::disk::{Disk, FileId};
use crate::mutants::HostFault;
use crate::plan::Loss;
use crate::random::Draw;

const EIO: i32 = 5;
const ENOSPC: i32 = 28;
/// Prefix of journal files.
const JOURNAL: &str = "wal-";
/// Bytes of the superblock file that hold its first copy.
const FIRST_COPY: u64 = headrace_vsr::superblock::COPY_BYTES as u64;

/// Disk with one data directory, used by successive processes of a node.
#[derive(Debug)]
pub(super) struct DataDirectory {
    state: Mutex<State>,
    misdeed: Option<HostFault>,
}

#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent faults, each planned by itself"
)]
struct State {
    disk: Disk,
    /// Number of the current process; files opened by earlier ones are closed.
    process: u64,
    /// Number of operations until the process crashes in the middle of one.
    dies_at: Option<(u64, Draw)>,
    /// Sync before which the process crashes: of the directory (true) or of a journal file, and how many succeed
    /// before.
    dies_at_sync: Option<(bool, u8)>,
    /// True if this process has changed a name.
    has_named: bool,
    is_dead: bool,
    is_locked: bool,
    is_full: bool,
    fails_sync: bool,
    /// True if the next record read returns the content of another sector.
    misreads: bool,
    counts: Counts,
    /// Digest of all operations, in order.
    past: u64,
}

/// Counters of events in a data directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) operations: u64,
    pub(super) syncs: u64,
    pub(super) deaths: u64,
    pub(super) deaths_at_syncs: u64,
    pub(super) failed_syncs: u64,
    pub(super) without_space: u64,
    pub(super) misreads: u64,
    pub(super) journal_files: u64,
    pub(super) journal_files_removed: u64,
}

impl DataDirectory {
    pub(super) fn new(disk: Disk, misdeed: Option<HostFault>) -> Self {
        Self {
            state: Mutex::new(State {
                disk,
                process: 0,
                dies_at: None,
                dies_at_sync: None,
                has_named: false,
                is_dead: false,
                is_locked: false,
                is_full: false,
                fails_sync: false,
                misreads: false,
                counts: Counts::default(),
                past: 0,
            }),
            misdeed,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A run has only one thread.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Start using the directory from a new process.
    pub(super) fn begin(&self) {
        let mut state = self.state();
        state.process += 1;
        state.has_named = false;
        state.is_dead = false;
        state.is_locked = false;
    }

    /// End the process.
    pub(super) fn end(&self) {
        let mut state = self.state();
        state.process += 1;
        state.dies_at = None;
        state.dies_at_sync = None;
        state.is_dead = false;
        state.is_locked = false;
        state.fails_sync = false;
        state.misreads = false;
    }

    pub(super) fn lose_power(&self, loss: Loss, draw: &mut Draw) {
        self.state().disk.lose_power(loss, draw);
    }

    /// Plan a crash in the middle of the `count`-th operation from now; `draw` determines how much of it is done.
    pub(super) fn die_at(&self, count: u64, draw: Draw) {
        self.state().dies_at = Some((count, draw));
    }

    /// Plan a crash before a sync, of the directory or of a journal file, after `after` of them.
    pub(super) fn die_at_sync(&self, of_directory: bool, after: u8) {
        self.state().dies_at_sync = Some((of_directory, after));
    }

    /// Cancel the planned crash.
    pub(super) fn spare(&self) {
        let mut state = self.state();
        state.dies_at = None;
        state.dies_at_sync = None;
    }

    /// Return whether the process has crashed during a file operation.
    pub(super) fn is_dead(&self) -> bool {
        self.state().is_dead
    }

    pub(super) fn fill(&self, is_full: bool) {
        self.state().is_full = is_full;
    }

    /// Set whether the next sync of a file fails.
    pub(super) fn fail_sync(&self, fails: bool) {
        self.state().fails_sync = fails;
    }

    /// Make the next record read return bytes of another place, once.
    pub(super) fn misread(&self) {
        self.state().misreads = true;
    }

    pub(super) fn counts(&self) -> Counts {
        self.state().counts
    }

    pub(super) fn past(&self) -> u64 {
        self.state().past
    }

    /// Access the disk from outside, to inspect or damage it.
    pub(super) fn with_disk<T>(&self, look: impl FnOnce(&mut Disk) -> T) -> T {
        look(&mut self.state().disk)
    }

    fn name_of(path: &Path) -> String {
        path.file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned()
    }
}

impl State {
    /// Count an operation; `what` identifies it. Returns a draw if the process crashes in the middle.
    fn operation(&mut self, process: u64, what: &str, number: u64) -> io::Result<Option<Draw>> {
        if self.is_dead || process != self.process {
            return Err(io::Error::from_raw_os_error(EIO));
        }
        self.counts.operations += 1;
        let mut hash = self.past ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        for byte in what.bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        self.past = hash;
        if let Some((count, _)) = &mut self.dies_at {
            *count = count.saturating_sub(1);
        }
        match self.dies_at.take_if(|(count, _)| *count == 0) {
            None => Ok(None),
            Some((_, draw)) => {
                self.is_dead = true;
                self.counts.deaths += 1;
                Ok(Some(draw))
            }
        }
    }

    /// Count an operation like [`operation`](Self::operation) that is atomic.
    fn whole(&mut self, process: u64, what: &str, number: u64) -> io::Result<()> {
        match self.operation(process, what, number)? {
            Some(_) => Err(io::Error::from_raw_os_error(EIO)),
            None => Ok(()),
        }
    }

    /// Count a sync, before which the process may crash.
    fn dies_before(&mut self, of_directory: bool) -> io::Result<()> {
        let Some((_, after)) = self
            .dies_at_sync
            .as_mut()
            .filter(|(of, _)| *of == of_directory)
        else {
            return Ok(());
        };
        if *after > 0 {
            *after -= 1;
            return Ok(());
        }
        self.dies_at_sync = None;
        self.is_dead = true;
        self.counts.deaths += 1;
        self.counts.deaths_at_syncs += 1;
        Err(io::Error::from_raw_os_error(EIO))
    }

    fn has_room(&mut self) -> io::Result<()> {
        if self.is_full {
            self.counts.without_space += 1;
            return Err(io::Error::from_raw_os_error(ENOSPC));
        }
        Ok(())
    }
}

/// Handle of a process on its node's data directory.
#[derive(Debug)]
pub(super) struct DirectoryHandle {
    directory: Arc<DataDirectory>,
    process: u64,
}

impl DirectoryHandle {
    pub(super) fn new(directory: &Arc<DataDirectory>) -> Self {
        Self {
            directory: Arc::clone(directory),
            process: directory.state().process,
        }
    }
}

#[derive(Debug)]
struct Lock(Arc<DataDirectory>, u64);

impl Drop for Lock {
    fn drop(&mut self) {
        let mut state = self.0.state();
        if state.process == self.1 {
            state.is_locked = false;
        }
    }
}

impl Files for DirectoryHandle {
    fn create_directory(&self, _: &Path) -> io::Result<()> {
        self.directory.state().whole(self.process, "make", 0)
    }

    fn lock(&self, _: &Path) -> io::Result<Box<dyn Debug + Send>> {
        let mut state = self.directory.state();
        state.whole(self.process, "lock", 0)?;
        if std::mem::replace(&mut state.is_locked, true) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(Box::new(Lock(Arc::clone(&self.directory), self.process)))
    }

    fn open(&self, path: &Path, opening: OpenMode) -> io::Result<Box<dyn OpenFile>> {
        let name = DataDirectory::name_of(path);
        let mut state = self.directory.state();
        state.whole(self.process, &name, 1)?;
        if opening == OpenMode::Replace {
            state.has_room()?;
            if state.disk.file(&name).is_some() {
                state.disk.resize(&name, 0);
            } else {
                state.has_named = true;
                state.disk.create(&name);
            }
        }
        let file = state.disk.file(&name).ok_or(io::ErrorKind::NotFound)?;
        if name == MARKER && self.directory.misdeed == Some(HostFault::Forgetful) {
            state.disk.remove(&name);
        }
        Ok(Box::new(Handle {
            directory: Arc::clone(&self.directory),
            process: self.process,
            file,
            name,
            reads: opening == OpenMode::Read,
        }))
    }

    fn length(&self, path: &Path) -> io::Result<u64> {
        let name = DataDirectory::name_of(path);
        let mut state = self.directory.state();
        state.whole(self.process, &name, 2)?;
        let bytes = state.disk.read(&name).ok_or(io::ErrorKind::NotFound)?;
        Ok(bytes.len() as u64)
    }

    fn names(&self, _: &Path) -> io::Result<Vec<String>> {
        let mut state = self.directory.state();
        state.whole(self.process, "names", 0)?;
        Ok(state.disk.names().map(str::to_owned).collect())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (from, to) = (DataDirectory::name_of(from), DataDirectory::name_of(to));
        let mut state = self.directory.state();
        state.whole(self.process, &to, 3)?;
        if state.disk.file(&from).is_none() {
            return Err(io::ErrorKind::NotFound.into());
        }
        state.counts.journal_files += u64::from(to.starts_with(JOURNAL));
        state.has_named = true;
        state.disk.rename(&from, &to);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let name = DataDirectory::name_of(path);
        let mut state = self.directory.state();
        state.whole(self.process, &name, 4)?;
        if state.disk.file(&name).is_none() {
            return Err(io::ErrorKind::NotFound.into());
        }
        let is_journal = name
            .strip_prefix(JOURNAL)
            .is_some_and(|name| name.strip_suffix(".log").is_some());
        state.counts.journal_files_removed += u64::from(is_journal);
        state.has_named = true;
        state.disk.remove(&name);
        Ok(())
    }

    fn sync_directory(&self, _: &Path) -> io::Result<()> {
        let mut state = self.directory.state();
        state.whole(self.process, "sync", 5)?;
        state.dies_before(true)?;
        state.counts.syncs += 1;
        let is_left_out = match self.directory.misdeed {
            Some(HostFault::DirectoryNotSynced) => true,
            Some(HostFault::NamesUnsyncedAtStart) => !state.has_named,
            _ => false,
        };
        if !is_left_out {
            state.disk.sync_names();
        }
        Ok(())
    }
}

/// File opened by a process.
#[derive(Debug)]
struct Handle {
    directory: Arc<DataDirectory>,
    process: u64,
    file: FileId,
    /// Name at the time of opening.
    name: String,
    /// True if opened read-only.
    reads: bool,
}

impl Handle {
    /// Return whether the planted bug omits this sync.
    fn is_sync_omitted(&self) -> bool {
        let is_journal = self.name.starts_with(JOURNAL);
        match self.directory.misdeed {
            Some(HostFault::JournalNotSynced) => is_journal && !self.reads,
            Some(HostFault::NoSyncAtStart) => is_journal && self.reads,
            Some(HostFault::SuperblockNotSynced) => self.name.starts_with(SUPERBLOCK),
            Some(HostFault::ListNotSynced) => self.name.starts_with("journal"),
            Some(HostFault::CheckpointNotSynced) => self.name.starts_with("checkpoint"),
            _ => false,
        }
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.directory.state();
        state.whole(self.process, &self.name, 6)?;
        if !self.reads && self.name.starts_with(JOURNAL) {
            state.dies_before(false)?;
        }
        state.counts.syncs += 1;
        if !self.reads && std::mem::take(&mut state.fails_sync) {
            state.counts.failed_syncs += 1;
            state.disk.fail_sync_of(self.file);
            if self.directory.misdeed == Some(HostFault::ErrorsIgnored) {
                return Ok(());
            }
            return Err(io::Error::from_raw_os_error(EIO));
        }
        if !self.is_sync_omitted() {
            state.disk.sync_file(self.file);
        }
        Ok(())
    }
}

impl OpenFile for Handle {
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut state = self.directory.state();
        let dies = state.operation(self.process, &self.name, 7 + offset)?;
        if self.directory.misdeed == Some(HostFault::OneCopy)
            && self.name == SUPERBLOCK
            && offset >= FIRST_COPY
        {
            return Ok(());
        }
        let at = usize::try_from(offset).expect("files are small");
        let length = state.disk.contents(self.file).map_or(0, <[u8]>::len);
        if at + bytes.len() > length {
            state.has_room()?;
        }
        if let Some(mut draw) = dies {
            let done = draw.below(bytes.len() as u64 + 1);
            let done = usize::try_from(done).expect("no more than there are");
            state.disk.write_to(self.file, at, &bytes[..done]);
            return Err(io::Error::from_raw_os_error(EIO));
        }
        state.disk.write_to(self.file, at, bytes);
        Ok(())
    }

    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        let mut state = self.directory.state();
        state.whole(self.process, &self.name, 8 + offset)?;
        let mut at = usize::try_from(offset).expect("files are small");
        if self.name.starts_with(JOURNAL) && std::mem::take(&mut state.misreads) {
            state.counts.misreads += 1;
            at = at.saturating_sub(crate::disk::SECTOR);
        }
        let from = state
            .disk
            .contents(self.file)
            .and_then(|contents| contents.get(at..at + bytes.len()))
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        bytes.copy_from_slice(from);
        Ok(())
    }

    fn read_all(&self) -> io::Result<Vec<u8>> {
        let mut state = self.directory.state();
        state.whole(self.process, &self.name, 9)?;
        let contents = state.disk.contents(self.file);
        Ok(contents.unwrap_or_default().to_vec())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.sync()
    }

    fn sync_all(&self) -> io::Result<()> {
        self.sync()
    }

    fn drop_cached_pages(&self) -> io::Result<()> {
        Ok(())
    }
}
