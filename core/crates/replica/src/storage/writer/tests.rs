use std::fs;

use headrace_buffer::Slice;
use headrace_vsr::frame::{Frame, FrameFlags, Intake, Operation, Origin, Release, area::Prepare};

use super::*;
use crate::{
    config::ReplicaConfig,
    opening::initial_status,
    storage::{
        directory::DataDirectory,
        journal::{JournalContext, JournalFile},
    },
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
        bytes: 1 << 20,
        places: Vec::new(),
    };
    let disk = Arc::new(Disk::default());
    let context = JournalContext {
        directory: directory.clone(),
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
        superblock: SuperblockFile::create(directory, superblock, true).unwrap(),
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
