//! Executes the storage operations of a shard's partitions.
//!
//! Partitions name files, this module knows paths and handles. Operations that are usually fast run on the shard's own
//! thread, because handing them over costs more than executing them: a write goes to the page cache by `pwritev` (on
//! ext4 the ring would pass it to a kernel thread), a read of cached data uses a `preadv2` that does not wait.
//! Operations that may block go to the [`Driver`]: reads of cold data, syncs, and all work on names and directories.
//!
//! Operations are executed in any order, one at a time or many in parallel; partitions submit an operation that depends
//! on another one only after that has completed.

mod directory;
mod errors;
mod files;
mod layout;
mod removal;
#[cfg(test)]
mod tests;
mod transfer;

use std::{
    collections::{BTreeMap, VecDeque},
    io,
    os::fd::OwnedFd,
    path::Path,
    sync::Arc,
    time::Instant,
};

use headrace_buffer::{BufferPool, Slice};
use headrace_log::storage::{
    FileName, StorageCompletion, StorageError, StorageOperation, StorageOutcome, StorageRequest,
};
use headrace_model::Namespace;

use self::{
    errors::{sync_error, to_storage_error},
    files::{Files, Found},
    layout::Layout,
    transfer::UNSYNCED_BYTES_MAX,
};
use crate::{
    driver::{Driver, Operation, Outcome, Task, TaskOutput},
    open_files::HANDLES_MAX,
};

pub use directory::{create_durably, replace_file};
pub(crate) use layout::partition_directory;
pub(crate) use removal::set_aside_directories;
pub use removal::{Removal, Removed, finish_removals};

/// Tokens of this module have the highest bit set; the host's own do not.
const TOKEN_BIT: u64 = 1 << 63;

/// Executor of one shard's storage operations.
pub struct Storage {
    layout: Layout,
    catalog: u128,
    pool: BufferPool,
    files: Files,
    /// Files to open as soon as there are handles for them.
    to_open: VecDeque<ToOpen>,
    jobs: BTreeMap<u64, Job>,
    next_token: u64,
    unsynced_bytes_max: u64,
    syncs_in_flight: usize,
    last_sync_ended: Option<Instant>,
    /// Time until which writes do not run inline.
    write_elsewhere_until: Option<Instant>,
    /// True if the file system can read from its cache without waiting.
    reads_from_cache: bool,
    counters: StorageCounters,
}

/// Counters of a shard's storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StorageCounters {
    /// Writes done on the shard's thread.
    pub inline_writes: u64,
    /// Writes passed to the driver.
    pub driver_writes: u64,
    /// Reads answered from the page cache on the shard's thread.
    pub inline_reads: u64,
    /// Reads that had to wait for the device.
    pub driver_reads: u64,
    /// Number of syncs requested.
    pub syncs: u64,
}

/// Meaning of the completion of a token.
enum Job {
    Open(Namespace, FileName),
    Prepare(Request),
    Create(Request, FileName),
    Write(Request),
    Read(Request, usize),
    Sync(Request, FileName, u64),
    Replace(Request, FileName),
    /// A request that needs no further step.
    Other(Request),
    /// A request like `Other` whose failure is ignored.
    Advice(Request),
}

/// A file to open: one that exists, or a new one.
enum ToOpen {
    Existing(Namespace, FileName),
    New(Request, FileName),
}

#[derive(Clone, Copy)]
struct Request {
    namespace: Namespace,
    id: u64,
}

/// Callback that receives the answers.
type Answers<'a> = &'a mut dyn FnMut(Namespace, StorageCompletion);

impl Storage {
    /// Create an executor for one shard, whose partitions live below `data_path/streams`. Touches no file yet.
    pub fn new(data_path: &Path, pool: BufferPool) -> Self {
        Self {
            layout: Layout::new(data_path.to_owned()),
            catalog: 0,
            pool,
            files: Files::new(HANDLES_MAX),
            to_open: VecDeque::new(),
            jobs: BTreeMap::new(),
            next_token: TOKEN_BIT,
            unsynced_bytes_max: UNSYNCED_BYTES_MAX,
            syncs_in_flight: 0,
            last_sync_ended: None,
            write_elsewhere_until: None,
            reads_from_cache: true,
            counters: StorageCounters::default(),
        }
    }

