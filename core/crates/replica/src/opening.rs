//! Opening of a replica: from its settings and data directory to a running replica.

use std::{
    path::Path,
    sync::{Arc, mpsc},
};

use headrace_model::Level;
use headrace_vsr::{
    api::{Config, Output},
    clocks::Agreement,
    frame::{Intake, METADATA_GROUP, Origin, Release},
    neighbours::Pings,
    quorum::Quorums,
    replica::{OpenError, Replica as Core},
    rules::Standard,
    superblock::Superblock,
    timeouts::{Profile, Timeouts},
};

use crate::{
    config::{ReplicaConfig, TimeoutProfile},
    errors::{REPLACE_DATA_DIRECTORY, StartError},
    events::ReplicaEvent,
    handle::{COMMAND_BYTES_MAX, Started},
    input::Input,
    mailbox::Mailbox,
    neighbours::{PingState, SystemMachine},
    peers::{DialResult, Peers},
    rejoin, release,
    sessions::Sessions,
    shared::Shared,
    status::{ClockStatus, ReplicaStatus},
    storage::{
        Checkpoints, DataDirectory, Disk, FileWorker, FileWorkerHandle, Image, ImageDigest,
        Journal, JournalContext, JournalWriter, MachineFiles, Scanned, SuperblockFile, Writer,
        WriterThread, clear_unlisted, create_journal_list, has_files, scan,
    },
    surroundings::{Environment, Machine, OpenMode},
    thread::{ReplicaThread, Work},
};

/// Maximum size of a frame in bytes: a command with the table of its batch, or a chunk of a checkpoint.
pub(crate) const MESSAGE_BYTES_MAX: u32 = 2 * 1024 * 1024;
/// Maximum number of queued proposals while earlier ones are replicated. Proposals above the limit are refused as
/// `busy`.
const REQUEST_QUEUE_MAX: usize = 8192;
/// Maximum size of a batch in bytes, and of a single command.
const BATCH_BYTES_MAX: usize = COMMAND_BYTES_MAX;
const BATCH_REQUESTS_MAX: usize = 256;
/// Bytes of commands that wait for the disk of a backup: a few seconds of a fast group.
const UNSTORED_BYTES_MAX: u64 = 64 * 1024 * 1024;
const CLIENTS_MAX: usize = 8192;
const CHUNK_BYTES: u32 = 1024 * 1024;
const _: () = assert!(COMMAND_BYTES_MAX + 4096 < MESSAGE_BYTES_MAX as usize);

/// Mailboxes between a replica's threads and its handle.
pub(crate) struct Mailboxes {
    pub(crate) inbox: Arc<Mailbox<Input>>,
    pub(crate) outbox: Arc<Mailbox<ReplicaEvent>>,
    pub(crate) shared: Arc<Shared>,
}

/// Replica that is ready to run.
pub(crate) struct Opened {
    pub(crate) thread: ReplicaThread,
    pub(crate) outputs: Vec<Output>,
    pub(crate) started: Started,
    pub(crate) workers: Workers,
}

/// File workers beside the replica's thread.
pub(crate) struct Workers {
    /// Journal writer; `None` for a single replica, which writes on its own thread.
    pub(crate) writer: Option<WriterThread>,
    pub(crate) files: FileWorker,
}

impl Opened {
    /// Start a thread for each worker.
    pub(crate) fn start_workers(
        mut self,
    ) -> Result<(ReplicaThread, Vec<Output>, Started), StartError> {
        self.thread.files.start(self.workers.files)?;
        if let Some(writer) = self.workers.writer {
            self.thread.journal.start(writer)?;
        }
        Ok((self.thread, self.outputs, self.started))
    }
}

/// Files, sockets and clocks of this machine.
pub(crate) fn system_environment() -> Environment {
    Environment {
        files: Arc::new(MachineFiles),
        machine: Arc::new(SystemMachine),
        network: None,
    }
}

/// Status of a replica before its start.
pub(crate) fn initial_status(config: &ReplicaConfig) -> Result<ReplicaStatus, StartError> {
    Ok(ReplicaStatus {
        cluster_id: format!("{:032x}", config.cluster_id()),
        replica: config.replica,
        replicas: members(config),
        role: "stopped",
        primary: -1,
        clock: ClockStatus {
            state: Agreement::Unknown.name(),
            ..ClockStatus::default()
        },
        release: config.release()?.to_string(),
        ..ReplicaStatus::default()
    })
}

