//! Scrub: the files of partitions are read again at a low rate, and every checksum is compared (LOG-21).
//!
//! Consumers read new messages, so damage of old ones would stay unknown until the copies elsewhere are gone as well.
//! One thread of the process reads, one request at a time, past the page cache and at the lowest priority. It opens the
//! files itself and shares nothing with the shards. Nothing is changed: what is found is reported, and kept with the
//! position of the pass in `scrub.json`.

mod reading;
mod schedule;

use std::{
    fs, io,
    path::{Path, PathBuf},
    rc::Rc,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use headrace_model::{Level, Namespace, PartitionId, StreamId, TopicId};

use self::{
    reading::{Paced, Stop},
    schedule::{Damage, Part, Progress, Schedule},
};
use crate::{
    events::Events,
    fsck::{
        Finding, FindingKind,
        units::{LivePartition, Unit},
    },
    storage::{partition_directory, replace_file},
};

/// File with the progress, in the data directory.
const PROGRESS: &str = "scrub.json";
/// Time between two checks of a part that looks damaged: it may have been written meanwhile.
const CONFIRM_AFTER: Duration = Duration::from_secs(2);
/// Minimum time between two records of the progress.
const SAVE_INTERVAL: Duration = Duration::from_secs(10);
/// Maximum time until known damage is forgotten whose files are gone.
const LOOK_INTERVAL: Duration = Duration::from_secs(30);

/// Settings of a scrub.
#[derive(Debug, Clone)]
pub(crate) struct ScrubConfig {
    pub(crate) data_path: PathBuf,
    /// Identity of the catalog, 0 if it has none.
    pub(crate) catalog: u128,
    pub(crate) bytes_per_second: u64,
    /// Time from the beginning of a pass to that of the next one.
    pub(crate) interval: Duration,
}

/// Report of a scrub.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct ScrubReport {
    /// Number of bytes read since the start.
    pub bytes: u64,
    /// Number of places that are known to be damaged, missing or another partition's; at most 1000.
    pub damaged_places: u64,
    /// Time at which the last whole pass ended, in seconds since 1970; 0: never.
    pub pass_ended_seconds: u64,
}

#[derive(Default)]
struct Shared {
    stop: Stop,
    bytes: AtomicU64,
    damaged_places: AtomicU64,
    pass_ended_seconds: AtomicU64,
}

