//! Writer of the journal and the superblock, whose writes must be ordered.
//!
//! A single replica writes on its own thread: it has no other work meanwhile, and saves two hand-overs per command.
//! With peers a separate thread writes, so that heartbeats continue while the disk is busy.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use headrace_vsr::{
    api::{Event, StorageError, StoragePart},
    frame::PrepareFrame,
    journal::RecordedLog,
    superblock::Superblock,
};

use super::{background::Disk, journal::Journal, superblock_file::SuperblockFile};
use crate::{errors::StartError, input::Input, shared::Shared, surroundings::Machine};

/// Idle time after which a seal records the entire journal as durable.
const SEAL_AFTER_NS: u64 = 10_000_000;
/// Interval between attempts of an append that failed for lack of space.
const FULL_RETRY: Duration = Duration::from_millis(50);
/// Maximum number of frame bytes covered by one sync; further frames wait for the next.
const GROUP_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Job for the writer.
#[derive(Debug)]
pub(crate) enum JournalJob {
    Append {
        token: u64,
        frames: Vec<PrepareFrame>,
    },
    Truncate {
        token: u64,
        from_op: u64,
    },
    Read {
        token: u64,
        op: u64,
        checksum: u128,
    },
    Superblock {
        token: u64,
        image: Box<Superblock>,
    },
    /// Records below this op are no longer needed.
    Collect {
        below_op: u64,
    },
    Stop,
}

/// Writer that carries out jobs in order.
#[derive(Debug)]
pub(crate) struct Writer {
    pub(crate) journal: Journal,
    pub(crate) superblock: SuperblockFile,
    pub(crate) shared: Arc<Shared>,
    pub(crate) disk: Arc<Disk>,
    /// True after a failed job: later jobs are dropped, because they must not take effect before it. The core receives
    /// the error and halts.
    pub(crate) has_failed: bool,
}

impl Writer {
    /// Carry out these jobs; consecutive appends share a sync. Returns those that must wait for space.
    fn carry_out(&mut self, jobs: Vec<JournalJob>, done: &mut Vec<Event>) -> Vec<JournalJob> {
        if self.has_failed {
            return Vec::new();
        }
        let (mut appends, mut bytes) = (Vec::new(), 0);
        let mut jobs = jobs.into_iter();
        while let Some(job) = jobs.next() {
            let ends_group = match &job {
                JournalJob::Append { frames, .. } => {
                    bytes += frames.iter().map(PrepareFrame::size_bytes).sum::<usize>();
                    bytes >= GROUP_BYTES_MAX
                }
                _ => true,
            };
            let mut other = None;
            match job {
                JournalJob::Append { token, frames } => appends.push((token, frames)),
                job => other = Some(job),
            }
            if !ends_group {
                continue;
            }
            bytes = 0;
            if !self.append(&mut appends, done) {
                // Later jobs must take effect after the append, and wait with it.
                return waiting(appends).chain(other).chain(jobs).collect();
            }
            if let (Some(job), false) = (other, self.has_failed) {
                self.other(job, done);
            }
            if self.has_failed {
                return Vec::new();
            }
        }
        self.append(&mut appends, done);
        waiting(appends).collect()
    }

    /// Write one group commit; `false` if there is no space for it.
    fn append(
        &mut self,
        appends: &mut Vec<(u64, Vec<PrepareFrame>)>,
        done: &mut Vec<Event>,
    ) -> bool {
        if appends.is_empty() {
            return true;
        }
        let started = Instant::now();
        let frames: Vec<&PrepareFrame> = appends.iter().flat_map(|(_, frames)| frames).collect();
        match self.journal.append(&frames) {
            Ok(None) => return false,
            Ok(Some(bytes)) => {
                let took_ns = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
                let (prepares, files) = (frames.len() as u64, self.journal.file_count());
                self.shared.storage(|storage| {
                    storage.group_commits += 1;
                    storage.prepares += prepares;
                    storage.journal_bytes += bytes;
                    storage.journal_files = files;
                    storage.commit_ns += took_ns;
                    storage.commit_ns_max = storage.commit_ns_max.max(took_ns);
                });
                done.extend(
                    appends
                        .drain(..)
                        .map(|(token, _)| Event::Appended { token }),
                );
            }
            Err(error) => done.push(self.failed(StoragePart::Journal, &error)),
        }
        appends.clear();
        true
    }

