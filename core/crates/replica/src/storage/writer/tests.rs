use std::{
    fs, io,
    path::Path,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

use headrace_buffer::Slice;
use headrace_vsr::{
    frame::{Frame, FrameFlags, Intake, Operation, Origin, Release, area::Prepare},
    journal::{BLOCK_BYTES, HEAD_BYTES, RecordedLog, Scan},
};

use super::*;
use crate::{
    config::ReplicaConfig,
    inspect::inspect_files,
    opening::initial_status,
    storage::{
        directory::{DataDirectory, MachineFiles},
        journal::{JournalContext, JournalFile, name_of, open_file},
        manifest, scan,
    },
    surroundings::{Files, OpenFile, OpenMode},
};

const FILE_BYTES: u64 = 1 << 20;
const INTAKE: Intake = Intake {
    cluster: 7,
    message_size_max: 1 << 20,
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

fn context(directory: &DataDirectory, disk: &Arc<Disk>) -> JournalContext {
    JournalContext {
        directory: directory.clone(),
        file_bytes: FILE_BYTES,
        syncs_appends: true,
        intake: INTAKE,
        disk: Arc::clone(disk),
        jobs: mpsc::channel().0,
    }
}

/// Create a journal whose only file ends with the records of ops 1 to 3, one block each.
fn full_journal(directory: &DataDirectory, disk: &Arc<Disk>) -> Journal {
    fs::write(directory.join(&name_of(1)), vec![0; 1 << 20]).unwrap();
    manifest::write(directory, &[(1, FILE_BYTES)]).unwrap();
    let file = open_file(directory, 1, FILE_BYTES, Vec::new(), OpenMode::Write).unwrap();
    let position = FILE_BYTES - 3 * BLOCK_BYTES as u64;
    let mut journal = Journal::new(
        context(directory, disk),
        vec![file],
        position,
        0,
        RecordedLog::default(),
    );
    for op in 1..=3 {
        let written = journal.append(&[&prepare(op)]).unwrap();
        assert_eq!(written, Some(BLOCK_BYTES as u64));
    }
    journal
}

fn scan_of(directory: &DataDirectory) -> Scan {
    let superblock = Superblock::new(7, 1, 1, 0, vec![1], 0);
    let scanned = scan(directory, &superblock, INTAKE, OpenMode::Read);
    scanned.unwrap().scan
}

/// Create a writer whose journal file is not writable.
fn broken(directory: &DataDirectory, superblock: &Superblock) -> Writer {
    let config: ReplicaConfig = serde_json::from_value(serde_json::json!({
        "directory": directory.path(), "cluster": "c", "replica": 0, "replicas": [],
    }))
    .unwrap();
    let path = directory.join("journal");
    fs::write(&path, vec![0; 1 << 20]).unwrap();
    let file = JournalFile {
        number: 1,
        file: Box::new(fs::File::open(path).unwrap()),
        bytes: FILE_BYTES,
        places: Vec::new(),
    };
    let disk = Arc::new(Disk::default());
    Writer {
        journal: Journal::new(
            context(directory, &disk),
            vec![file],
            0,
            0,
            RecordedLog::default(),
        ),
        superblock: SuperblockFile::create(directory, superblock).unwrap(),
        shared: Arc::new(Shared::new(initial_status(&config).unwrap())),
        disk,
        has_failed: false,
    }
}

/// CTL-5.
#[test]
fn what_follows_a_failed_append_does_not_happen() {
    let kept = tempfile::tempdir().unwrap();
    let directory = &DataDirectory::on_disk(kept.path());
    let first = Superblock::new(7, 1, 1, 0, vec![1], 0);
    let mut next = first.clone();
    next.sequence += 1;
    next.parent = first.checksum();
    let mut writer = broken(directory, &first);
    let superblock = |token| JournalJob::Superblock {
        token,
        image: Box::new(next.clone()),
    };
    let append = JournalJob::Append {
        token: 1,
        frames: vec![prepare(1)],
    };
    let mut done = Vec::new();
    // The later job is in the same batch, and in the next one.
    for jobs in [vec![append, superblock(2)], vec![superblock(3)]] {
        assert!(writer.carry_out(jobs, &mut done).is_empty());
    }
    assert!(
        matches!(done[..], [Event::StorageError(_)]),
        "what happened: {done:?}"
    );
    let kept = SuperblockFile::read(directory).unwrap().unwrap();
    assert_eq!(kept.superblock, first);
}

/// A rejoining replica becomes proven once nothing is unsynced.
#[test]
fn a_failed_append_stays_unsynced() {
    let kept = tempfile::tempdir().unwrap();
    let directory = &DataDirectory::on_disk(kept.path());
    let first = Superblock::new(7, 1, 1, 0, vec![1], 0);
    let (mut side, mut apart) = JournalWriter::separate(broken(directory, &first), |_| {});
    assert!(!side.has_unsynced());
    for op in 1..=2 {
        side.submit(JournalJob::Append {
            token: op,
            frames: vec![prepare(op)],
        });
        assert!(apart.has_jobs());
        assert!(!apart.step());
        assert!(side.has_unsynced(), "op {op}");
    }
}

#[test]
fn a_full_file_is_sealed_in_the_next_one() {
    let kept = tempfile::tempdir().unwrap();
    let directory = &DataDirectory::on_disk(kept.path());
    let mut journal = full_journal(directory, &Arc::default());
    journal.seal();
    assert!(!journal.wants_seal());
    let path = directory.join(&name_of(1));
    let mut bytes = fs::read(&path).unwrap();
    let newest = bytes.len() - BLOCK_BYTES + HEAD_BYTES;
    bytes[newest] ^= 1;
    fs::write(&path, bytes).unwrap();
    let scan = scan_of(directory);
    let entries: Vec<(u64, bool)> = scan
        .entries
        .iter()
        .map(|entry| (entry.op, entry.intact))
        .collect();
    assert_eq!(entries, [(1, true), (2, true), (3, false)]);
    assert_eq!((scan.torn, scan.witnessed), (None, 3));
}

#[test]
fn a_seal_of_a_full_file_waits_for_space() {
    let kept = tempfile::tempdir().unwrap();
    let directory = &DataDirectory::on_disk(kept.path());
    let disk = Arc::new(Disk::default());
    let mut journal = full_journal(directory, &disk);
    disk.set_full(true);
    journal.seal();
    assert!(journal.wants_seal());
    assert_eq!(journal.file_count(), 1);
    disk.set_full(false);
    journal.seal();
    assert!(!journal.wants_seal());
    assert_eq!((journal.file_count(), scan_of(directory).witnessed), (2, 3));
}

#[test]
fn a_cut_is_sealed_in_a_full_file_without_space_for_another() {
    let kept = tempfile::tempdir().unwrap();
    let directory = &DataDirectory::on_disk(kept.path());
    let disk = Arc::new(Disk::default());
    let mut journal = full_journal(directory, &disk);
    disk.set_full(true);
    journal.truncate(3).unwrap();
    assert_eq!(journal.file_count(), 1);
    let scan = scan_of(directory);
    let ops: Vec<u64> = scan.entries.iter().map(|entry| entry.op).collect();
    assert_eq!((ops, scan.witnessed), (vec![1, 2], 2));
}

/// CTL-1. The power fails while the records that a view has cut are erased. The journal has been idle between the record
/// of the view and the cut.
#[test]
fn a_seal_before_a_cut_does_not_vouch_for_what_is_cut() {
    let kept = tempfile::tempdir().unwrap();
    let directory = &DataDirectory::on_disk(kept.path());
    let mut journal = full_journal(directory, &Arc::default());
    let mut superblock = Superblock::new(7, 1, 1, 0, vec![1, 2, 3], 0);
    (superblock.view.number, superblock.view.log_view) = (1, 1);
    (superblock.view.start_op, superblock.view.head_op) = (1, 1);
    journal.record_log(RecordedLog::of(&superblock));
    journal.seal();
    let path = directory.join(&name_of(1));
    let mut bytes = fs::read(&path).unwrap();
    let end = bytes.len();
    for block in 1..=2 {
        let start = end - block * BLOCK_BYTES;
        bytes[start + HEAD_BYTES..start + BLOCK_BYTES].fill(0);
    }
    fs::write(&path, bytes).unwrap();
    let scanned = scan(directory, &superblock, INTAKE, OpenMode::Read);
    let scan = scanned.unwrap().scan;
    let ops: Vec<u64> = scan.entries.iter().map(|entry| entry.op).collect();
    assert_eq!((ops, scan.witnessed), (vec![1], 1));
    // Neither a repair of what is kept, nor a sync, makes them count before the cut.
    journal.append(&[&prepare(1)]).unwrap();
    journal.append(&[&prepare(3)]).unwrap();
    journal.seal();
    let scanned = crate::storage::scan(directory, &superblock, INTAKE, OpenMode::Read);
    assert_eq!(scanned.unwrap().scan.witnessed, 1);
}

/// Without syncs a power failure loses any of the newest records, which must not be taken for damage: nothing may state
/// that they are durable before they are.
#[test]
fn what_is_not_synced_may_be_lost() {
    for (synced, sealed) in [(false, false), (true, false), (false, true)] {
        let kept = tempfile::tempdir().unwrap();
        let directory = &DataDirectory::on_disk(kept.path());
        let path = directory.join(&name_of(1));
        fs::write(&path, vec![0; 1 << 20]).unwrap();
        manifest::write(directory, &[(1, FILE_BYTES)]).unwrap();
        let file = open_file(directory, 1, FILE_BYTES, Vec::new(), OpenMode::Write).unwrap();
        let context = JournalContext {
            syncs_appends: false,
            ..context(directory, &Arc::default())
        };
        let mut journal = Journal::new(context, vec![file], 0, 0, RecordedLog::default());
        journal.append(&[&prepare(1)]).unwrap();
        if synced {
            journal.sync_written().unwrap();
        }
        journal.append(&[&prepare(2)]).unwrap();
        if sealed {
            journal.seal();
        }
        let mut bytes = fs::read(&path).unwrap();
        bytes[..BLOCK_BYTES].fill(0);
        fs::write(&path, bytes).unwrap();
        let scan = scan_of(directory);
        let witnessed = match (synced, sealed) {
            (_, true) => 2,
            (true, _) => 1,
            _ => 0,
        };
        assert_eq!(scan.witnessed, witnessed, "{synced} {sealed}");
        let is_lost = scan.entries.is_empty() && scan.torn.is_some();
        assert_eq!(is_lost, witnessed == 0, "{synced} {sealed}: {scan:?}");
    }
}

/// Files of this machine, without the permission to change them.
#[derive(Debug)]
struct ReadOnlyFiles {
    /// Number of times that no journal file is found.
    missing: AtomicUsize,
}

fn denied<T>() -> io::Result<T> {
    Err(io::ErrorKind::PermissionDenied.into())
}

impl Files for ReadOnlyFiles {
    fn create_directory(&self, _: &Path) -> io::Result<()> {
        denied()
    }

    fn lock(&self, _: &Path) -> io::Result<Box<dyn fmt::Debug + Send>> {
        denied()
    }

    fn open(&self, path: &Path, opening: OpenMode) -> io::Result<Box<dyn OpenFile>> {
        let is_missing = path.ends_with(name_of(1))
            && self
                .missing
                .fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1))
                .is_ok();
        match opening {
            OpenMode::Read if is_missing => Err(io::ErrorKind::NotFound.into()),
            OpenMode::Read => MachineFiles.open(path, opening),
            _ => denied(),
        }
    }

    fn length(&self, path: &Path) -> io::Result<u64> {
        MachineFiles.length(path)
    }

    fn names(&self, directory: &Path) -> io::Result<Vec<String>> {
        MachineFiles.names(directory)
    }

    fn rename(&self, _: &Path, _: &Path) -> io::Result<()> {
        denied()
    }

    fn remove(&self, _: &Path) -> io::Result<()> {
        denied()
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        MachineFiles.sync_directory(directory)
    }
}

#[test]
fn an_inspection_needs_no_permission_to_write() {
    let kept = tempfile::tempdir().unwrap();
    let directory = &DataDirectory::on_disk(kept.path());
    let superblock = Superblock::new(7, 1, 1, 0, vec![1], 0);
    SuperblockFile::create(directory, &superblock).unwrap();
    full_journal(directory, &Arc::default());
    let inspected = |missing| {
        let missing = AtomicUsize::new(missing);
        let files = DataDirectory::new(kept.path(), Arc::new(ReadOnlyFiles { missing }));
        inspect_files(&files, 1, 10)
    };
    // A running replica may remove files that are being read.
    for missing in [0, 1] {
        let report = inspected(missing).unwrap();
        assert!(report.problems.is_empty(), "{:?}", report.problems);
        let ops: Vec<u64> = report.records.iter().map(|record| record.op).collect();
        assert_eq!(ops, [1, 2, 3]);
    }
    let refused = inspected(2).unwrap_err();
    assert!(refused.to_string().contains(&name_of(1)), "{refused}");
}
