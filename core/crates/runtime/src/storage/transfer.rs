//! Transfers between buffers and files: on this thread if they do not block, otherwise by the driver.

use std::{
    io::IoSliceMut,
    os::fd::OwnedFd,
    sync::Arc,
    time::{Duration, Instant},
};

use headrace_buffer::{Buffer, Slice};
use headrace_log::storage::{StorageError, StorageErrorKind, StorageOutcome};
use rustix::io::{Errno, ReadWriteFlags};

use super::{Answers, Job, Request, Storage, answer, done, total_bytes};
use crate::{
    driver::{Driver, Operation},
    vectored,
};

/// Number of unsynced bytes above which the kernel is likely to throttle writers.
pub(super) const UNSYNCED_BYTES_MAX: u64 = 256 << 20;
/// Time since the last sync within which the next one is expected. Without a sync in progress or within this time,
/// syncs are not in use: dirty pages are the kernel's business, and do not indicate that the device falls behind.
const SYNCS_EXPECTED_WITHIN: Duration = Duration::from_secs(2);
/// Duration above which an inline write counts as throttled by the kernel because of too many dirty pages, beyond the
/// time that its size explains.
const SLOW_WRITE: Duration = Duration::from_millis(2);
/// Time that a mebibyte takes without throttling: 0.5 GB/s.
const SLOW_WRITE_PER_MEBIBYTE: Duration = Duration::from_millis(2);
/// Time after a slow write during which worker threads do the writing.
const AVOID_WRITING_FOR: Duration = Duration::from_millis(250);

impl Storage {
    pub(super) fn write(
        &mut self,
        driver: &mut dyn Driver,
        request: Request,
        file: Arc<OwnedFd>,
        position: u64,
        slices: Vec<Slice>,
        answers: Answers<'_>,
    ) {
        let begin = Instant::now();
        if self.would_wait(begin) {
            self.counters.driver_writes += 1;
            let operation = Operation::WriteFile {
                file,
                position,
                slices,
            };
            self.start(driver, Job::Write(request), operation);
            return;
        }
        self.counters.inline_writes += 1;
        let result = vectored::write_all(&file, position, &slices);
        let mebibytes = u32::try_from(total_bytes(&slices) >> 20).unwrap_or(u32::MAX);
        let end = Instant::now();
        if end - begin > SLOW_WRITE + SLOW_WRITE_PER_MEBIBYTE * mebibytes {
            self.write_elsewhere_until = Some(end + AVOID_WRITING_FOR);
        }
        answer(request, done(result), answers);
    }

    /// Return whether a write now is likely to block on the device.
    fn would_wait(&mut self, now: Instant) -> bool {
        if self.files.unsynced_bytes() > self.unsynced_bytes_max {
            let synced_lately = |ended: Instant| now - ended < SYNCS_EXPECTED_WITHIN;
            if self.syncs_in_flight > 0 || self.last_sync_ended.is_some_and(synced_lately) {
                return true;
            }
            self.files.forget_unsynced();
        }
        self.write_elsewhere_until.is_some_and(|until| now < until)
    }

    pub(super) fn read(
        &mut self,
        driver: &mut dyn Driver,
        request: Request,
        file: Arc<OwnedFd>,
        position: u64,
        length: usize,
        answers: Answers<'_>,
    ) {
        let Ok(mut buffer) = self.pool.acquire_to_read(length) else {
            let error = StorageError {
                kind: StorageErrorKind::Exhausted,
                os_error: libc::ENOMEM,
            };
            answer(request, Err(error), answers);
            return;
        };
        let (count, complete) = self.read_cached(&file, position, &mut buffer);
        if complete {
            self.counters.inline_reads += 1;
            buffer.set_len(count);
            answer(request, Ok(StorageOutcome::Read(buffer)), answers);
            return;
        }
        self.counters.driver_reads += 1;
        let operation = Operation::ReadFile {
            file,
            position: position + count as u64,
            buffer,
            start: count,
            length: length - count,
        };
        self.start(driver, Job::Read(request, count), operation);
    }

    /// Read from the page cache. Returns the number of bytes and whether the read is complete.
    fn read_cached(&mut self, file: &OwnedFd, position: u64, buffer: &mut Buffer) -> (usize, bool) {
        let mut count = 0;
        while count < buffer.len() && self.reads_from_cache {
            let mut room = [IoSliceMut::new(&mut buffer[count..])];
            match rustix::io::preadv2(
                file,
                &mut room,
                position + count as u64,
                ReadWriteFlags::NOWAIT,
            ) {
                Ok(0) => return (count, true),
                Ok(more) => count += more,
                Err(Errno::INTR) => {}
                Err(Errno::OPNOTSUPP) => self.reads_from_cache = false,
                // Not cached; any other error will recur in the blocking read.
                Err(_) => break,
            }
        }
        (count, count == buffer.len())
    }
}
