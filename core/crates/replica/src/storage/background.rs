//! Work on files that must not hold up the journal: images of the state, and journal files made in advance.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
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
    checkpoints::{Checkpoints, ImageName},
    folder::{UNFINISHED, options},
};
use crate::{errors::StartError, input::Input};

const ZEROS_BYTES: usize = 1024 * 1024;
/// How long to wait before a full disk is tried again.
const FULL_RETRY: Duration = Duration::from_millis(500);
/// How often a journal file is tried again while commands are refused for want of space.
const RETRY_NS: u64 = 500_000_000;
const FULL_RETRY_STEP: Duration = Duration::from_millis(50);

/// What to do.
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
        name: ImageName,
    },
    /// Remove what no one needs beside the image of `op`.
    KeepImages {
        op: u64,
    },
    /// Make a journal file of that size.
    Spare {
        bytes: u64,
    },
    Stop,
}

/// A journal file made in advance, filled with zeros, under a name that a start would remove.
#[derive(Debug)]
pub(super) struct Spare {
    pub(super) file: File,
    pub(super) path: PathBuf,
    pub(super) bytes: u64,
}

#[derive(Debug, Default)]
enum SpareState {
    #[default]
    None,
    Asked,
    Ready(Spare),
}

/// What the threads of one replica know of its disk.
#[derive(Debug, Default)]
pub(crate) struct Disk {
    spare: Mutex<SpareState>,
    /// The journal could not grow.
    full: AtomicBool,
    /// What people were told of it.
    told_full: AtomicBool,
    /// Nobody waits for space any more.
    closing: AtomicBool,
    /// Of the journal file that is wanted next.
    wanted_bytes: AtomicU64,
    tried_ns: AtomicU64,
    pub(crate) images: AtomicU64,
    pub(crate) image_bytes: AtomicU64,
}

impl Disk {
    /// Whether nothing more can be written for now.
    pub(crate) fn is_full(&self) -> bool {
        self.full.load(Ordering::Relaxed)
    }

    /// Note whether the journal can grow.
    pub(super) fn set_full(&self, full: bool) {
        self.full.store(full, Ordering::Relaxed);
    }

    /// Whether the disk is full, if that is news.
    pub(crate) fn news(&self) -> Option<bool> {
        let is_full = self.is_full();
        (self.told_full.swap(is_full, Ordering::Relaxed) != is_full).then_some(is_full)
    }

    /// Note the size of the journal file that is wanted next.
    pub(super) fn want(&self, bytes: u64) {
        self.wanted_bytes.store(bytes, Ordering::Relaxed);
    }

    /// When [`retry`](Self::retry) has something to do: only while the disk is full.
    pub(crate) fn retry_at_ns(&self) -> Option<u64> {
        self.is_full()
            .then(|| self.tried_ns.load(Ordering::Relaxed) + RETRY_NS)
    }

    /// The size of the journal file to try again with, if the disk was full and it is time for that.
    pub(crate) fn retry(&self, now_ns: u64) -> Option<u64> {
        self.retry_at_ns().filter(|&at_ns| at_ns <= now_ns)?;
        self.tried_ns.store(now_ns, Ordering::Relaxed);
        self.wants_spare()
            .then(|| self.wanted_bytes.load(Ordering::Relaxed))
    }

    /// Whether nobody waits for space any more.
    pub(super) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Relaxed)
    }

    /// Nobody waits for space from now on.
    pub(crate) fn close(&self) {
        self.closing.store(true, Ordering::Relaxed);
    }

    fn spare(&self) -> MutexGuard<'_, SpareState> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The spare file, if it is ready.
    pub(super) fn take_spare(&self) -> Option<Spare> {
        let mut spare = self.spare();
        match std::mem::take(&mut *spare) {
            SpareState::Ready(ready) => Some(ready),
            other => {
                *spare = other;
                None
            }
        }
    }

    /// Whether somebody has to ask for a spare file; true only once.
    pub(super) fn wants_spare(&self) -> bool {
        let mut spare = self.spare();
        if matches!(*spare, SpareState::None) {
            *spare = SpareState::Asked;
            return true;
        }
        false
    }
}

/// The thread.
#[derive(Debug)]
pub(crate) struct Background {
    jobs: mpsc::Sender<FileJob>,
    thread: Option<JoinHandle<()>>,
}

impl Background {
    pub(crate) fn start(
        folder: &Path,
        sync: bool,
        disk: Arc<Disk>,
        tell: impl Fn(Input) + Send + 'static,
    ) -> Result<Self, StartError> {
        let (jobs, received) = mpsc::channel();
        let worker = Worker {
            checkpoints: Checkpoints::new(folder),
            folder: folder.to_owned(),
            sync,
            disk,
            tell: Box::new(tell),
        };
        let thread = thread::Builder::new()
            .name("metadata-files".to_owned())
            .spawn(move || worker.run(&received))
            .map_err(|source| StartError::storage("start a thread for", folder, source))?;
        Ok(Self {
            jobs,
            thread: Some(thread),
        })
    }

    pub(crate) fn sender(&self) -> mpsc::Sender<FileJob> {
        self.jobs.clone()
    }

