//! File work that must not delay the journal: images of the state, and preallocated journal files.

use std::{
    fmt, io,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use headrace_buffer::Slice;
use headrace_model::Level;
use headrace_vsr::api::{Event, StorageError, StoragePart};
use rustix::io::Errno;

use super::{
    checkpoints::{Checkpoints, ImageDigest},
    directory::{DataDirectory, unfinished},
};
use crate::{
    errors::StartError,
    input::Input,
    surroundings::{OpenFile, OpenMode},
};

const ZEROS_BYTES: usize = 1024 * 1024;
/// Time to wait before a retry on a full disk.
const FULL_RETRY: Duration = Duration::from_millis(500);
/// Interval between attempts to create a journal file while commands are refused for lack of space.
const RETRY_NS: u64 = 500_000_000;
const FULL_RETRY_STEP: Duration = Duration::from_millis(50);

/// Job for the file worker.
#[derive(Debug)]
pub(crate) enum FileJob {
    WriteImage {
        op: u64,
        clients: Slice,
        state: Slice,
    },
    ReadChunk {
        token: u64,
        op: u64,
        offset: u64,
        length: u32,
    },
    WriteChunk {
        token: u64,
        op: u64,
        offset: u64,
        bytes: Slice,
    },
    Install {
        token: u64,
        op: u64,
        name: ImageDigest,
    },
    /// Remove images that are no longer needed beside the image of `op`.
    KeepImages {
        op: u64,
    },
    /// Create a spare journal file of this size.
    Spare {
        bytes: u64,
    },
    Stop,
}

impl FileJob {
    /// Return whether a full disk merely delays this job.
    const fn can_wait(&self) -> bool {
        matches!(self, Self::WriteImage { .. } | Self::WriteChunk { .. })
    }
}

/// Preallocated journal file, filled with zeros, under a name that a start would remove.
#[derive(Debug)]
pub(super) struct PreallocatedFile {
    pub(super) file: Box<dyn OpenFile>,
    pub(super) name: String,
    pub(super) bytes: u64,
}

#[derive(Debug, Default)]
enum SpareState {
    #[default]
    None,
    Requested,
    Ready(PreallocatedFile),
    /// The file is taken, and still has the name that the next one would get.
    Taken,
}

/// Disk state shared by the threads of one replica.
#[derive(Debug, Default)]
pub(crate) struct Disk {
    spare: Mutex<SpareState>,
    /// True if the journal could not grow.
    full: AtomicBool,
    /// Value of `full` that was last reported.
    reported_full: AtomicBool,
    /// True if jobs must no longer wait for space.
    closing: AtomicBool,
    /// Size of the next journal file.
    wanted_bytes: AtomicU64,
    tried_ns: AtomicU64,
    pub(crate) images: AtomicU64,
    pub(crate) image_bytes: AtomicU64,
}

impl Disk {
    /// Return whether the journal cannot grow for now.
    pub(crate) fn is_full(&self) -> bool {
        self.full.load(Ordering::Relaxed)
    }

    /// Record whether the journal can grow.
    pub(super) fn set_full(&self, full: bool) {
        self.full.store(full, Ordering::Relaxed);
    }

    /// Record that no file could be created. A spare file that is ready by now is space enough.
    pub(super) fn note_no_space(&self) {
        let spare = self.spare();
        if !matches!(*spare, SpareState::Ready(_)) {
            self.set_full(true);
        }
    }

    /// Return whether the disk is full, if that has changed since the last call.
    pub(crate) fn take_full_change(&self) -> Option<bool> {
        let is_full = self.is_full();
        (self.reported_full.swap(is_full, Ordering::Relaxed) != is_full).then_some(is_full)
    }

    /// Record the size of the next journal file.
    pub(super) fn set_next_file_bytes(&self, bytes: u64) {
        self.wanted_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Monotonic time of the next [`retry`](Self::retry); `None` unless the disk is full.
    pub(crate) fn retry_at_ns(&self) -> Option<u64> {
        self.is_full()
            .then(|| self.tried_ns.load(Ordering::Relaxed) + RETRY_NS)
    }

    /// Size of the journal file to try again with, if the disk is full and a retry is due.
    pub(crate) fn retry(&self, now_ns: u64) -> Option<u64> {
        self.retry_at_ns().filter(|&at_ns| at_ns <= now_ns)?;
        self.tried_ns.store(now_ns, Ordering::Relaxed);
        self.claim_spare_request()
            .then(|| self.wanted_bytes.load(Ordering::Relaxed))
    }

    /// Return whether jobs must no longer wait for space.
    pub(super) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Relaxed)
    }

    /// Stop waiting for space from now on.
    pub(crate) fn close(&self) {
        self.closing.store(true, Ordering::Relaxed);
    }

    fn spare(&self) -> MutexGuard<'_, SpareState> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Take the spare file, if it is ready. There is no other before [`release_spare_name`](Self::release_spare_name).
    pub(super) fn take_spare(&self) -> Option<PreallocatedFile> {
        let mut spare = self.spare();
        match std::mem::take(&mut *spare) {
            SpareState::Ready(ready) => {
                *spare = SpareState::Taken;
                Some(ready)
            }
            other => {
                *spare = other;
                None
            }
        }
    }

    /// Record that a spare file which was taken has been renamed, or is not used.
    pub(super) fn release_spare_name(&self) {
        let mut spare = self.spare();
        if matches!(*spare, SpareState::Taken) {
            *spare = SpareState::None;
        }
    }

    /// Return whether the caller must request a spare file; true only once per file.
    pub(super) fn claim_spare_request(&self) -> bool {
        let mut spare = self.spare();
        if matches!(*spare, SpareState::None) {
            *spare = SpareState::Requested;
            return true;
        }
        false
    }

    /// Record the outcome of a request for a spare file. Returns whether the disk has become full, or has space again.
    fn complete_spare_request(&self, made: io::Result<PreallocatedFile>) -> bool {
        let full = made.as_ref().is_err_and(is_full);
        let mut spare = self.spare();
        *spare = made.map_or(SpareState::None, SpareState::Ready);
        self.full.swap(full, Ordering::Relaxed) != full
    }
}

