//! Reading at a rate, past the page cache, until the scrub is stopped.

use std::{
    cell::Cell,
    fs::{File, OpenOptions},
    io,
    os::{
        fd::AsFd,
        unix::fs::{FileExt, MetadataExt, OpenOptionsExt},
    },
    path::Path,
    sync::{
        Condvar, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use rustix::fs::Advice;

use crate::fsck::Reading;

/// Unit of positions, sizes and addresses for reads past the page cache.
const BLOCK_BYTES: usize = 4096;
/// Number of bytes that a read counts at least: many small files take time, too.
const READ_BYTES_MIN: u64 = 16 << 10;

/// Request to stop, which interrupts every wait.
#[derive(Default)]
pub(super) struct Stop {
    is_requested: Mutex<bool>,
    changed: Condvar,
}

impl Stop {
    pub(super) fn request(&self) {
        *self
            .is_requested
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }

    /// Wait for this time; returns false at once if a stop is requested.
    pub(super) fn waited(&self, time: Duration) -> bool {
        let guard = self
            .is_requested
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let waited = self
            .changed
            .wait_timeout_while(guard, time, |is_requested| !*is_requested);
        let (is_requested, _) = waited.unwrap_or_else(PoisonError::into_inner);
        !*is_requested
    }
}

/// Files read at a rate.
pub(super) struct Paced<'a> {
    stop: &'a Stop,
    bytes_per_second: u64,
    /// Time of the next read.
    next: Cell<Instant>,
    /// Number of bytes read.
    bytes: &'a AtomicU64,
}

impl<'a> Paced<'a> {
    pub(super) fn new(stop: &'a Stop, bytes_per_second: u64, bytes: &'a AtomicU64) -> Self {
        Self {
            stop,
            bytes_per_second,
            next: Cell::new(Instant::now()),
            bytes,
        }
    }

    /// Wait until the rate permits a read.
    fn wait_for_turn(&self) -> io::Result<()> {
        let time = self.next.get().saturating_duration_since(Instant::now());
        if self.stop.waited(time) {
            Ok(())
        } else {
            Err(io::ErrorKind::Interrupted.into())
        }
    }

    /// Count a read, which puts off the next one.
    fn count(&self, count: usize) {
        self.bytes.fetch_add(count as u64, Ordering::Relaxed);
        let counted = (count as u64).max(READ_BYTES_MIN);
        let nanos = u128::from(counted) * 1_000_000_000 / u128::from(self.bytes_per_second.max(1));
        let takes = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        let now = Instant::now();
        let next = self.next.get().max(now).checked_add(takes);
        self.next.set(next.unwrap_or(now));
    }
}

/// Return whether reads past the page cache are not supported by the file system.
fn is_unsupported(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EINVAL)
}

impl Reading for Paced<'_> {
    fn open(&self, path: &Path) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.read(true);
        match options.custom_flags(libc::O_DIRECT).open(path) {
            Err(error) if is_unsupported(&error) => File::open(path),
            result => result,
        }
    }

    fn read_at(&self, file: &File, position: u64, wanted: usize) -> io::Result<Vec<u8>> {
        let before = position % BLOCK_BYTES as u64;
        let skipped = usize::try_from(before).unwrap_or(0);
        let length = (skipped + wanted).next_multiple_of(BLOCK_BYTES);
        let mut memory = vec![0; length + BLOCK_BYTES];
        let start = memory.as_ptr().align_offset(BLOCK_BYTES);
        let mut filled = 0;
        while filled < skipped + wanted {
            // Reads of several megabytes, of large messages, are divided.
            let end = length.min(filled + (1 << 20));
            self.wait_for_turn()?;
            if file.metadata()?.nlink() == 0 {
                // Its space is free as soon as it is closed.
                return Err(io::ErrorKind::NotFound.into());
            }
            let room = &mut memory[start + filled..start + end];
            let count = match file.read_at(room, position - before + filled as u64) {
                Err(error) if is_unsupported(&error) => {
                    let flags = rustix::fs::fcntl_getfl(file)?;
                    rustix::fs::fcntl_setfl(file, flags - rustix::fs::OFlags::DIRECT)?;
                    continue;
                }
                result => result?,
            };
            self.count(count);
            filled += count;
            if count == 0 || !count.is_multiple_of(BLOCK_BYTES) {
                break;
            }
        }
        let is_direct = rustix::fs::fcntl_getfl(file)?.contains(rustix::fs::OFlags::DIRECT);
        if !is_direct {
            // What was read once is not needed again, and consumers need the room.
            let _ = rustix::fs::fadvise(file.as_fd(), position, None, Advice::DontNeed);
        }
        let end = filled.min(skipped + wanted).max(skipped);
        Ok(memory[start + skipped..start + end].to_vec())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn any_bytes_of_a_file_are_read_at_the_rate() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("file");
        let contents: Vec<u8> = (0..300_000_u32).map(|byte| (byte % 251) as u8).collect();
        fs::write(&path, &contents).unwrap();
        let (stop, bytes) = (Stop::default(), AtomicU64::new(0));
        let paced = Paced::new(&stop, 2 << 20, &bytes);
        let file = paced.open(&path).unwrap();
        let begin = Instant::now();
        for (position, wanted) in [
            (0, 300_000),
            (5000, 100),
            (4095, 4098),
            (299_990, 500),
            (400_000, 10),
        ] {
            let found = paced.read_at(&file, position, wanted).unwrap();
            let start = usize::try_from(position).unwrap().min(contents.len());
            let end = (start + wanted).min(contents.len());
            assert_eq!(found, contents[start..end], "{position}");
        }
        // All reads but the last take their time before the next one.
        assert!(begin.elapsed() >= Duration::from_millis(150));
        assert!(bytes.load(Ordering::Relaxed) >= 300_000);
    }

    #[test]
    fn a_stop_ends_a_wait_and_a_removed_file_is_let_go() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("file");
        fs::write(&path, b"contents").unwrap();
        let (stop, bytes) = (Stop::default(), AtomicU64::new(0));
        let paced = Paced::new(&stop, 1, &bytes);
        let file = paced.open(&path).unwrap();
        assert_eq!(paced.read_at(&file, 0, 100).unwrap(), b"contents");
        std::thread::scope(|scope| {
            // At this rate the next read would wait for hours.
            let waiting = scope.spawn(|| stop.waited(Duration::from_secs(3600)));
            stop.request();
            assert!(!waiting.join().unwrap());
        });
        let kind = paced.read_at(&file, 0, 100).unwrap_err().kind();
        assert_eq!(kind, io::ErrorKind::Interrupted);
        let stop = Stop::default();
        let paced = Paced::new(&stop, 1 << 30, &bytes);
        fs::remove_file(&path).unwrap();
        let kind = paced.read_at(&file, 0, 100).unwrap_err().kind();
        assert_eq!(kind, io::ErrorKind::NotFound);
    }
}
