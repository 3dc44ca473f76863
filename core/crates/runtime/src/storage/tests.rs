//! The executor on real files, over both drivers.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use headrace_buffer::{BufferPool, Slice};
use headrace_log::storage::{
    FileName, StorageCompletion, StorageError, StorageErrorKind, StorageOperation, StorageOutcome,
    StorageRequest,
};
use headrace_model::{Namespace, Offset, PartitionId, StreamId, TopicId};
use tempfile::TempDir;

use super::Storage;
use crate::driver::{Driver, DriverChoice, Selection, Waker, Workers};

const LOG: FileName = FileName::Log(Offset(0));

struct Disk {
    driver: Box<dyn Driver>,
    storage: Storage,
    answers: Vec<(Namespace, StorageCompletion)>,
    root: TempDir,
    next_id: u64,
}

type Answer = Result<StorageOutcome, StorageError>;

impl Disk {
    fn new(choice: DriverChoice) -> Self {
        Self::with(choice, 64, u64::MAX)
    }

    fn with(choice: DriverChoice, handles_max: usize, unsynced_bytes_max: u64) -> Self {
        let root = tempfile::tempdir().unwrap();
        let storage = Storage::new(root.path(), BufferPool::new(64 << 20))
            .with_handles_max(handles_max)
            .with_unsynced_bytes_max(unsynced_bytes_max);
        Self {
            driver: Selection::decide(choice)
                .unwrap()
                .open(
                    Waker::new().unwrap(),
                    Workers::new(Workers::threads_by_default()),
                )
                .unwrap(),
            storage,
            answers: Vec::new(),
            root,
            next_id: 0,
        }
    }

    fn submit(&mut self, namespace: Namespace, operation: StorageOperation) -> u64 {
        self.next_id += 1;
        let request = StorageRequest {
            id: self.next_id,
            operation,
        };
        let answers = &mut self.answers;
        self.storage.execute(
            namespace,
            request,
            &mut *self.driver,
            |namespace, completion| {
                answers.push((namespace, completion));
            },
        );
        self.next_id
    }

    fn turn(&mut self) {
        let mut completions = Vec::new();
        self.driver
            .poll(Some(Duration::from_secs(1)), &mut completions)
            .unwrap();
        for completion in completions {
            assert!(Storage::owns(completion.token));
            let answers = &mut self.answers;
            self.storage.completed(
                completion.token,
                completion.outcome,
                &mut *self.driver,
                |namespace, completion| {
                    answers.push((namespace, completion));
                },
            );
        }
    }

    fn wait(&mut self, namespace: Namespace, id: u64) -> Answer {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let is_it = |(of, completion): &(Namespace, StorageCompletion)| {
                *of == namespace && completion.id == id
            };
            if let Some(index) = self.answers.iter().position(is_it) {
                return self.answers.swap_remove(index).1.result;
            }
            assert!(Instant::now() < deadline, "{id} was never answered");
            self.turn();
        }
    }

    fn execute(&mut self, namespace: Namespace, operation: StorageOperation) -> Answer {
        let id = self.submit(namespace, operation);
        self.wait(namespace, id)
    }

    fn done(&mut self, namespace: Namespace, operation: StorageOperation) {
        assert!(matches!(
            self.execute(namespace, operation),
            Ok(StorageOutcome::Done)
        ));
    }

    fn kind(&mut self, namespace: Namespace, operation: StorageOperation) -> StorageErrorKind {
        self.execute(namespace, operation).unwrap_err().kind
    }

    fn listed(&mut self, namespace: Namespace) -> Vec<(FileName, u64)> {
        match self.execute(namespace, StorageOperation::OpenDirectory) {
            Ok(StorageOutcome::Listed(files)) => files,
            other => panic!("{other:?}"),
        }
    }

    fn read(
        &mut self,
        namespace: Namespace,
        file: FileName,
        position: u64,
        length: u32,
    ) -> Vec<u8> {
        match self.execute(
            namespace,
            StorageOperation::Read {
                file,
                position,
                length,
            },
        ) {
            Ok(StorageOutcome::Read(buffer)) => buffer.to_vec(),
            other => panic!("{other:?}"),
        }
    }

    fn directory(&self, namespace: Namespace) -> PathBuf {
        self.root.path().join(format!(
            "streams/1/topics/2/partitions/{}",
            namespace.partition()
        ))
    }
}