    fn other(&mut self, job: JournalJob, done: &mut Vec<Event>) {
        match job {
            JournalJob::Append { .. } | JournalJob::Stop => {}
            JournalJob::Truncate { token, from_op } => {
                let event = match self.journal.truncate(from_op) {
                    Ok(()) => Event::LogTruncated { token },
                    Err(error) => self.failed(StoragePart::Journal, &error),
                };
                done.push(event);
            }
            JournalJob::Read {
                token,
                op,
                checksum,
            } => done.push(Event::ReadDone {
                token,
                frame: self.journal.read(op, checksum),
            }),
            JournalJob::Superblock { token, image } => {
                // The superblock states ops that a start must find in the journal.
                let synced = self.journal.sync_written();
                let written = synced
                    .map_err(|error| (StoragePart::Journal, error))
                    .and_then(|()| {
                        let written = self.superblock.write(&image);
                        written.map_err(|error| (StoragePart::Superblock, error))
                    });
                let event = match written {
                    Ok(()) => {
                        self.journal.record_log(RecordedLog::of(&image));
                        Event::SuperblockWritten { token }
                    }
                    Err((part, error)) => self.failed(part, &error),
                };
                done.push(event);
                self.shared.storage(|storage| storage.superblocks += 1);
            }
            JournalJob::Collect { below_op } => {
                if let Err(error) = self.journal.remove_files_below(below_op) {
                    done.push(self.failed(StoragePart::Journal, &error));
                }
                let files = self.journal.file_count();
                self.shared.storage(|storage| storage.journal_files = files);
            }
        }
    }

    fn failed(&mut self, what: StoragePart, error: &std::io::Error) -> Event {
        self.has_failed = true;
        Event::StorageError(StorageError {
            part: what,
            errno: error.raw_os_error().unwrap_or(0),
        })
    }
}

fn waiting(appends: Vec<(u64, Vec<PrepareFrame>)>) -> impl Iterator<Item = JournalJob> {
    appends
        .into_iter()
        .map(|(token, frames)| JournalJob::Append { token, frames })
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).expect("far less than centuries")
}

/// Writer on this thread, or access to the one on another thread.
#[derive(Debug)]
pub(crate) enum JournalWriter {
    Inline {
        writer: Box<Writer>,
        /// Jobs not carried out yet: those of one turn share a sync.
        waiting: Vec<JournalJob>,
        /// Time before which jobs that wait for space are not retried.
        retry_at_ns: Option<u64>,
        seal_due_ns: Option<u64>,
    },
    Thread {
        jobs: mpsc::Sender<JournalJob>,
        unsynced: Arc<AtomicU64>,
        thread: Option<JoinHandle<()>>,
    },
}

impl JournalWriter {
    /// Create the side for the replica's thread, and a separate writer unless the replica is alone.
    pub(crate) fn new(
        writer: Writer,
        is_alone: bool,
        report: impl Fn(Input) + Send + 'static,
    ) -> (Self, Option<WriterThread>) {
        if is_alone {
            return (Self::here(writer), None);
        }
        let (side, apart) = Self::separate(writer, report);
        (side, Some(apart))
    }

    fn here(writer: Writer) -> Self {
        Self::Inline {
            writer: Box::new(writer),
            waiting: Vec::new(),
            retry_at_ns: None,
            seal_due_ns: None,
        }
    }

    /// Create a separate writer, to be started on a thread or run step by step.
    fn separate(writer: Writer, report: impl Fn(Input) + Send + 'static) -> (Self, WriterThread) {
        let (jobs, received) = mpsc::channel();
        let unsynced = Arc::new(AtomicU64::new(0));
        let apart = WriterThread {
            writer,
            jobs: received,
            batch: Vec::new(),
            appends: 0,
            stops: false,
            unsynced: Arc::clone(&unsynced),
            report: Box::new(report),
        };
        let side = Self::Thread {
            jobs,
            unsynced,
            thread: None,
        };
        (side, apart)
    }