    /// Set the identity of the catalog that has the partitions: directories of another one are not removed.
    #[must_use]
    pub fn with_catalog(self, catalog: u128) -> Self {
        Self { catalog, ..self }
    }

    /// Set the maximum number of open files. Operations on others wait until one is idle.
    #[must_use]
    pub fn with_handles_max(self, handles_max: usize) -> Self {
        Self {
            files: Files::new(handles_max),
            ..self
        }
    }

    /// Set the number of unsynced bytes below which the shard's thread writes inline.
    #[must_use]
    pub fn with_unsynced_bytes_max(self, unsynced_bytes_max: u64) -> Self {
        Self {
            unsynced_bytes_max,
            ..self
        }
    }

    /// Return whether a driver's completion with this token is for [`completed`](Self::completed). The host's own
    /// tokens have the highest bit clear.
    pub const fn owns(token: u64) -> bool {
        token & TOKEN_BIT != 0
    }

    /// Return the removal of a deleted partition's directory (LOG-13), which may run on another thread.
    pub fn removal(&self, namespace: Namespace, incarnation: u64) -> (Removal, Removed) {
        let removed = Removed {
            namespace,
            catalog: self.catalog,
            incarnation,
        };
        (self.layout.removal(namespace), removed)
    }

    /// Execute an operation, or begin to. `answers` is called exactly once for it: before this returns, or in a later
    /// [`completed`](Self::completed).
    pub fn execute(
        &mut self,
        namespace: Namespace,
        request: StorageRequest,
        driver: &mut dyn Driver,
        mut answers: impl FnMut(Namespace, StorageCompletion),
    ) {
        let StorageRequest { id, operation } = request;
        let request = Request { namespace, id };
        match operation {
            StorageOperation::OpenDirectory => {
                let directory = self.layout.directory(namespace);
                let work = move || directory::prepare(&directory).map(TaskOutput::new);
                self.task(driver, Job::Prepare(request), Box::new(work));
            }
            StorageOperation::SetAsideDirectory => {
                self.files.close_all(namespace);
                let removal = self.layout.removal(namespace);
                let work = move || removal.set_aside().map(|()| TaskOutput::nothing());
                self.task(driver, Job::Other(request), Box::new(work));
            }
            StorageOperation::Create { file } => {
                self.files.close(namespace, file);
                self.to_open.push_back(ToOpen::New(request, file));
                self.open_files_that_wait(driver);
            }
            StorageOperation::Replace { file, contents } => {
                let (directory, path) = self.layout.file(namespace, file);
                let work = move || {
                    directory::replace(&directory, &path, &contents).map(|()| TaskOutput::nothing())
                };
                self.task(driver, Job::Replace(request, file), Box::new(work));
            }
            StorageOperation::Remove { file } => {
                self.files.close(namespace, file);
                let (directory, path) = self.layout.file(namespace, file);
                let work =
                    move || directory::remove(&directory, &path).map(|()| TaskOutput::nothing());
                self.task(driver, Job::Other(request), Box::new(work));
            }
            StorageOperation::Rename { file, into } => {
                self.files.close(namespace, file);
                let (directory, from) = self.layout.file(namespace, file);
                let (_, to) = self.layout.file(namespace, into);
                let work = move || {
                    directory::rename(&directory, &from, &to).map(|()| TaskOutput::nothing())
                };
                self.task(driver, Job::Other(request), Box::new(work));
            }
            StorageOperation::Write { file, .. }
            | StorageOperation::Read { file, .. }
            | StorageOperation::Sync { file }
            | StorageOperation::Uncache { file, .. }
            | StorageOperation::Truncate { file, .. }
            | StorageOperation::CutOff { file, .. }
            | StorageOperation::Allocate { file, .. } => {
                self.with_file(driver, request, file, operation, &mut answers);
            }
        }
    }

    /// Take the outcome of a token that this storage [`owns`](Self::owns).
    pub fn completed(
        &mut self,
        token: u64,
        outcome: Outcome,
        driver: &mut dyn Driver,
        mut answers: impl FnMut(Namespace, StorageCompletion),
    ) {
        let Some(job) = self.jobs.remove(&token) else {
            return;
        };
        self.job_done(job, outcome, driver, &mut answers);
        // A file may have become idle.
        self.open_files_that_wait(driver);
    }