/// A running scrub.
pub(crate) struct Scrub {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Scrub {
    /// Start the thread.
    pub(crate) fn start(config: ScrubConfig, events: Events) -> io::Result<Self> {
        let shared = Arc::<Shared>::default();
        let parts = Arc::clone(&shared);
        let run = move || {
            lower_priority();
            // The only error is the request to stop.
            let _ = Pass::new(&config, &events, &parts).run();
        };
        let thread = thread::Builder::new().name("scrub".to_owned()).spawn(run)?;
        Ok(Self {
            shared,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Stop; returns when no file is open any more.
    pub(crate) fn stop(&self) {
        self.shared.stop.request();
        let thread = self
            .thread
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(thread) = thread {
            // A panic of this thread harms nothing else.
            let _ = thread.join();
        }
    }

    pub(crate) fn report(&self) -> ScrubReport {
        let read = |value: &AtomicU64| value.load(Ordering::Relaxed);
        ScrubReport {
            bytes: read(&self.shared.bytes),
            damaged_places: read(&self.shared.damaged_places),
            pass_ended_seconds: read(&self.shared.pass_ended_seconds),
        }
    }
}

impl Drop for Scrub {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Let all other work of the machine go first. Failures are ignored: the rate bounds what the scrub takes.
fn lower_priority() {
    // Numbers of `ioprio_set`: one thread, and the class that gets what nothing else wants.
    const THREAD: libc::c_int = 1;
    const IDLE: libc::c_int = 3 << 13;
    let thread = rustix::thread::gettid();
    let _ = rustix::process::setpriority_process(Some(thread), 19);
    // SAFETY: the call takes numbers alone, and changes the priority of this thread's reads and writes.
    let _ = unsafe { libc::syscall(libc::SYS_ioprio_set, THREAD, 0, IDLE) };
}

struct Stopped;

/// The thread's state.
struct Pass<'a> {
    config: &'a ScrubConfig,
    events: &'a Events,
    shared: &'a Shared,
    schedule: Schedule,
    reading: Rc<Paced<'a>>,
    saved: Instant,
    looked: Instant,
    has_failed_to_save: bool,
}

impl<'a> Pass<'a> {
    fn new(config: &'a ScrubConfig, events: &'a Events, shared: &'a Shared) -> Self {
        let kept = fs::read(config.data_path.join(PROGRESS));
        // What cannot be read is not missed: the next pass finds it again.
        let progress: Option<Progress> = kept
            .ok()
            .and_then(|contents| serde_json::from_slice(&contents).ok());
        let schedule = Schedule::new(config.interval.as_secs(), progress.unwrap_or_default());
        let pass = Self {
            config,
            events,
            shared,
            schedule,
            reading: Rc::new(Paced::new(
                &shared.stop,
                config.bytes_per_second,
                &shared.bytes,
            )),
            saved: Instant::now(),
            looked: Instant::now(),
            has_failed_to_save: false,
        };
        pass.publish();
        pass
    }

    fn run(mut self) -> Result<(), Stopped> {
        // What was repaired while the server was stopped is not damage any more.
        for part in self.schedule.damaged_parts() {
            let found = self.findings_now(part)?;
            self.judge(part, found)?;
        }
        loop {
            while let Err(seconds) = self.schedule.begin(now_seconds()) {
                self.wait(Duration::from_secs(seconds).min(LOOK_INTERVAL))?;
                self.look();
            }
            for namespace in partitions_below(&self.config.data_path) {
                if self.schedule.may_want(namespace) {
                    self.check_partition(namespace)?;
                }
            }
            self.schedule.end(now_seconds());
            self.publish();
            self.save();
        }
    }

    fn wait(&self, time: Duration) -> Result<(), Stopped> {
        if self.shared.stop.waited(time) {
            Ok(())
        } else {
            Err(Stopped)
        }
    }

    fn check_partition(&mut self, namespace: Namespace) -> Result<(), Stopped> {
        let whole = Part {
            namespace,
            unit: Unit::Companions,
        };
        // The partition reads as this does, and lives as long as the loop.
        let reading = Rc::clone(&self.reading);
        let (directory, identity) = self.place(namespace);
        let mut partition = match LivePartition::open(&directory, identity, &*reading) {
            Ok(partition) => partition,
            Err(error) => {
                let found = self.failed(whole, &error)?;
                return self.judge(whole, found);
            }
        };
        for unit in partition.units() {
            let part = Part { namespace, unit };
            if !self.schedule.wants(part) {
                continue;
            }
            let found = match partition.check(unit) {
                Ok(found) => found,
                Err(error) => self.failed(part, &error)?,
            };
            self.judge(part, found)?;
            self.schedule.passed(part);
            if self.saved.elapsed() >= SAVE_INTERVAL {
                self.save();
            }
            if self.looked.elapsed() >= LOOK_INTERVAL {
                self.look();
            }
        }
        Ok(())
    }

    fn place(&self, namespace: Namespace) -> (PathBuf, (Namespace, u128)) {
        let directory = self.config.data_path.join(partition_directory(namespace));
        (directory, (namespace, self.config.catalog))
    }

    /// Report what a check has found in a part, if a later one finds it too and it is new.
    fn judge(&mut self, part: Part, mut found: Vec<Finding>) -> Result<(), Stopped> {
        if !found.is_empty() {
            self.wait(CONFIRM_AFTER)?;
            let again = self.findings_now(part)?;
            let key = |finding: &Finding| (finding.file.clone(), finding.kind, finding.position);
            let again: Vec<_> = again.iter().map(key).collect();
            found.retain(|finding| again.contains(&key(finding)));
        }
        let path = partition_directory(part.namespace);
        let damage = |finding: Finding| {
            let path = path.join(&finding.file).display().to_string();
            self.schedule.damage(part, path, finding)
        };
        let found: Vec<Damage> = found.into_iter().map(damage).collect();
        let new = self.schedule.found(part, found);
        for damage in &new {
            let position = damage.position.map(|position| format!(" at {position}"));
            let offset = damage
                .offset
                .map(|offset| format!(", from offset {offset}"));
            self.events.push(
                Level::Error,
                format!(
                    "scrub: {}{}{}: {}; nothing was changed, and `headrace fsck` names everything while the server is \
                     stopped",
                    damage.path,
                    position.unwrap_or_default(),
                    offset.unwrap_or_default(),
                    damage.explanation
                ),
            );
        }
        self.publish();
        if !new.is_empty() {
            self.save();
        }
        Ok(())
    }

    /// Check a part of a partition as it is now.
    fn findings_now(&self, part: Part) -> Result<Vec<Finding>, Stopped> {
        let (directory, identity) = self.place(part.namespace);
        let checked = LivePartition::open(&directory, identity, &*self.reading)
            .and_then(|mut partition| partition.check(part.unit));
        match checked {
            Ok(found) => Ok(found),
            Err(error) => self.failed(part, &error),
        }
    }

    /// Return the findings about a part whose check has failed.
    fn failed(&self, part: Part, error: &io::Error) -> Result<Vec<Finding>, Stopped> {
        match error.kind() {
            io::ErrorKind::Interrupted => Err(Stopped),
            // It was removed meanwhile.
            io::ErrorKind::NotFound => Ok(Vec::new()),
            _ if is_of_the_device(error) => Ok(vec![unreadable(part, error)]),
            _ => {
                let message = format!(
                    "scrub: files of partition {} are left out of this pass: {error}",
                    part.namespace
                );
                self.events.push(Level::Warning, message);
                Ok(Vec::new())
            }
        }
    }

    /// Forget damage of files that are gone.
    fn look(&mut self) {
        self.looked = Instant::now();
        let data = &self.config.data_path;
        let is_there = |damage: &mut Damage| {
            let path = data.join(&damage.path);
            match damage.kind {
                FindingKind::Missing => path.parent().is_some_and(Path::exists),
                _ => path.exists(),
            }
        };
        let damage = &mut self.schedule.progress.damage;
        let before = damage.len();
        damage.retain_mut(is_there);
        if damage.len() != before {
            self.publish();
            self.save();
        }
    }

    fn publish(&self) {
        let damage = self.schedule.progress.damage.len() as u64;
        self.shared.damaged_places.store(damage, Ordering::Relaxed);
        let ended = self.schedule.ended().unwrap_or(0);
        self.shared
            .pass_ended_seconds
            .store(ended, Ordering::Relaxed);
    }

    fn save(&mut self) {
        self.saved = Instant::now();
        let saved = serde_json::to_vec(&self.schedule.progress)
            .map_err(io::Error::other)
            .and_then(|contents| replace_file(&self.config.data_path.join(PROGRESS), &contents));
        if let Err(error) = saved
            && !self.has_failed_to_save
        {
            self.has_failed_to_save = true;
            let message = format!("scrub: {PROGRESS} cannot be written: {error}");
            self.events.push(Level::Warning, message);
        }
    }
}

/// Return whether the device or the file system cannot read what it has stored.
fn is_of_the_device(error: &io::Error) -> bool {
    use libc::{EBADMSG, EILSEQ, EIO, ENODATA, EREMOTEIO, EUCLEAN};
    matches!(
        error.raw_os_error(),
        Some(EBADMSG | EILSEQ | EIO | ENODATA | EREMOTEIO | EUCLEAN)
    )
}

fn unreadable(part: Part, error: &io::Error) -> Finding {
    Finding {
        file: match part.unit {
            Unit::Companions => "partition.json".to_owned(),
            Unit::Segment(base) => headrace_log::storage::FileName::Log(base).to_string(),
        },
        kind: FindingKind::Damaged,
        position: None,
        bytes: None,
        offset: None,
        messages_count: None,
        repaired: false,
        explanation: format!("it cannot be read: {error}"),
    }
}

/// List the partitions that have a directory, ascending.
fn partitions_below(data: &Path) -> Vec<Namespace> {
    let mut found = Vec::new();
    for (stream, path) in numbered(&data.join("streams")) {
        for (topic, path) in numbered(&path.join("topics")) {
            for (partition, _) in numbered(&path.join("partitions")) {
                let ids = (StreamId(stream), TopicId(topic), PartitionId(partition));
                found.extend(Namespace::new(ids.0, ids.1, ids.2).ok());
            }
        }
    }
    found.sort_unstable();
    found
}

/// List the directories that are named by a number. One that is being removed has none.
fn numbered(directory: &Path) -> Vec<(u32, PathBuf)> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let named = |entry: fs::DirEntry| {
        let number = entry.file_name().to_str()?.parse().ok()?;
        Some((number, entry.path()))
    };
    entries.filter_map(named).collect()
}

fn now_seconds() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}
