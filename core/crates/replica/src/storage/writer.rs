//! What has to be written in order: the journal and the superblock.
//!
//! A replica that is alone writes on its own thread: it has nothing else to do meanwhile, and saves two hand-overs for
//! each command. With peers a thread of its own writes, so that heartbeats go on while the disk works.

use std::{
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
    superblock::Superblock,
};

use super::{background::Disk, journal::Journal, superblock_file::SuperblockFile};
use crate::{errors::StartError, input::Input, shared::Shared, thread::clock};

/// After this long without a write the journal notes that all of it is durable.
const SEAL_AFTER_NS: u64 = 10_000_000;
/// How often an append is tried again for which there is no space.
const FULL_RETRY: Duration = Duration::from_millis(50);
/// Bytes of frames that one sync may cover: those behind them wait for the next.
const GROUP_BYTES_MAX: usize = 4 * 1024 * 1024;

/// What to do.
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
    /// Records below are not needed any more.
    Collect {
        below_op: u64,
    },
    Stop,
}

/// Carries out jobs in order.
#[derive(Debug)]
pub(crate) struct Writer {
    pub(crate) journal: Journal,
    pub(crate) superblock: SuperblockFile,
    pub(crate) shared: Arc<Shared>,
    pub(crate) disk: Arc<Disk>,
    /// Something was not carried out: nothing is any more, because it would have to happen after that. The core, which
    /// is told, halts.
    pub(crate) has_failed: bool,
}

impl Writer {
    /// Do these jobs; appends that follow each other share a sync. Returns those that have to wait for space.
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
                // What follows happens after it, if ever.
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