    /// Finish what was asked for.
    pub(crate) fn join(&mut self) {
        let _ = self.jobs.send(FileJob::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Worker {
    checkpoints: Checkpoints,
    folder: PathBuf,
    sync: bool,
    disk: Arc<Disk>,
    tell: Box<dyn Fn(Input) + Send>,
}

impl Worker {
    fn run(mut self, jobs: &mpsc::Receiver<FileJob>) {
        while let Ok(job) = jobs.recv() {
            if matches!(job, FileJob::Stop) {
                return;
            }
            if let Some(done) = self.carry_out(job) {
                (self.tell)(done);
            }
        }
    }

    fn carry_out(&mut self, job: FileJob) -> Option<Input> {
        let result = match job {
            FileJob::WriteImage { op, clients, state } => {
                let written = self.patiently(|this| this.checkpoints.write(op, &clients, &state));
                written.map(|name| {
                    name.map(|ImageName { length, digest }| {
                        self.disk.images.fetch_add(1, Ordering::Relaxed);
                        self.disk.image_bytes.store(length, Ordering::Relaxed);
                        Input::Done(Event::CheckpointDone { op, length, digest })
                    })
                })
            }
            FileJob::ReadChunk {
                token,
                op,
                offset,
                length,
            } => {
                let bytes = self.checkpoints.read_chunk(op, offset, length);
                Ok(Some(Input::Done(Event::ChunkRead { token, bytes })))
            }
            FileJob::WriteChunk {
                token,
                op,
                offset,
                bytes,
            } => self
                .patiently(|this| this.checkpoints.write_chunk(op, offset, &bytes))
                .map(|done| done.map(|()| Input::Done(Event::ChunkWritten { token }))),
            FileJob::Install { token, op, name } => {
                self.checkpoints.install(op, name).map(|image| {
                    Some(match image {
                        Some(image) => {
                            self.disk.images.fetch_add(1, Ordering::Relaxed);
                            self.disk.image_bytes.store(name.length, Ordering::Relaxed);
                            let (clients, state) = (image.clients, image.state);
                            Input::Installed {
                                token,
                                op,
                                clients,
                                state,
                            }
                        }
                        None => Input::Done(Event::Installed {
                            token,
                            clients: None,
                        }),
                    })
                })
            }
            FileJob::KeepImages { op } => {
                if let Err(error) = self.checkpoints.keep_from(op) {
                    return Some(Input::Log(
                        Level::Warning,
                        format!("an old checkpoint could not be removed: {error}"),
                    ));
                }
                Ok(None)
            }
            FileJob::Spare { bytes } => Ok(self.make_spare(bytes)),
            FileJob::Stop => Ok(None),
        };
        result.unwrap_or_else(|error| {
            Some(Input::Done(Event::StorageError(StorageError {
                what: StoragePart::Checkpoint,
                errno: error.raw_os_error().unwrap_or(0),
            })))
        })
    }

    /// Do something that a full disk only delays; `None` when the replica closes meanwhile.
    fn patiently<T>(
        &mut self,
        mut work: impl FnMut(&mut Self) -> io::Result<T>,
    ) -> io::Result<Option<T>> {
        let mut told = false;
        loop {
            match work(self) {
                Err(error) if is_full(&error) => {
                    if !told {
                        told = true;
                        (self.tell)(Input::Log(
                            Level::Error,
                            format!(
                                "the disk of {} is full: no checkpoint of the metadata can be written until some \
                                 space is free",
                                self.folder.display()
                            ),
                        ));
                    }
                    let mut waited = Duration::ZERO;
                    while waited < FULL_RETRY {
                        if self.disk.is_closing() {
                            return Ok(None);
                        }
                        thread::sleep(FULL_RETRY_STEP);
                        waited += FULL_RETRY_STEP;
                    }
                }
                result => return result.map(Some),
            }
        }
    }

    /// Only a full disk is told: after any other failure the journal asks again, or meets it itself.
    fn make_spare(&self, bytes: u64) -> Option<Input> {
        self.disk.want(bytes);
        let made = make_journal_file(&self.folder, "spare", bytes, self.sync);
        let full = made.as_ref().is_err_and(is_full);
        let changes = full != self.disk.is_full();
        let mut spare = self.disk.spare();
        *spare = made.map_or(SpareState::None, SpareState::Ready);
        drop(spare);
        self.disk.set_full(full);
        changes.then_some(Input::DiskChanged)
    }
}

pub(super) fn is_full(error: &io::Error) -> bool {
    let full = [Errno::NOSPC, Errno::DQUOT].map(Errno::raw_os_error);
    error
        .raw_os_error()
        .is_some_and(|errno| full.contains(&errno))
}

/// A file of zeros on blocks of its own: syncing what is written into it later changes no metadata of the file system.
pub(super) fn make_journal_file(
    folder: &Path,
    name: &str,
    bytes: u64,
    sync: bool,
) -> io::Result<Spare> {
    let path = folder.join(format!("wal-{name}.{UNFINISHED}"));
    let zero_filled = || -> io::Result<File> {
        let mut file = options().create(true).truncate(true).open(&path)?;
        let zeros = vec![0; ZEROS_BYTES];
        let mut left = bytes;
        while left > 0 {
            let step = left.min(ZEROS_BYTES as u64);
            file.write_all(&zeros[..usize::try_from(step).expect("at most a mebibyte")])?;
            left -= step;
        }
        if sync {
            file.sync_all()?;
        }
        Ok(file)
    };
    match zero_filled() {
        Ok(file) => Ok(Spare { file, path, bytes }),
        Err(error) => {
            let _ = fs::remove_file(&path);
            Err(error)
        }
    }
}
