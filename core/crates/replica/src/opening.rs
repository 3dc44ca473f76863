//! From settings and a folder to a replica that runs.

use std::{
    path::Path,
    sync::{Arc, mpsc},
};

use headrace_model::Level;
use headrace_vsr::{
    api::{Config, Output},
    frame::{Intake, METADATA_GROUP, Origin, Release},
    quorum::Quorums,
    replica::{OpenError, Replica as Core},
    rules::Standard,
    superblock::Superblock,
    timeouts::{Profile, Timeouts},
};

use crate::{
    config::{ReplicaConfig, TimeoutProfile},
    errors::StartError,
    events::ReplicaEvent,
    handle::{COMMAND_BYTES_MAX, Started},
    input::Input,
    mailbox::Mailbox,
    peers::{Dialled, Peers},
    rejoin::Trust,
    release,
    sessions::Sessions,
    shared::Shared,
    status::ReplicaStatus,
    storage::{
        Background, Checkpoints, Disk, FolderLock, Image, ImageName, Journal, JournalContext,
        JournalSide, Scanned, SuperblockFile, Writer, clear_unfinished, clear_unlisted,
        create_journal_list, has_files, scan,
    },
    thread::{ReplicaThread, Work, clock},
};

/// The largest frame: a command with the table of its batch, a chunk of a checkpoint.
pub(crate) const MESSAGE_BYTES_MAX: u32 = 2 * 1024 * 1024;
/// Proposals that wait while earlier ones are replicated. Above it they are refused as `busy`.
const REQUEST_QUEUE_MAX: usize = 8192;
/// Also the largest command.
const BATCH_BYTES_MAX: usize = COMMAND_BYTES_MAX;
const BATCH_REQUESTS_MAX: usize = 256;
const CLIENTS_MAX: usize = 8192;
const CHUNK_BYTES: u32 = 1024 * 1024;
const _: () = assert!(COMMAND_BYTES_MAX + 4096 < MESSAGE_BYTES_MAX as usize);

/// What a replica's threads share with its handle.
pub(crate) struct Mailboxes {
    pub(crate) inbox: Arc<Mailbox<Input>>,
    pub(crate) outbox: Arc<Mailbox<ReplicaEvent>>,
    pub(crate) shared: Arc<Shared>,
}

/// Ready to run.
pub(crate) struct Opened {
    pub(crate) thread: ReplicaThread,
    pub(crate) outputs: Vec<Output>,
    pub(crate) started: Started,
}

/// How a replica looks before it has started.
pub(crate) fn first_status(config: &ReplicaConfig) -> Result<ReplicaStatus, StartError> {
    Ok(ReplicaStatus {
        cluster_id: format!("{:032x}", config.cluster_id()),
        replica: config.replica,
        replicas: members(config),
        role: "stopped",
        primary: -1,
        release: config.release()?.to_string(),
        ..ReplicaStatus::default()
    })
}

pub(crate) fn open(config: &ReplicaConfig, mailboxes: Mailboxes) -> Result<Opened, StartError> {
    let lock = FolderLock::take(&config.folder)?;
    clear_unfinished(&config.folder)
        .map_err(|source| StartError::storage("clear", &config.folder, source))?;
    let release = config.release()?;
    let intake = Intake {
        cluster: config.cluster_id(),
        message_size_max: MESSAGE_BYTES_MAX,
    };
    // Refusals come first: nothing is written, and nobody is told that we are here.
    let (file, superblock, is_new) = open_superblock(config, release)?;
    let trust = Trust::open(&config.folder, is_new, config.is_alone())?;
    let image = restore(config, &superblock)?;
    let scanned = read_journal(config, release, &superblock, intake)?;

    let mut outputs = Vec::new();
    let clients = image.as_ref().map(|image| image.clients.clone());
    let core = Core::open(
        core_config(config, release)?,
        Standard,
        superblock.clone(),
        &scanned.scan.entries,
        clients.as_deref().unwrap_or_default(),
        clock(),
        &mut outputs,
    )
    .map_err(|error| refused_by_core(&config.folder, error))?;

    let Mailboxes {
        inbox,
        outbox,
        shared,
    } = mailboxes;
    let peers = open_peers(config, intake, &inbox)?;
    let disk = Arc::new(Disk::default());
    let tell = {
        let inbox = Arc::clone(&inbox);
        move |input| inbox.push(input)
    };
    let files = Background::start(&config.folder, config.sync, Arc::clone(&disk), tell.clone())?;
    let work = first_work(&scanned, &superblock, image);
    let writer = Writer {
        journal: open_journal(config, scanned, intake, Arc::clone(&disk), &files.sender())?,
        superblock: file,
        shared: Arc::clone(&shared),
        disk: Arc::clone(&disk),
        has_failed: false,
    };
    let journal = if config.is_alone() {
        JournalSide::here(writer)
    } else {
        JournalSide::thread(writer, tell)?
    };
    let address = peers.as_ref().map(Peers::address).transpose();
    let started = Started {
        address: address
            .map_err(|source| StartError::storage("listen for", &config.folder, source))?,
        incarnation: superblock.incarnation + 1,
        checkpoint_op: superblock.checkpoint.op,
        head_op: core.report().op,
    };
    shared.started(started.incarnation);
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
        quorums: Quorums::of(members(config)).expect("the settings were checked"),
        sessions: Sessions::default(),
        origin: Origin {
            cluster: config.cluster_id(),
            group: METADATA_GROUP,
            release,
            ..Origin::default()
        },
        folder: config.folder.clone(),
        _lock: lock,
    };
    Ok(Opened {
        thread,
        outputs,
        started,
    })
}