pub(crate) fn open(
    config: &ReplicaConfig,
    mailboxes: Mailboxes,
    surroundings: &Environment,
) -> Result<Opened, StartError> {
    let directory = DataDirectory::new(&config.directory, Arc::clone(&surroundings.files));
    let machine = Arc::clone(&surroundings.machine);
    let lock = directory.create_and_lock()?;
    directory
        .clear_unfinished()
        .map_err(|source| StartError::storage("clear", &config.directory, source))?;
    let release = config.release()?;
    let intake = Intake {
        cluster: config.cluster_id(),
        message_size_max: MESSAGE_BYTES_MAX,
    };
    // Refusals come first: nothing has been written, and no peer has been contacted.
    let found = open_superblock(config, &directory, release)?;
    let trust = rejoin::open(&directory)?;
    let (superblock, mended) = (found.superblock, found.rewritten_copies);
    let image = restore(&directory, &superblock)?;
    let scanned = read_journal(&directory, release, &superblock, intake)?;

    let mut outputs = Vec::new();
    let clients = image.as_ref().map(|image| image.clients.clone());
    let watch = PingState::new(create_pings(config, release, superblock.incarnation + 1));
    let core = Core::open(
        core_config(config, release, random(config, &*machine)?),
        Standard,
        superblock.clone(),
        &scanned.scan.entries,
        clients.as_deref().unwrap_or_default(),
        watch.neighbours.now(machine.clock()),
        &mut outputs,
    )
    .map_err(|error| refused_by_core(&config.directory, error))?;

    let Mailboxes {
        inbox,
        outbox,
        shared,
    } = mailboxes;
    let mut peers = open_peers(config, intake, surroundings, &inbox)?;
    let disk = Arc::new(Disk::default());
    let report = {
        let inbox = Arc::clone(&inbox);
        move |input| inbox.push(input)
    };
    let (files, file_worker) = FileWorkerHandle::new(&directory, Arc::clone(&disk), report.clone());
    let work = initial_work(&shared, &scanned, &superblock, mended, image);
    let writer = Writer {
        journal: open_journal(
            config,
            &directory,
            scanned,
            intake,
            Arc::clone(&disk),
            &files.sender(),
        )?,
        superblock: found.file,
        shared: Arc::clone(&shared),
        disk: Arc::clone(&disk),
        has_failed: false,
    };
    let (journal, writer) = JournalWriter::new(writer, config.is_single(), report);
    let started = started(config, peers.as_ref(), &superblock, core.report().op)?;
    let started_as = started.incarnation;
    shared.started(started_as);
    let process = random(config, &*machine)?;
    if let Some(peers) = &mut peers {
        let report = core.report();
        peers.set_claim(trust.claim(&report, started_as, process), report.release);
    }
    let thread = ReplicaThread {
        core,
        replica: config.replica,
        inbox,
        outbox,
        shared,
        peers,
        journal,
        file_jobs: files.sender(),
        files,
        disk,
        work,
        trust,
        watch,
        quorums: Quorums::of(members(config)).expect("the settings were checked"),
        incarnation: started_as,
        process,
        lost_replicas: config.given_up.clone(),
        sessions: Sessions::default(),
        origin: origin_of_sessions(config, release),
        directory,
        machine,
        next_peers_tick_ns: 0,
        _lock: lock,
    };
    Ok(Opened {
        thread,
        outputs,
        started,
        workers: Workers {
            writer,
            files: file_worker,
        },
    })
}

/// Result of the start.
fn started(
    config: &ReplicaConfig,
    peers: Option<&Peers>,
    superblock: &Superblock,
    head_op: u64,
) -> Result<Started, StartError> {
    let address = peers.map_or(Ok(None), Peers::address);
    Ok(Started {
        address: address
            .map_err(|source| StartError::storage("listen for", &config.directory, source))?,
        incarnation: superblock.incarnation + 1,
        checkpoint_op: superblock.checkpoint.op,
        head_op,
    })
}

/// Origin of the frames of sessions.
fn origin_of_sessions(config: &ReplicaConfig, release: Release) -> Origin {
    Origin {
        cluster: config.cluster_id(),
        group: METADATA_GROUP,
        release,
        ..Origin::default()
    }
}

/// Read the journal, unless it needs a newer release.
fn read_journal(
    directory: &DataDirectory,
    release: Release,
    superblock: &Superblock,
    intake: Intake,
) -> Result<Scanned, StartError> {
    let scanned = scan(directory, superblock, intake, OpenMode::Write)?;
    let entries = scanned.scan.entries.iter();
    let writers = entries.filter_map(|entry| Some(entry.header.as_ref()?.release));
    reject_newer_release(directory.path(), release, writers)?;
    clear_unlisted(directory, &scanned.listed())
        .map_err(|source| StartError::storage("clear", directory.path(), source))?;
    Ok(scanned)
}