    /// Start the writer on a thread.
    pub(crate) fn start(&mut self, apart: WriterThread) -> Result<(), StartError> {
        let directory = apart.writer.journal.directory().clone();
        let started = thread::Builder::new()
            .name("metadata-journal".to_owned())
            .spawn(move || apart.run())
            .map_err(|source| {
                StartError::storage("start a thread for", directory.path(), source)
            })?;
        if let Self::Thread { thread, .. } = self {
            *thread = Some(started);
        }
        Ok(())
    }

    /// Submit a job; jobs are carried out in order.
    pub(crate) fn submit(&mut self, job: JournalJob) {
        match self {
            Self::Inline { waiting, .. } => waiting.push(job),
            Self::Thread { jobs, unsynced, .. } => {
                if matches!(job, JournalJob::Append { .. }) {
                    unsynced.fetch_add(1, Ordering::AcqRel);
                }
                // A writer that has ended has reported the reason.
                let _ = jobs.send(job);
            }
        }
    }

    /// Carry out the waiting jobs, unless a separate writer does.
    pub(crate) fn carry_out_waiting(&mut self, machine: &dyn Machine, done: &mut Vec<Event>) {
        let Self::Inline {
            writer,
            waiting,
            retry_at_ns,
            seal_due_ns,
        } = self
        else {
            return;
        };
        if waiting.is_empty()
            || retry_at_ns.is_some_and(|at_ns| machine.clock().monotonic_ns < at_ns)
        {
            return;
        }
        *waiting = writer.carry_out(std::mem::take(waiting), done);
        let now_ns = machine.clock().monotonic_ns;
        *retry_at_ns = (!waiting.is_empty()).then(|| now_ns + nanoseconds(FULL_RETRY));
        *seal_due_ns = writer.journal.wants_seal().then(|| now_ns + SEAL_AFTER_NS);
    }

    /// Return whether a submitted append is not durable yet.
    pub(crate) fn has_unsynced(&self) -> bool {
        match self {
            Self::Inline { waiting, .. } => !waiting.is_empty(),
            Self::Thread { unsynced, .. } => unsynced.load(Ordering::Acquire) > 0,
        }
    }

    /// Monotonic time at which [`settle`](Self::settle) or [`seal_if_due`](Self::seal_if_due) has work.
    pub(crate) fn due_ns(&self) -> Option<u64> {
        match self {
            Self::Inline {
                retry_at_ns,
                seal_due_ns,
                ..
            } => retry_at_ns.iter().chain(seal_due_ns).min().copied(),
            Self::Thread { .. } => None,
        }
    }

    /// Write a seal that records the entire journal as durable, after an idle period.
    pub(crate) fn seal_if_due(&mut self, now_ns: u64) {
        if let Self::Inline {
            writer,
            seal_due_ns,
            ..
        } = self
            && seal_due_ns.is_some_and(|due_ns| now_ns >= due_ns)
        {
            writer.journal.seal();
            // A seal that finds no space waits for it.
            *seal_due_ns = writer
                .journal
                .wants_seal()
                .then(|| now_ns + nanoseconds(FULL_RETRY));
        }
    }

    /// Stop the writer. Jobs submitted to a thread are carried out first; jobs that wait for space were never
    /// acknowledged and are dropped.
    pub(crate) fn finish(&mut self) {
        match self {
            Self::Inline { writer, .. } => {
                seal_at_the_end(writer);
            }
            Self::Thread { jobs, thread, .. } => {
                let _ = jobs.send(JournalJob::Stop);
                if let Some(thread) = thread.take() {
                    let _ = thread.join();
                }
            }
        }
    }
}

fn seal_at_the_end(writer: &mut Writer) {
    if writer.journal.wants_seal() {
        writer.journal.seal();
    }
}