/// Thread of the file worker, unless the worker is run step by step.
#[derive(Debug)]
pub(crate) struct FileWorkerHandle {
    jobs: mpsc::Sender<FileJob>,
    thread: Option<JoinHandle<()>>,
}

impl FileWorkerHandle {
    /// Create a worker, to be started on a thread or run step by step.
    pub(crate) fn new(
        directory: &DataDirectory,
        disk: Arc<Disk>,
        report: impl Fn(Input) + Send + 'static,
    ) -> (Self, FileWorker) {
        let (jobs, received) = mpsc::channel();
        let worker = FileWorker {
            jobs: received,
            waiting: None,
            is_full_reported: false,
            checkpoints: Checkpoints::new(directory),
            directory: directory.clone(),
            disk,
            report: Box::new(report),
        };
        (Self { jobs, thread: None }, worker)
    }

    pub(crate) fn start(&mut self, worker: FileWorker) -> Result<(), StartError> {
        let directory = worker.directory.clone();
        let thread = thread::Builder::new()
            .name("metadata-files".to_owned())
            .spawn(move || worker.run())
            .map_err(|source| {
                StartError::storage("start a thread for", directory.path(), source)
            })?;
        self.thread = Some(thread);
        Ok(())
    }

    pub(crate) fn sender(&self) -> mpsc::Sender<FileJob> {
        self.jobs.clone()
    }