/// The journal, unless a newer release has written it.
fn read_journal(
    config: &ReplicaConfig,
    release: Release,
    superblock: &Superblock,
    intake: Intake,
) -> Result<Scanned, StartError> {
    let folder = &config.folder;
    let scanned = scan(folder, superblock, intake)?;
    let entries = scanned.scan.entries.iter();
    let writers = entries.filter_map(|entry| Some(entry.header.as_ref()?.release));
    refuse_newer(folder, release, writers)?;
    clear_unlisted(folder, &scanned.listed())
        .map_err(|source| StartError::storage("clear", folder, source))?;
    Ok(scanned)
}

fn open_peers(
    config: &ReplicaConfig,
    intake: Intake,
    inbox: &Arc<Mailbox<Input>>,
) -> Result<Option<Peers>, StartError> {
    if config.is_alone() {
        return Ok(None);
    }
    let inbox = Arc::clone(inbox);
    let dialled = move |dialled: Dialled| inbox.push(Input::Dialled(dialled));
    Peers::open(config, intake, &dialled).map(Some)
}

/// What is told before anything else.
fn first_work(scanned: &Scanned, superblock: &Superblock, image: Option<Image>) -> Work {
    let mut work = Work::default();
    let torn = scanned.torn().map(|line| (Level::Info, line));
    let faulty = scanned.faulty().map(|line| (Level::Warning, line));
    work.told.extend(
        torn.into_iter()
            .chain(faulty)
            .map(|(level, message)| ReplicaEvent::Log { level, message }),
    );
    work.told.extend(image.map(|image| ReplicaEvent::Restore {
        op: superblock.checkpoint.op,
        state: image.state,
    }));
    work
}

fn members(config: &ReplicaConfig) -> u8 {
    u8::try_from(config.replicas.len()).expect("the settings were checked: at most five")
}