/// Writer on a separate thread, with its submitted jobs.
pub(crate) struct WriterThread {
    writer: Writer,
    jobs: mpsc::Receiver<JournalJob>,
    /// Current batch: either not attempted yet, or waiting for space.
    batch: Vec<JournalJob>,
    /// Number of appends in the batch at its start.
    appends: u64,
    /// True if no job follows the batch.
    stops: bool,
    unsynced: Arc<AtomicU64>,
    report: Box<dyn Fn(Input) + Send>,
}

impl fmt::Debug for WriterThread {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("WriterApart")
            .field("writer", &self.writer)
            .finish_non_exhaustive()
    }
}

impl WriterThread {
    fn run(mut self) {
        loop {
            if !self.batch.is_empty() {
                if self.writer.disk.is_closing() {
                    // The batch was never acknowledged.
                    return;
                }
                thread::sleep(FULL_RETRY);
            } else if self.wants_seal() {
                // A seal that finds no space waits for it.
                let idle = if self.writer.disk.is_full() {
                    FULL_RETRY
                } else {
                    Duration::from_nanos(SEAL_AFTER_NS)
                };
                match self.jobs.recv_timeout(idle) {
                    Ok(job) => self.begin(job),
                    Err(mpsc::RecvTimeoutError::Timeout) => {
                        self.seal();
                        continue;
                    }
                    Err(mpsc::RecvTimeoutError::Disconnected) => return,
                }
            } else {
                match self.jobs.recv() {
                    Ok(job) => self.begin(job),
                    Err(mpsc::RecvError) => return,
                }
            }
            if self.step() {
                return;
            }
        }
    }

    /// Start a batch of all submitted jobs, whose appends share a sync.
    fn begin(&mut self, first: JournalJob) {
        self.batch.push(first);
        self.batch.extend(self.jobs.try_iter());
        let stop = |job: &JournalJob| matches!(job, JournalJob::Stop);
        if let Some(stop) = self.batch.iter().position(stop) {
            self.stops = true;
            self.batch.truncate(stop);
        }
        let is_append = |job: &&JournalJob| matches!(job, JournalJob::Append { .. });
        self.appends = self.batch.iter().filter(is_append).count() as u64;
    }

    /// Return whether there is a job. Jobs that wait for space count.
    pub(crate) fn has_jobs(&mut self) -> bool {
        if self.batch.is_empty()
            && !self.stops
            && let Ok(first) = self.jobs.try_recv()
        {
            self.begin(first);
        }
        !self.batch.is_empty()
    }

    /// Carry out the batch, as far as there is space. Returns whether the writer has ended.
    pub(crate) fn step(&mut self) -> bool {
        let was_full = self.writer.disk.is_full();
        let mut done = Vec::new();
        self.batch = self
            .writer
            .carry_out(std::mem::take(&mut self.batch), &mut done);
        for event in done {
            (self.report)(Input::Done(event));
        }
        self.report_space(was_full);
        if !self.batch.is_empty() {
            return false;
        }
        let appends = std::mem::take(&mut self.appends);
        // Appends that a failure dropped never become durable: without them this replica must not count as complete.
        if !self.writer.has_failed {
            self.unsynced.fetch_sub(appends, Ordering::AcqRel);
        }
        if self.stops {
            seal_at_the_end(&mut self.writer);
        }
        self.stops
    }

    /// Carry out the batch and all submitted jobs, as far as there is space.
    pub(crate) fn finish(&mut self) {
        while self.has_jobs() && !self.step() && self.batch.is_empty() {}
        if self.batch.is_empty() {
            self.step();
        }
    }

    /// Return whether a seal is needed, because no head states yet that the entire journal is durable.
    pub(crate) fn wants_seal(&self) -> bool {
        self.writer.journal.wants_seal()
    }

    /// Write a seal, if there are no jobs.
    pub(crate) fn seal(&mut self) {
        let was_full = self.writer.disk.is_full();
        self.writer.journal.seal();
        self.report_space(was_full);
    }

    fn report_space(&self, was_full: bool) {
        if was_full != self.writer.disk.is_full() {
            (self.report)(Input::DiskChanged);
        }
    }
}

#[cfg(test)]
mod tests;