    /// Finish the submitted jobs and join the thread.
    pub(crate) fn join(&mut self) {
        let _ = self.jobs.send(FileJob::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Worker that carries out jobs in order.
pub(crate) struct FileWorker {
    jobs: mpsc::Receiver<FileJob>,
    /// Next job. A job that can wait for space stays here after a failed attempt.
    waiting: Option<FileJob>,
    is_full_reported: bool,
    checkpoints: Checkpoints,
    directory: DataDirectory,
    disk: Arc<Disk>,
    report: Box<dyn Fn(Input) + Send>,
}

impl fmt::Debug for FileWorker {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("FileWorker")
            .field("directory", &self.directory)
            .finish_non_exhaustive()
    }
}

impl FileWorker {
    fn run(mut self) {
        loop {
            if self.waiting.is_some() {
                if !self.await_space() {
                    self.waiting = None;
                    continue;
                }
            } else {
                let Ok(job) = self.jobs.recv() else {
                    return;
                };
                self.waiting = Some(job);
            }
            let stops = matches!(self.waiting, Some(FileJob::Stop));
            self.step();
            if stops {
                return;
            }
        }
    }

    /// Return whether there is a job. Jobs that wait for space count.
    pub(crate) fn has_jobs(&mut self) -> bool {
        if self.waiting.is_none() {
            self.waiting = self.jobs.try_recv().ok();
        }
        self.waiting.is_some()
    }

    /// Return whether a job remains after an attempt that failed for lack of space.
    pub(crate) const fn awaits_space(&self) -> bool {
        self.waiting.is_some()
    }

    /// Carry out the next job. The job remains if a full disk merely delays it.
    pub(crate) fn step(&mut self) {
        let Some(job) = self.waiting.take() else {
            return;
        };
        let done = match self.carry_out(&job) {
            Err(error) if is_full(&error) && job.can_wait() => {
                self.waiting = Some(job);
                if self.is_full_reported {
                    return;
                }
                self.is_full_reported = true;
                let line = format!(
                    "the disk of {} is full: no checkpoint of the metadata can be written until some space is free",
                    self.directory.display()
                );
                Some(Input::Log(Level::Error, line))
            }
            result => {
                self.is_full_reported = false;
                result.unwrap_or_else(|error| {
                    Some(Input::Done(Event::StorageError(StorageError {
                        part: StoragePart::Checkpoint,
                        errno: error.raw_os_error().unwrap_or(0),
                    })))
                })
            }
        };
        if let Some(done) = done {
            (self.report)(done);
        }
    }

    /// Wait before a retry on a full disk; `false` if the replica closes meanwhile.
    fn await_space(&self) -> bool {
        let mut waited = Duration::ZERO;
        while waited < FULL_RETRY {
            if self.disk.is_closing() {
                return false;
            }
            thread::sleep(FULL_RETRY_STEP);
            waited += FULL_RETRY_STEP;
        }
        true
    }

    fn carry_out(&mut self, job: &FileJob) -> io::Result<Option<Input>> {
        Ok(match *job {
            FileJob::WriteImage {
                op,
                ref clients,
                ref state,
            } => {
                let name = self.checkpoints.write(op, clients, state)?;
                self.note_image(name);
                let ImageDigest { length, digest } = name;
                Some(Input::Done(Event::CheckpointDone { op, length, digest }))
            }
            FileJob::ReadChunk {
                token,
                op,
                offset,
                length,
            } => {
                let bytes = self.checkpoints.read_chunk(op, offset, length);
                Some(Input::Done(Event::ChunkRead { token, bytes }))
            }
            FileJob::WriteChunk {
                token,
                op,
                offset,
                ref bytes,
            } => {
                self.checkpoints.write_chunk(op, offset, bytes)?;
                Some(Input::Done(Event::ChunkWritten { token }))
            }
            FileJob::Install { token, op, name } => Some(self.install(token, op, name)?),
            FileJob::KeepImages { op } => {
                self.checkpoints.remove_older_than(op).err().map(|error| {
                    Input::Log(
                        Level::Warning,
                        format!("an old checkpoint could not be removed: {error}"),
                    )
                })
            }
            FileJob::Spare { bytes } => self.make_spare(bytes),
            FileJob::Stop => {
                // A start would remove the file as well.
                let _ = self.checkpoints.abandon();
                None
            }
        })
    }

    fn install(&mut self, token: u64, op: u64, name: ImageDigest) -> io::Result<Input> {
        let Some(image) = self.checkpoints.install(op, name)? else {
            let clients = None;
            return Ok(Input::Done(Event::Installed { token, clients }));
        };
        self.note_image(name);
        let (clients, state) = (image.clients, image.state);
        Ok(Input::Installed {
            token,
            op,
            clients,
            state,
        })
    }

    fn note_image(&self, name: ImageDigest) {
        self.disk.images.fetch_add(1, Ordering::Relaxed);
        self.disk.image_bytes.store(name.length, Ordering::Relaxed);
    }

    /// Create a spare file. Only a full disk is reported: after any other failure the journal retries, or encounters
    /// the failure itself.
    fn make_spare(&self, bytes: u64) -> Option<Input> {
        self.disk.set_next_file_bytes(bytes);
        let made = make_journal_file(&self.directory, "spare", bytes);
        self.disk
            .complete_spare_request(made)
            .then_some(Input::DiskChanged)
    }
}

pub(super) fn is_full(error: &io::Error) -> bool {
    let full = [Errno::NOSPC, Errno::DQUOT].map(Errno::raw_os_error);
    error
        .raw_os_error()
        .is_some_and(|errno| full.contains(&errno))
}

/// Create a file of zeros with allocated blocks, so that syncing later writes changes no file system metadata.
pub(super) fn make_journal_file(
    directory: &DataDirectory,
    name: &str,
    bytes: u64,
) -> io::Result<PreallocatedFile> {
    let name = unfinished(&format!("wal-{name}"));
    let zero_filled = || -> io::Result<Box<dyn OpenFile>> {
        let file = directory.open(&name, OpenMode::Replace)?;
        let zeros = vec![0; ZEROS_BYTES];
        let mut filled = 0;
        while filled < bytes {
            let step = (bytes - filled).min(ZEROS_BYTES as u64);
            let zeros = &zeros[..usize::try_from(step).expect("at most a mebibyte")];
            file.write_all_at(zeros, filled)?;
            filled += step;
        }
        file.sync_all()?;
        Ok(file)
    };
    match zero_filled() {
        Ok(file) => Ok(PreallocatedFile { file, name, bytes }),
        Err(error) => {
            let _ = directory.remove(&name);
            Err(error)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spare_in(path: &tempfile::TempDir) -> io::Result<PreallocatedFile> {
        make_journal_file(&DataDirectory::on_disk(path.path()), "spare", 0)
    }

    /// Another file of the same name would truncate it.
    #[test]
    fn no_spare_file_is_requested_until_the_one_that_was_taken_is_renamed() {
        let path = tempfile::tempdir().unwrap();
        let disk = Disk::default();
        assert!(disk.claim_spare_request());
        disk.complete_spare_request(spare_in(&path));
        disk.set_full(true);
        disk.take_spare().expect("the file is ready");
        assert_eq!(disk.retry(RETRY_NS), None);
        assert!(!disk.claim_spare_request());
        disk.release_spare_name();
        assert_eq!(disk.retry(2 * RETRY_NS), Some(0));
    }

    #[test]
    fn a_spare_file_that_is_ready_is_space_enough() {
        let path = tempfile::tempdir().unwrap();
        let disk = Disk::default();
        assert!(disk.claim_spare_request());
        disk.note_no_space();
        assert!(disk.is_full());
        assert!(disk.complete_spare_request(spare_in(&path)));
        assert!(!disk.is_full());
        disk.note_no_space();
        assert!(!disk.is_full());
    }
}