    fn job_done(
        &mut self,
        job: Job,
        outcome: Outcome,
        driver: &mut dyn Driver,
        mut answers: Answers<'_>,
    ) {
        let (request, result) = match (job, outcome) {
            (Job::Open(namespace, file), Outcome::Task(result)) => {
                self.files.give_back();
                match result {
                    Ok(output) => self.keep(driver, namespace, file, output.take(), &mut answers),
                    Err(error) => self.not_opened(namespace, file, &error, &mut answers),
                }
                return;
            }
            (Job::Prepare(request), Outcome::Task(result)) => {
                let listed = result.map(|output| StorageOutcome::Listed(output.take()));
                (request, listed.map_err(|error| to_storage_error(&error)))
            }
            (Job::Create(request, file), Outcome::Task(result)) => {
                self.files.give_back();
                let created = result.map(|output| {
                    self.keep(driver, request.namespace, file, output.take(), &mut answers);
                });
                (request, done(created))
            }
            (Job::Replace(request, file), Outcome::Task(result)) => {
                // The handle would refer to the file that was replaced.
                self.files.close(request.namespace, file);
                (request, done(result))
            }
            (Job::Other(request), Outcome::Task(result)) => (request, done(result)),
            (Job::Advice(request), Outcome::Task(_)) => (request, Ok(StorageOutcome::Done)),
            (Job::Write(request), Outcome::FileWritten(result)) => (request, done(result)),
            (Job::Read(request, begun), Outcome::FileRead { mut buffer, result }) => {
                let read = result.map(|count| {
                    buffer.set_len(begun + count);
                    StorageOutcome::Read(buffer)
                });
                (request, read.map_err(|error| to_storage_error(&error)))
            }
            (Job::Sync(request, file, bytes), Outcome::Synced(result)) => {
                self.syncs_in_flight -= 1;
                self.last_sync_ended = Some(Instant::now());
                if result.is_ok() {
                    self.files.synced(request.namespace, file, bytes);
                }
                let synced = result.map(|()| StorageOutcome::Done);
                (request, synced.map_err(|error| sync_error(&error)))
            }
            (_, outcome) => unreachable!("{outcome:?} belongs to another operation"),
        };
        answer(request, result, &mut answers);
    }

    /// Close the files of a partition that closed itself. They are opened again on their next use.
    pub fn release(&mut self, namespace: Namespace) {
        self.files.close_all(namespace);
    }

    /// Counters since the start.
    pub fn counters(&self) -> StorageCounters {
        self.counters
    }

    /// Number of open files.
    pub fn open_files(&self) -> usize {
        self.files.open()
    }

    /// Number of bytes written and not yet synced.
    pub fn unsynced_bytes(&self) -> u64 {
        self.files.unsynced_bytes()
    }

    /// Number of operations with the driver.
    pub fn in_flight(&self) -> usize {
        self.jobs.len()
    }

    /// Run an operation on a file, now or as soon as the file is open.
    fn with_file(
        &mut self,
        driver: &mut dyn Driver,
        request: Request,
        name: FileName,
        operation: StorageOperation,
        answers: Answers<'_>,
    ) {
        match self.files.find(request.namespace, name) {
            Found::Open(file) => {
                let file = Arc::clone(file);
                self.operate(driver, request, name, file, operation, answers);
            }
            Found::Opening(waiting) => waiting.push((request.id, operation)),
            Found::Closed => {
                self.files
                    .opening(request.namespace, name, (request.id, operation));
                let to_open = ToOpen::Existing(request.namespace, name);
                self.to_open.push_back(to_open);
                self.open_files_that_wait(driver);
            }
        }
    }

    /// Begin to open the next files, as far as there are handles.
    fn open_files_that_wait(&mut self, driver: &mut dyn Driver) {
        while !self.to_open.is_empty() && self.files.reserve() {
            match self.to_open.pop_front() {
                Some(ToOpen::Existing(namespace, name)) => {
                    let (_, path) = self.layout.file(namespace, name);
                    let work = move || directory::open(&path).map(TaskOutput::new);
                    self.task(driver, Job::Open(namespace, name), Box::new(work));
                }
                Some(ToOpen::New(request, name)) => {
                    let (directory, path) = self.layout.file(request.namespace, name);
                    let work = move || directory::create(&directory, &path).map(TaskOutput::new);
                    self.task(driver, Job::Create(request, name), Box::new(work));
                }
                None => unreachable!("one waits"),
            }
        }
    }