/// The superblock of the folder, or the first one of a new folder.
fn open_superblock(
    config: &ReplicaConfig,
    release: Release,
) -> Result<(SuperblockFile, Superblock, bool), StartError> {
    let folder = &config.folder;
    let members = members(config);
    let Some(opened) = SuperblockFile::read(folder)? else {
        if has_files(folder)? {
            return Err(StartError::Damaged {
                path: folder.join("superblock"),
                why: "it is missing, and the journal is not".to_owned(),
                advice: "Restore the whole folder from a backup; with peers that are whole, move it away and start with \
                         an empty one",
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
        // First: a folder with a superblock has had a journal.
        create_journal_list(folder, config.sync)?;
        let file = SuperblockFile::create(folder, &first, config.sync)?;
        return Ok((file, first, true));
    };
    let found = &opened.superblock;
    if found.cluster != config.cluster_id() {
        return Err(StartError::OtherCluster {
            folder: folder.clone(),
            cluster: config.cluster.clone(),
        });
    }
    if found.replica != config.replica || found.replica_count() != members {
        return Err(StartError::OtherReplica {
            folder: folder.clone(),
            found: found.replica,
            found_of: found.replica_count(),
            replica: config.replica,
            replicas: members,
        });
    }
    let headers = found.view_headers.iter().chain([&found.checkpoint.header]);
    refuse_newer(folder, release, headers.map(|header| header.release))?;
    let file = SuperblockFile::open(folder, &opened, config.sync)?;
    Ok((file, opened.superblock, false))
}

fn refuse_newer(
    folder: &Path,
    release: Release,
    mut writers: impl Iterator<Item = Release>,
) -> Result<(), StartError> {
    let newer = writers.find(|&writer| !release::may_open(release, writer));
    newer.map_or(Ok(()), |writer| {
        Err(StartError::NewerRelease {
            path: folder.to_owned(),
            why: format!("was written by release {writer}"),
        })
    })
}

/// The image that the superblock names.
fn restore(config: &ReplicaConfig, superblock: &Superblock) -> Result<Option<Image>, StartError> {
    let checkpoint = &superblock.checkpoint;
    if checkpoint.op == 0 {
        return Ok(None);
    }
    let name = ImageName {
        length: checkpoint.len,
        digest: checkpoint.digest,
    };
    let images = Checkpoints::new(&config.folder);
    let path = images.path(checkpoint.op);
    match images.read(checkpoint.op, name) {
        Ok(Some(image)) => Ok(Some(image)),
        Ok(None) => Err(StartError::Damaged {
            path,
            why: "it is missing or altered".to_owned(),
            advice: "Restore the folder from a backup; with peers that are whole, move it away and start with an empty \
                     one",
        }),
        Err(source) => Err(StartError::storage("read", &path, source)),
    }
}

fn open_journal(
    config: &ReplicaConfig,
    scanned: Scanned,
    intake: Intake,
    disk: Arc<Disk>,
    jobs: &mpsc::Sender<crate::storage::FileJob>,
) -> Result<Journal, StartError> {
    let context = JournalContext {
        folder: config.folder.clone(),
        file_bytes: config.journal_file_bytes,
        sync: config.sync,
        intake,
        disk,
        jobs: jobs.clone(),
    };
    scanned
        .into_journal(context)
        .map_err(|source| StartError::storage("open the journal of", &config.folder, source))
}

fn core_config(config: &ReplicaConfig, release: Release) -> Result<Config, StartError> {
    let mut seed = [0; 8];
    rustix::rand::getrandom(&mut seed, rustix::rand::GetRandomFlags::empty())
        .map_err(|error| StartError::storage("get randomness for", &config.folder, error.into()))?;
    Ok(Config {
        cluster: config.cluster_id(),
        group: METADATA_GROUP,
        replica: config.replica,
        replica_count: members(config),
        release,
        timeouts: timeouts(config.timeouts),
        request_queue_max: REQUEST_QUEUE_MAX,
        batch_bytes_max: BATCH_BYTES_MAX,
        batch_requests_max: BATCH_REQUESTS_MAX,
        checkpoint_ops: config.checkpoint_ops,
        checkpoint_bytes: config.checkpoint_bytes,
        log_keep_ops: config.log_keep_ops,
        clients_max: CLIENTS_MAX,
        chunk_bytes: CHUNK_BYTES,
        seed: u64::from_le_bytes(seed),
    })
}

fn timeouts(profile: TimeoutProfile) -> Timeouts {
    match profile {
        TimeoutProfile::Default => Profile::Default,
        TimeoutProfile::Seed => Profile::Seed,
        TimeoutProfile::Wan => Profile::Wan,
    }
    .timeouts()
}

fn refused_by_core(folder: &Path, error: OpenError) -> StartError {
    match error {
        OpenError::Members(_) | OpenError::Timeouts(_) | OpenError::Setting(_) => {
            StartError::Settings(error.to_string())
        }
        OpenError::Identity | OpenError::Superblock => StartError::Damaged {
            path: folder.join("superblock"),
            why: error.to_string(),
            advice: "Restore the folder from a backup",
        },
        OpenError::Clients | OpenError::Damaged { .. } => StartError::Damaged {
            path: folder.to_owned(),
            why: error.to_string(),
            advice: "Nothing was changed: restore the folder from a backup",
        },
    }
}
