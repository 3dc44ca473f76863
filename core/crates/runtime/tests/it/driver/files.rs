//! Reads, writes and syncs of files.

use std::{fs, os::fd::OwnedFd, sync::Arc};

use headrace_runtime::driver::{DriverChoice, Operation, Outcome};

use crate::driver::harness::{Host, errno, pattern, slices};

fn written(outcome: Outcome) -> std::io::Result<()> {
    match outcome {
        Outcome::FileWritten(result) => result,
        other => panic!("{other:?}"),
    }
}

pub fn writes_reads_and_syncs(choice: DriverChoice) {
    let mut host = Host::new(choice);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    let file: Arc<OwnedFd> = Arc::new(fs::File::create_new(&path).unwrap().into());
    // More slices than one system call takes.
    let bytes = pattern(3_000_000);
    let operation = Operation::WriteFile {
        file: Arc::clone(&file),
        position: 10,
        slices: slices(&bytes, 1_111),
    };
    written(host.execute(operation)).unwrap();
    let Outcome::Synced(synced) = host.execute(Operation::SyncFile {
        file: Arc::clone(&file),
    }) else {
        panic!("not a sync's outcome")
    };
    synced.unwrap();
    assert_eq!(Arc::strong_count(&file), 1, "the driver keeps no handle");
    let stored = fs::read(&path).unwrap();
    assert_eq!(&stored[..10], [0; 10]);
    assert!(stored[10..] == bytes);

    let file: Arc<OwnedFd> = Arc::new(fs::File::open(&path).unwrap().into());
    let mut buffer = host.pool.acquire(2_000_100).unwrap();
    buffer[..100].fill(7);
    let read = Operation::ReadFile {
        file,
        position: 10 + 500,
        buffer,
        start: 100,
        length: 2_000_000,
    };
    let Outcome::FileRead { buffer, result } = host.execute(read) else {
        panic!("not a read's outcome")
    };
    assert_eq!(result.unwrap(), 2_000_000);
    assert_eq!(buffer[..100], [7; 100]);
    assert!(buffer[100..2_000_100] == bytes[500..2_000_500]);
}

pub fn reads_end_with_the_file(choice: DriverChoice) {
    let mut host = Host::new(choice);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    fs::write(&path, pattern(1000)).unwrap();
    let file: Arc<OwnedFd> = Arc::new(fs::File::open(&path).unwrap().into());
    for (position, expected) in [(0, 1000), (900, 100), (1000, 0), (5000, 0)] {
        let buffer = host.pool.acquire(4096).unwrap();
        let read = Operation::ReadFile {
            file: Arc::clone(&file),
            position,
            buffer,
            start: 0,
            length: 4096,
        };
        let Outcome::FileRead { buffer, result } = host.execute(read) else {
            panic!("not a read's outcome")
        };
        assert_eq!(result.unwrap(), expected);
        let start = usize::try_from(position).unwrap().min(1000);
        assert_eq!(&buffer[..expected], &pattern(1000)[start..start + expected]);
    }
}

pub fn reports_errors_with_the_buffer(choice: DriverChoice) {
    let mut host = Host::new(choice);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    let write_only: Arc<OwnedFd> = Arc::new(fs::File::create(&path).unwrap().into());
    let buffer = host.pool.acquire(64).unwrap();
    let read = Operation::ReadFile {
        file: write_only,
        position: 0,
        buffer,
        start: 0,
        length: 64,
    };
    let Outcome::FileRead { buffer, result } = host.execute(read) else {
        panic!("not a read's outcome")
    };
    assert_eq!(errno(result), libc::EBADF);
    let read_only: Arc<OwnedFd> = Arc::new(fs::File::open(&path).unwrap().into());
    let write = Operation::WriteFile {
        file: Arc::clone(&read_only),
        position: 0,
        slices: slices(&[1; 9], 2),
    };
    assert_eq!(errno(written(host.execute(write))), libc::EBADF);
    // Beyond the buffer's capacity.
    let length = buffer.capacity();
    let read = Operation::ReadFile {
        file: read_only,
        position: 0,
        buffer,
        start: 1,
        length,
    };
    let Outcome::FileRead { result, .. } = host.execute(read) else {
        panic!("not a read's outcome")
    };
    assert_eq!(result.unwrap_err().kind(), std::io::ErrorKind::InvalidInput);
}

/// Reads that exceed the size of either queue of the ring.
pub fn many_reads_at_once(choice: DriverChoice) {
    let mut host = Host::new(choice);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    fs::write(&path, pattern(10_000)).unwrap();
    let file: Arc<OwnedFd> = Arc::new(fs::File::open(&path).unwrap().into());
    let tokens: Vec<u64> = (0..10_000)
        .map(|position| {
            let buffer = host.pool.acquire(1).unwrap();
            let file = Arc::clone(&file);
            host.submit(Operation::ReadFile {
                file,
                position,
                buffer,
                start: 0,
                length: 1,
            })
        })
        .collect();
    for (token, expected) in tokens.into_iter().zip(pattern(10_000)) {
        let Outcome::FileRead { buffer, result } = host.wait(token) else {
            panic!("not a read's outcome")
        };
        assert_eq!((result.unwrap(), buffer[0]), (1, expected));
    }
}