fn open_peers(
    config: &ReplicaConfig,
    intake: Intake,
    surroundings: &Environment,
    inbox: &Arc<Mailbox<Input>>,
) -> Result<Option<Peers>, StartError> {
    if config.is_single() {
        return Ok(None);
    }
    let inbox = Arc::clone(inbox);
    let dialled = move |dialled: DialResult| inbox.push(Input::Dialled(dialled));
    Peers::open(config, intake, surroundings, &dialled).map(Some)
}

/// Initial work: log lines about the scan, and the state to restore.
fn initial_work(
    shared: &Shared,
    scanned: &Scanned,
    superblock: &Superblock,
    mended: usize,
    image: Option<Image>,
) -> Work {
    // Damage found at the start counts like damage found later.
    shared.count(|counters| {
        counters.faulty += scanned.scan.damaged().count() as u64;
        counters.missing += scanned.scan.missing() as u64;
        counters.mended_copies += mended as u64;
    });
    let mut work = Work::default();
    let torn = scanned.torn().map(|line| (Level::Info, line));
    let missing = scanned.missing().map(|line| (Level::Info, line));
    let faulty = scanned.faulty().map(|line| (Level::Warning, line));
    let mended = (mended > 0).then(|| {
        let line = format!(
            "{mended} of the copies of the superblock did not hold what they should, after a kill or damage, and were \
             written anew"
        );
        (Level::Info, line)
    });
    work.host_events.extend(
        torn.into_iter()
            .chain(missing)
            .chain(mended)
            .chain(faulty)
            .map(|(level, message)| ReplicaEvent::Log { level, message }),
    );
    work.host_events
        .extend(image.map(|image| ReplicaEvent::Restore {
            op: superblock.checkpoint.op,
            state: image.state,
        }));
    work
}

fn members(config: &ReplicaConfig) -> u8 {
    u8::try_from(config.replicas.len()).expect("the settings were checked: at most five")
}

/// Superblock of a data directory.
struct FoundSuperblock {
    file: SuperblockFile,
    superblock: Superblock,
    /// Number of copies that were rewritten.
    rewritten_copies: usize,
}

/// Open the superblock of the data directory, or create the first one in a new data directory.
fn open_superblock(
    config: &ReplicaConfig,
    directory: &DataDirectory,
    release: Release,
) -> Result<FoundSuperblock, StartError> {
    let members = members(config);
    let Some(opened) = SuperblockFile::read(directory)? else {
        if has_files(directory)? {
            return Err(StartError::Damaged {
                path: directory.join("superblock"),
                finding: "it is missing, and the journal is not".to_owned(),
                advice: REPLACE_DATA_DIRECTORY,
            });
        }
        let nodes = (1..=u64::from(members)).collect();
        let node = u64::from(config.replica) + 1;
        let first = Superblock::new(
            config.cluster_id(),
            METADATA_GROUP,
            node,
            config.replica,
            nodes,
            0,
        );
        // The superblock comes last: a data directory with a superblock must have a list of journal files, and its replica
        // is proven unless there is a marker.
        rejoin::mark_new(directory, config.is_single())?;
        create_journal_list(directory)?;
        let file = SuperblockFile::create(directory, &first)?;
        return Ok(FoundSuperblock {
            file,
            superblock: first,
            rewritten_copies: 0,
        });
    };
    let found = &opened.superblock;
    if found.cluster != config.cluster_id() {
        return Err(StartError::OtherCluster {
            directory: config.directory.clone(),
            cluster: config.cluster.clone(),
        });
    }
    if found.replica != config.replica || found.replica_count() != members {
        return Err(StartError::OtherReplica {
            directory: config.directory.clone(),
            found: found.replica,
            found_of: found.replica_count(),
            replica: config.replica,
            replicas: members,
        });
    }
    let headers = found.view.headers.iter().chain([&found.checkpoint.header]);
    reject_newer_release(
        directory.path(),
        release,
        headers.map(|header| header.release),
    )?;
    let file = SuperblockFile::open(directory, &opened)?;
    Ok(FoundSuperblock {
        file,
        rewritten_copies: opened.repair.len(),
        superblock: opened.superblock,
    })
}