    /// One group commit; `false` when there is no space for it.
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
                let event = match self.superblock.write(&image) {
                    Ok(()) => {
                        self.journal.recorded(image.log_view);
                        Event::SuperblockWritten { token }
                    }
                    Err(error) => self.failed(StoragePart::Superblock, &error),
                };
                done.push(event);
                self.shared.storage(|storage| storage.superblocks += 1);
            }
            JournalJob::Collect { below_op } => {
                if let Err(error) = self.journal.collect(below_op) {
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
            what,
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

/// The writer, here or on its thread.
#[derive(Debug)]
pub(crate) enum JournalSide {
    Here {
        writer: Box<Writer>,
        /// Not carried out yet: what one turn wants shares a sync.
        waiting: Vec<JournalJob>,
        /// There is no space for what waits: not before then.
        retry_at_ns: Option<u64>,
        seal_due_ns: Option<u64>,
    },
    Thread {
        jobs: mpsc::Sender<JournalJob>,
        unsynced: Arc<AtomicU64>,
        thread: Option<JoinHandle<()>>,
    },
}

impl JournalSide {
    pub(crate) fn here(writer: Writer) -> Self {
        Self::Here {
            writer: Box::new(writer),
            waiting: Vec::new(),
            retry_at_ns: None,
            seal_due_ns: None,
        }
    }

    pub(crate) fn thread(
        writer: Writer,
        tell: impl Fn(Input) + Send + 'static,
    ) -> Result<Self, StartError> {
        let (jobs, received) = mpsc::channel();
        let unsynced = Arc::new(AtomicU64::new(0));
        let folder = writer.journal.folder().to_owned();
        let counted = Arc::clone(&unsynced);
        let thread = thread::Builder::new()
            .name("metadata-journal".to_owned())
            .spawn(move || write_until_told(writer, &received, &counted, &tell))
            .map_err(|source| StartError::storage("start a thread for", &folder, source))?;
        Ok(Self::Thread {
            jobs,
            unsynced,
            thread: Some(thread),
        })
    }

    /// Have something done, in order.
    pub(crate) fn submit(&mut self, job: JournalJob) {
        match self {
            Self::Here { waiting, .. } => waiting.push(job),
            Self::Thread { jobs, unsynced, .. } => {
                if matches!(job, JournalJob::Append { .. }) {
                    unsynced.fetch_add(1, Ordering::AcqRel);
                }
                // When it is gone it has said why.
                let _ = jobs.send(job);
            }
        }
    }

    /// Carry out what waits, if it is not done elsewhere.
    pub(crate) fn settle(&mut self, done: &mut Vec<Event>) {
        let Self::Here {
            writer,
            waiting,
            retry_at_ns,
            seal_due_ns,
        } = self
        else {
            return;
        };
        if waiting.is_empty() || retry_at_ns.is_some_and(|at_ns| clock().monotonic_ns < at_ns) {
            return;
        }
        *waiting = writer.carry_out(std::mem::take(waiting), done);
        let now_ns = clock().monotonic_ns;
        *retry_at_ns = (!waiting.is_empty()).then(|| now_ns + nanoseconds(FULL_RETRY));
        *seal_due_ns = writer.journal.wants_seal().then(|| now_ns + SEAL_AFTER_NS);
    }

    /// Whether something was handed over that is not durable yet.
    pub(crate) fn has_unsynced(&self) -> bool {
        match self {
            Self::Here { waiting, .. } => !waiting.is_empty(),
            Self::Thread { unsynced, .. } => unsynced.load(Ordering::Acquire) > 0,
        }
    }

    /// When [`settle`](Self::settle) or [`seal_if_due`](Self::seal_if_due) has something to do.
    pub(crate) fn due_ns(&self) -> Option<u64> {
        match self {
            Self::Here {
                retry_at_ns,
                seal_due_ns,
                ..
            } => retry_at_ns.iter().chain(seal_due_ns).min().copied(),
            Self::Thread { .. } => None,
        }
    }

    /// Note in the journal that all of it is durable, once nothing was written for a while.
    pub(crate) fn seal_if_due(&mut self, now_ns: u64) {
        if let Self::Here {
            writer,
            seal_due_ns,
            ..
        } = self
            && seal_due_ns.is_some_and(|due_ns| now_ns >= due_ns)
        {
            *seal_due_ns = None;
            writer.journal.seal();
        }
    }

    /// End. What was handed to a thread is carried out before; what waits for space was promised to nobody, and is left.
    pub(crate) fn finish(&mut self) {
        match self {
            Self::Here { writer, .. } => {
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

fn write_until_told(
    mut writer: Writer,
    jobs: &mpsc::Receiver<JournalJob>,
    unsynced: &AtomicU64,
    tell: &impl Fn(Input),
) {
    let mut done = Vec::new();
    loop {
        let first = if writer.journal.wants_seal() {
            match jobs.recv_timeout(Duration::from_nanos(SEAL_AFTER_NS)) {
                Ok(job) => job,
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    writer.journal.seal();
                    continue;
                }
                Err(mpsc::RecvTimeoutError::Disconnected) => return,
            }
        } else {
            match jobs.recv() {
                Ok(job) => job,
                Err(mpsc::RecvError) => return,
            }
        };
        // Whatever came while the disk worked shares the next sync.
        let mut batch = vec![first];
        batch.extend(jobs.try_iter());
        let stop = batch.iter().position(|job| matches!(job, JournalJob::Stop));
        batch.truncate(stop.unwrap_or(batch.len()));
        let appends = batch
            .iter()
            .filter(|job| matches!(job, JournalJob::Append { .. }))
            .count();
        while !batch.is_empty() {
            let was_full = writer.disk.is_full();
            batch = writer.carry_out(batch, &mut done);
            for event in done.drain(..) {
                tell(Input::Done(event));
            }
            if was_full != writer.disk.is_full() {
                tell(Input::DiskChanged);
            }
            if batch.is_empty() {
                break;
            }
            if writer.disk.is_closing() {
                // Nothing of it was promised.
                return;
            }
            thread::sleep(FULL_RETRY);
        }
        unsynced.fetch_sub(appends as u64, Ordering::AcqRel);
        if stop.is_some() {
            seal_at_the_end(&mut writer);
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use headrace_buffer::Slice;
    use headrace_vsr::frame::{
        Frame, FrameFlags, Intake, Operation, Origin, Release, area::Prepare,
    };

    use super::*;
    use crate::{
        config::ReplicaConfig,
        opening::first_status,
        storage::journal::{JournalContext, JournalFile},
    };

    fn prepare(op: u64) -> PrepareFrame {
        let origin = Origin {
            cluster: 7,
            group: 1,
            view: 0,
            epoch: 0,
            replica: 0,
            release: Release::new(0, 1, 0),
            flags: FrameFlags::default(),
            incarnation: 1,
        };
        let area = Prepare {
            op,
            commit: op - 1,
            count: 1,
            operation: Operation::METADATA_FIRST,
            ..Prepare::default()
        };
        let frame = Frame::seal(origin, area.into(), Slice::from_vec(b"command".to_vec()));
        frame.into_prepare().expect("it is one")
    }

    /// A writer whose journal file cannot be written to.
    fn broken(folder: &std::path::Path, superblock: &Superblock) -> Writer {
        let config: ReplicaConfig = serde_json::from_value(serde_json::json!({
            "folder": folder, "cluster": "c", "replica": 0, "replicas": [],
        }))
        .unwrap();
        let path = folder.join("journal");
        fs::write(&path, vec![0; 1 << 20]).unwrap();
        let file = JournalFile {
            number: 1,
            file: fs::File::open(path).unwrap(),
            bytes: 1 << 20,
            places: Vec::new(),
        };
        let disk = Arc::new(Disk::default());
        let context = JournalContext {
            folder: folder.to_owned(),
            file_bytes: 1 << 20,
            sync: true,
            intake: Intake {
                cluster: 7,
                message_size_max: 1 << 20,
            },
            disk: Arc::clone(&disk),
            jobs: mpsc::channel().0,
        };
        Writer {
            journal: Journal::new(context, vec![file], 0, 0, 0),
            superblock: SuperblockFile::create(folder, superblock, true).unwrap(),
            shared: Arc::new(Shared::new(first_status(&config).unwrap())),
            disk,
            has_failed: false,
        }
    }

    /// CTL-5.
    #[test]
    fn what_follows_a_failed_append_does_not_happen() {
        let folder = tempfile::tempdir().unwrap();
        let first = Superblock::new(7, 1, 1, 0, vec![1], 0);
        let mut next = first.clone();
        next.sequence += 1;
        next.parent = first.checksum();
        let mut writer = broken(folder.path(), &first);
        let superblock = |token| JournalJob::Superblock {
            token,
            image: Box::new(next.clone()),
        };
        let append = JournalJob::Append {
            token: 1,
            frames: vec![prepare(1)],
        };
        let mut done = Vec::new();
        // In the same batch, and in the next.
        for jobs in [vec![append, superblock(2)], vec![superblock(3)]] {
            assert!(writer.carry_out(jobs, &mut done).is_empty());
        }
        assert!(
            matches!(done[..], [Event::StorageError(_)]),
            "what happened: {done:?}"
        );
        let kept = SuperblockFile::read(folder.path()).unwrap().unwrap();
        assert_eq!(kept.superblock, first);
    }
}