    /// Keep an open file and run the operations that waited for it.
    fn keep(
        &mut self,
        driver: &mut dyn Driver,
        namespace: Namespace,
        name: FileName,
        file: OwnedFd,
        answers: Answers<'_>,
    ) {
        let file = Arc::new(file);
        for (id, operation) in self.files.insert(namespace, name, Arc::clone(&file)) {
            let request = Request { namespace, id };
            self.operate(driver, request, name, Arc::clone(&file), operation, answers);
        }
    }

    fn not_opened(
        &mut self,
        namespace: Namespace,
        name: FileName,
        error: &io::Error,
        answers: Answers<'_>,
    ) {
        if matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)) {
            // The operations are repeated, and others of this process need descriptors as well.
            self.files.close_idle();
        }
        for (id, operation) in self.files.not_opened(namespace, name) {
            let result = match operation {
                StorageOperation::Allocate { .. } => Ok(StorageOutcome::Done),
                _ => Err(to_storage_error(error)),
            };
            answer(Request { namespace, id }, result, answers);
        }
    }

    /// Run an operation on its open file.
    fn operate(
        &mut self,
        driver: &mut dyn Driver,
        request: Request,
        name: FileName,
        file: Arc<OwnedFd>,
        operation: StorageOperation,
        answers: Answers<'_>,
    ) {
        match operation {
            StorageOperation::Write {
                position, slices, ..
            } => {
                self.files
                    .written(request.namespace, name, total_bytes(&slices));
                self.write(driver, request, file, position, slices, answers);
            }
            StorageOperation::Read {
                position, length, ..
            } => self.read(driver, request, file, position, length as usize, answers),
            StorageOperation::Sync { .. } => {
                self.counters.syncs += 1;
                self.syncs_in_flight += 1;
                let bytes = self.files.unsynced_bytes_of(request.namespace, name);
                let job = Job::Sync(request, name, bytes);
                self.start(driver, job, Operation::SyncFile { file });
            }
            StorageOperation::Uncache { position, .. } => {
                self.counters.syncs += 1;
                let work =
                    move || directory::uncache(&file, position).map(|()| TaskOutput::nothing());
                self.task(driver, Job::Other(request), Box::new(work));
            }
            StorageOperation::CutOff { length, into, .. } => {
                let (directory, path) = self.layout.file(request.namespace, into);
                let work = move || {
                    directory::set_aside(&directory, &file, length, &path)
                        .map(|()| TaskOutput::nothing())
                };
                self.task(driver, Job::Other(request), Box::new(work));
            }
            StorageOperation::Truncate { length, .. } => {
                let work = move || {
                    rustix::fs::ftruncate(&file, length)?;
                    Ok(TaskOutput::nothing())
                };
                self.task(driver, Job::Other(request), Box::new(work));
            }
            StorageOperation::Allocate {
                position, length, ..
            } => {
                let work = move || {
                    directory::allocate(&file, position, length).map(|()| TaskOutput::nothing())
                };
                self.task(driver, Job::Advice(request), Box::new(work));
            }
            StorageOperation::OpenDirectory
            | StorageOperation::Create { .. }
            | StorageOperation::Replace { .. }
            | StorageOperation::Rename { .. }
            | StorageOperation::Remove { .. }
            | StorageOperation::SetAsideDirectory => unreachable!("they need no open file"),
        }
    }

    fn task(&mut self, driver: &mut dyn Driver, job: Job, task: Task) {
        self.start(driver, job, Operation::Task(task));
    }

    fn start(&mut self, driver: &mut dyn Driver, job: Job, operation: Operation) {
        let token = self.next_token;
        self.next_token = token.wrapping_add(1) | TOKEN_BIT;
        self.jobs.insert(token, job);
        driver.submit(token, operation);
    }
}

fn answer(request: Request, result: Result<StorageOutcome, StorageError>, answers: Answers<'_>) {
    let Request { namespace, id } = request;
    answers(namespace, StorageCompletion { id, result });
}

fn done<T>(result: io::Result<T>) -> Result<StorageOutcome, StorageError> {
    match result {
        Ok(_) => Ok(StorageOutcome::Done),
        Err(error) => Err(to_storage_error(&error)),
    }
}

fn total_bytes(slices: &[Slice]) -> u64 {
    slices.iter().map(|slice| slice.len() as u64).sum()
}