fn reject_newer_release(
    directory: &Path,
    release: Release,
    mut writers: impl Iterator<Item = Release>,
) -> Result<(), StartError> {
    let newer = writers.find(|&writer| !release::can_open(release, writer));
    newer.map_or(Ok(()), |writer| {
        Err(StartError::NewerRelease {
            path: directory.to_owned(),
            why: format!("needs release {writer}, which is in force in its group"),
        })
    })
}

/// Read the image that the superblock names.
fn restore(
    directory: &DataDirectory,
    superblock: &Superblock,
) -> Result<Option<Image>, StartError> {
    let checkpoint = &superblock.checkpoint;
    if checkpoint.op == 0 {
        return Ok(None);
    }
    let name = ImageDigest {
        length: checkpoint.len,
        digest: checkpoint.digest,
    };
    let images = Checkpoints::new(directory);
    let path = images.path(checkpoint.op);
    match images.read(checkpoint.op, name) {
        Ok(Some(image)) => Ok(Some(image)),
        Ok(None) => Err(StartError::Damaged {
            path,
            finding: "it is missing or altered".to_owned(),
            advice: REPLACE_DATA_DIRECTORY,
        }),
        Err(source) => Err(StartError::storage("read", &path, source)),
    }
}

fn open_journal(
    config: &ReplicaConfig,
    directory: &DataDirectory,
    scanned: Scanned,
    intake: Intake,
    disk: Arc<Disk>,
    jobs: &mpsc::Sender<crate::storage::FileJob>,
) -> Result<Journal, StartError> {
    let context = JournalContext {
        directory: directory.clone(),
        file_bytes: config.journal_file_bytes,
        syncs_appends: config.sync,
        intake,
        disk,
        jobs: jobs.clone(),
    };
    scanned
        .into_journal(context)
        .map_err(|source| StartError::storage("open the journal of", &config.directory, source))
}

fn core_config(config: &ReplicaConfig, release: Release, seed: u64) -> Config {
    Config {
        cluster: config.cluster_id(),
        group: METADATA_GROUP,
        replica: config.replica,
        replica_count: members(config),
        release,
        timeouts: timeouts(config.timeouts),
        request_queue_max: REQUEST_QUEUE_MAX,
        batch_bytes_max: BATCH_BYTES_MAX,
        batch_requests_max: BATCH_REQUESTS_MAX,
        unstored_bytes_max: UNSTORED_BYTES_MAX,
        checkpoint_ops: config.checkpoint_ops,
        checkpoint_bytes: config.checkpoint_bytes,
        log_keep_ops: config.log_keep_ops,
        clients_max: CLIENTS_MAX,
        chunk_bytes: CHUNK_BYTES,
        seed,
    }
}

/// Create the ping state without knowledge of the other members.
fn create_pings(config: &ReplicaConfig, release: Release, incarnation: u64) -> Pings {
    let origin = Origin {
        cluster: config.cluster_id(),
        replica: config.replica,
        release,
        incarnation,
        ..Origin::default()
    };
    let peers = (0..members(config))
        .filter(|peer| *peer != config.replica && !config.given_up.contains(peer));
    let ping_ms = timeouts(config.timeouts).ping_ms;
    Pings::new(origin, members(config), peers.collect(), ping_ms)
}

fn random(config: &ReplicaConfig, machine: &dyn Machine) -> Result<u64, StartError> {
    let mut bytes = [0; 8];
    machine
        .random(&mut bytes)
        .map_err(|error| StartError::storage("get randomness for", &config.directory, error))?;
    Ok(u64::from_le_bytes(bytes))
}

fn timeouts(profile: TimeoutProfile) -> Timeouts {
    match profile {
        TimeoutProfile::Default => Profile::Default,
        TimeoutProfile::Seed => Profile::Seed,
        TimeoutProfile::Wan => Profile::Wan,
    }
    .timeouts()
}

fn refused_by_core(directory: &Path, error: OpenError) -> StartError {
    match error {
        OpenError::Members(_) | OpenError::Timeouts(_) | OpenError::Setting(_) => {
            StartError::Settings(error.to_string())
        }
        OpenError::Identity | OpenError::Superblock => StartError::Damaged {
            path: directory.join("superblock"),
            finding: error.to_string(),
            advice: REPLACE_DATA_DIRECTORY,
        },
        OpenError::Release { needed, .. } => StartError::NewerRelease {
            path: directory.to_owned(),
            why: format!("needs release {needed}, which is in force in its group"),
        },
        OpenError::Clients | OpenError::Damaged { .. } => StartError::Damaged {
            path: directory.to_owned(),
            finding: error.to_string(),
            advice: REPLACE_DATA_DIRECTORY,
        },
    }
}