fn partition(id: u32) -> Namespace {
    Namespace::new(StreamId(1), TopicId(2), PartitionId(id)).unwrap()
}

fn write(file: FileName, position: u64, bytes: &[u8]) -> StorageOperation {
    let slices = bytes
        .chunks(1000)
        .map(|piece| Slice::from_vec(piece.to_vec()))
        .collect();
    StorageOperation::Write {
        file,
        position,
        slices,
    }
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length)
        .map(|index| u8::try_from((index * 7 + index / 256) % 256).unwrap())
        .collect()
}

/// Drop a file from the page cache, so that a read has to wait for the device. The kernel skips pages that are briefly
/// in use, so it is asked until no page is left.
fn make_cold(path: &Path) {
    let file = fs::File::open(path).unwrap();
    file.sync_all().unwrap();
    let asked = Instant::now();
    loop {
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        let pages = cached_pages(&file);
        if pages == 0 {
            break;
        }
        assert!(
            asked.elapsed().as_secs() < 10,
            "{pages} pages stay in the cache"
        );
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Count the pages of a file in the page cache. Done without reading, as readahead would warm it again.
fn cached_pages(file: &fs::File) -> usize {
    let length = usize::try_from(file.metadata().unwrap().len()).unwrap();
    // SAFETY: the call takes no pointers.
    let page_bytes = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap();
    let mut resident = vec![0_u8; length.div_ceil(page_bytes)];
    // SAFETY: a private mapping that is never read and is removed below; one byte for each of its pages.
    unsafe {
        let mapped = libc::mmap(
            std::ptr::null_mut(),
            length,
            libc::PROT_READ,
            libc::MAP_SHARED,
            std::os::fd::AsRawFd::as_raw_fd(file),
            0,
        );
        assert_ne!(mapped, libc::MAP_FAILED);
        assert_eq!(libc::mincore(mapped, length, resident.as_mut_ptr()), 0);
        assert_eq!(libc::munmap(mapped, length), 0);
    }
    resident.iter().filter(|page| *page & 1 == 1).count()
}

macro_rules! on_both_drivers {
    ($($name:ident),+ $(,)?) => {
        mod uring { $(#[test] fn $name() { super::$name(crate::driver::DriverChoice::Uring); })+ }
        mod poll { $(#[test] fn $name() { super::$name(crate::driver::DriverChoice::Poll); })+ }
    };
}

on_both_drivers!(
    a_life_of_a_partition,
    each_missing_file_has_its_own_error,
    reads_warm_and_cold,
    drops_what_is_cached,
    handles_are_bounded,
    operations_wait_for_a_handle,
    writes_go_elsewhere_above_the_budget,
    replaces_in_one_step,
    removes_a_deleted_partition,
    is_refused_without_memory,
    operations_wait_for_the_same_opening,
);

/// LOG-2, LOG-13
fn a_life_of_a_partition(choice: DriverChoice) {
    let mut disk = Disk::new(choice);
    let namespace = partition(3);
    assert_eq!(disk.listed(namespace), []);
    disk.done(namespace, StorageOperation::Create { file: LOG });
    let bytes = pattern(1_000_000);
    disk.done(
        namespace,
        StorageOperation::Allocate {
            file: LOG,
            position: 0,
            length: 8 << 20,
        },
    );
    disk.done(namespace, write(LOG, 0, &bytes[..600_000]));
    disk.done(namespace, write(LOG, 600_000, &bytes[600_000..]));
    assert_eq!(disk.storage.unsynced_bytes(), 1_000_000);
    disk.done(namespace, StorageOperation::Sync { file: LOG });
    assert_eq!(disk.storage.unsynced_bytes(), 0);
    let path = disk.directory(namespace).join("00000000000000000000.log");
    assert!(fs::read(&path).unwrap() == bytes);

    disk.done(
        namespace,
        StorageOperation::Create {
            file: FileName::Index(Offset(0)),
        },
    );
    disk.done(
        namespace,
        StorageOperation::Truncate {
            file: LOG,
            length: 500,
        },
    );
    let blocks = std::os::unix::fs::MetadataExt::blocks(&fs::metadata(&path).unwrap());
    assert!(
        blocks <= 16,
        "space allocated ahead is given back: {blocks}"
    );
    assert_eq!(disk.read(namespace, LOG, 400, 1000), &bytes[400..500]);
    disk.done(namespace, StorageOperation::Create { file: LOG });
    assert_eq!(disk.read(namespace, LOG, 0, 10), b"");
    disk.done(namespace, write(LOG, 0, b"again"));
    assert_eq!(
        disk.listed(namespace),
        [(LOG, 5), (FileName::Index(Offset(0)), 0)]
    );
    disk.done(namespace, StorageOperation::Remove { file: LOG });
    disk.done(namespace, StorageOperation::Remove { file: LOG });
    assert_eq!(disk.listed(namespace), [(FileName::Index(Offset(0)), 0)]);
    disk.storage.release(namespace);
    assert_eq!(disk.storage.open_files(), 0);
    assert_eq!(disk.storage.in_flight(), 0);
}

fn each_missing_file_has_its_own_error(choice: DriverChoice) {
    let mut disk = Disk::new(choice);
    let namespace = partition(1);
    let read = || StorageOperation::Read {
        file: LOG,
        position: 0,
        length: 1,
    };
    assert_eq!(
        disk.kind(namespace, read()),
        StorageErrorKind::Missing,
        "not even the directory exists"
    );
    disk.listed(namespace);
    assert_eq!(disk.kind(namespace, read()), StorageErrorKind::Missing);
    assert_eq!(
        disk.kind(namespace, write(LOG, 0, b"x")),
        StorageErrorKind::Missing
    );
    assert_eq!(
        disk.kind(namespace, StorageOperation::Sync { file: LOG }),
        StorageErrorKind::Missing
    );
    disk.done(
        namespace,
        StorageOperation::Allocate {
            file: LOG,
            position: 0,
            length: 1,
        },
    );
    // A file that cannot be opened now may be opened later.
    disk.done(namespace, StorageOperation::Create { file: LOG });
    disk.done(namespace, write(LOG, 0, b"x"));
    // A failure without special handling.
    fs::create_dir(disk.directory(namespace).join("offsets")).unwrap();
    let offsets = StorageOperation::Read {
        file: FileName::Offsets,
        position: 0,
        length: 1,
    };
    assert_eq!(disk.kind(namespace, offsets), StorageErrorKind::Other);
}

fn reads_warm_and_cold(choice: DriverChoice) {
    let mut disk = Disk::new(choice);
    let namespace = partition(1);
    let bytes = pattern(3_000_000);
    disk.listed(namespace);
    disk.done(namespace, StorageOperation::Create { file: LOG });
    disk.done(namespace, write(LOG, 0, &bytes[..1_000_000]));
    disk.done(
        namespace,
        write(LOG, 1_000_000, &bytes[1_000_000..2_000_000]),
    );
    disk.done(namespace, write(LOG, 2_000_000, &bytes[2_000_000..]));
    for (position, length) in [
        (0, 1),
        (4_095, 2),
        (123_456, 1_000_000),
        (2_999_990, 100),
        (3_000_000, 5),
        (0, 0),
    ] {
        let end = (position + length).min(bytes.len());
        assert!(
            disk.read(namespace, LOG, position as u64, length.try_into().unwrap())
                == bytes[position..end]
        );
    }
    let warm = disk.storage.counters();
    assert_eq!((warm.inline_reads, warm.driver_reads), (6, 0));
    // Part of the file is in the page cache: the driver reads the rest, behind the cached part. Probing the cache
    // triggers readahead, which at times finishes before the probe returns, so that nothing is left for the driver.
    for _ in 0..100 {
        make_cold(&disk.directory(namespace).join("00000000000000000000.log"));
        for (position, length) in [
            (1_500_000, 10_000),
            (1_400_000, 1_000_000),
            (2_500_000, 1_000_000),
        ] {
            let end = (position + length).min(bytes.len());
            assert!(
                disk.read(namespace, LOG, position as u64, length.try_into().unwrap())
                    == bytes[position..end]
            );
        }
        if disk.storage.counters().driver_reads > 0 {
            return;
        }
    }
    panic!("nothing was ever read by the driver");
}

/// Cached bytes are dropped from a position in the middle of a large page on, written or not.
fn drops_what_is_cached(choice: DriverChoice) {
    let mut disk = Disk::new(choice);
    let namespace = partition(1);
    let bytes = pattern(4 << 20);
    disk.listed(namespace);
    disk.done(namespace, StorageOperation::Create { file: LOG });
    disk.done(namespace, write(LOG, 0, &bytes));
    disk.done(namespace, write(LOG, 4 << 20, &bytes));
    let path = disk.directory(namespace).join("00000000000000000000.log");
    let file = fs::File::open(&path).unwrap();
    let all = cached_pages(&file);
    // The kernel skips pages that are briefly in use.
    let is_dropped = |disk: &mut Disk, position: u64, left: usize| {
        (0..1000).any(|attempt| {
            std::thread::sleep(Duration::from_millis(attempt.min(10)));
            disk.done(
                namespace,
                StorageOperation::Uncache {
                    file: LOG,
                    position,
                },
            );
            cached_pages(&file) <= left
        })
    };
    assert!(is_dropped(&mut disk, 6 << 20, all / 4 * 3));
    assert!(is_dropped(&mut disk, (2 << 20) + 12_345, all / 4));
    if all == 2048 {
        assert_eq!(cached_pages(&file), 512, "pages of 4 KiB before it stay");
    }
    assert!(is_dropped(&mut disk, 10_000, 0));
    assert!(disk.storage.counters().syncs >= 3);
    assert!(disk.read(namespace, LOG, 4 << 20, 4 << 20) == bytes);
    assert_eq!(
        disk.kind(
            namespace,
            StorageOperation::Uncache {
                file: FileName::Offsets,
                position: 0,
            }
        ),
        StorageErrorKind::Missing
    );
}

fn handles_are_bounded(choice: DriverChoice) {
    let mut disk = Disk::with(choice, 4, u64::MAX);
    for id in 0..20 {
        disk.listed(partition(id));
        disk.done(partition(id), StorageOperation::Create { file: LOG });
        disk.done(partition(id), write(LOG, 0, &id.to_le_bytes()));
    }
    assert_eq!(disk.storage.open_files(), 4);
    for id in 0..20 {
        assert_eq!(disk.read(partition(id), LOG, 0, 100), id.to_le_bytes());
    }
    assert_eq!(disk.storage.open_files(), 4);
}

fn operations_wait_for_a_handle(choice: DriverChoice) {
    let mut disk = Disk::with(choice, 1, u64::MAX);
    for id in 0..3 {
        disk.listed(partition(id));
        disk.done(partition(id), StorageOperation::Create { file: LOG });
    }
    let begun = [0, 1, 2].map(|id| {
        disk.submit(partition(id), write(LOG, 0, b"a"));
        (
            id,
            disk.submit(partition(id), StorageOperation::Sync { file: LOG }),
        )
    });
    for (id, operation) in begun {
        let synced = disk.wait(partition(id), operation);
        assert!(matches!(synced, Ok(StorageOutcome::Done)));
    }
    assert_eq!(disk.storage.open_files(), 1);
}

fn writes_go_elsewhere_above_the_budget(choice: DriverChoice) {
    let mut disk = Disk::with(choice, 4, 10_000);
    let namespace = partition(1);
    let bytes = pattern(60_000);
    disk.listed(namespace);
    disk.done(namespace, StorageOperation::Create { file: LOG });
    let mut pieces = (0..)
        .zip(bytes.chunks(6_000))
        .map(|(index, piece)| write(LOG, index * 6_000, piece));
    for piece in pieces.by_ref().take(5) {
        disk.done(namespace, piece);
    }
    assert_eq!(
        disk.storage.counters().driver_writes,
        0,
        "nothing syncs: what is dirty is the kernel's business"
    );
    let sync = disk.submit(namespace, StorageOperation::Sync { file: LOG });
    for piece in pieces {
        disk.done(namespace, piece);
    }
    assert!(disk.storage.counters().driver_writes >= 2);
    assert!(matches!(
        disk.wait(namespace, sync),
        Ok(StorageOutcome::Done)
    ));
    disk.done(namespace, StorageOperation::Sync { file: LOG });
    assert_eq!(disk.storage.unsynced_bytes(), 0);
    assert!(disk.read(namespace, LOG, 0, 100_000) == bytes);
}

fn replaces_in_one_step(choice: DriverChoice) {
    let mut disk = Disk::new(choice);
    let namespace = partition(1);
    disk.listed(namespace);
    for contents in [&b"first"[..], b"second and longer", b""] {
        let replace = StorageOperation::Replace {
            file: FileName::Manifest,
            contents: contents.to_vec(),
        };
        disk.done(namespace, replace);
        // The handle that the earlier read opened is not used for the new file of the same name.
        assert_eq!(disk.read(namespace, FileName::Manifest, 0, 100), contents);
    }
    assert_eq!(
        fs::read_dir(disk.directory(namespace)).unwrap().count(),
        1,
        "no temporary file is left"
    );
}

fn removes_a_deleted_partition(choice: DriverChoice) {
    let mut disk = Disk::new(choice);
    for id in [1, 2] {
        disk.listed(partition(id));
        disk.done(partition(id), StorageOperation::Create { file: LOG });
    }
    for id in [1, 1, 2] {
        disk.storage.release(partition(id));
        let (removal, removed) = disk.storage.removal(partition(id), 1);
        assert_eq!(removal.run(removed).unwrap(), None);
    }
    assert_eq!(disk.storage.open_files(), 0);
    let left = fs::read_dir(disk.root.path().join("streams")).unwrap();
    let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(
        left,
        ["removed"],
        "the streams' directories that became empty"
    );
}

/// SHARD-12: lack of memory is reported as an error.
fn is_refused_without_memory(choice: DriverChoice) {
    let mut disk = Disk::new(choice);
    let namespace = partition(1);
    disk.listed(namespace);
    disk.done(namespace, StorageOperation::Create { file: LOG });
    let read = StorageOperation::Read {
        file: LOG,
        position: 0,
        length: u32::MAX,
    };
    assert_eq!(disk.kind(namespace, read), StorageErrorKind::Exhausted);
}

fn operations_wait_for_the_same_opening(choice: DriverChoice) {
    let mut disk = Disk::new(choice);
    let namespace = partition(1);
    disk.listed(namespace);
    disk.done(namespace, StorageOperation::Create { file: LOG });
    disk.done(namespace, write(LOG, 0, &pattern(100)));
    disk.storage.release(namespace);
    let ids: Vec<u64> = (0..10)
        .map(|position| {
            disk.submit(
                namespace,
                StorageOperation::Read {
                    file: LOG,
                    position,
                    length: 1,
                },
            )
        })
        .collect();
    assert_eq!(disk.storage.in_flight(), 1, "one opening serves all");
    for (id, expected) in ids.into_iter().zip(pattern(100)) {
        match disk.wait(namespace, id) {
            Ok(StorageOutcome::Read(buffer)) => assert_eq!(*buffer, [expected]),
            other => panic!("{other:?}"),
        }
    }
}
