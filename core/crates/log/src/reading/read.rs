//! Reading from memory, from storage, and across the boundary between both.

use alloc::boxed::Box;
use alloc::vec::Vec;

use headrace_buffer::Slice;
use headrace_model::{Offset, Timestamp};

use crate::error::ReadError;
use crate::log::Log;
use crate::reading::cursor::{Cursor, Cursors, Place};
use crate::reading::from_storage::ExtractResult;
use crate::reading::load::Load;
use crate::reading::locate::Located;
use crate::reading::plan::Plans;
use crate::storage::{FileName, StorageError, StorageErrorKind, StorageOutcome, StorageRequest};

/// Maximum number of reads of one log that wait for the storage.
const READS_MAX: usize = 1024;
/// Minimum size of a storage read when memory is short.
const SHORT_READ_BYTES: u64 = 16 * 1024;
/// Microseconds before a read is repeated for lack of memory.
const REPEAT_MICROS: u64 = 20_000;
/// Id of a read under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReadId(u64);

/// Start of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadFrom {
    /// Start at this offset, or at the first one retained if that is larger.
    Offset(Offset),
    /// Start at the first message whose server timestamp is not smaller.
    Timestamp(Timestamp),
}

/// Messages read, back to back, in ascending order of offset.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Messages {
    /// The bytes.
    pub slices: Vec<Slice>,
    /// Number of messages.
    pub messages_count: u32,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Offset of the last message, if there is one.
    pub last_offset: Option<Offset>,
}

/// The result of [`Log::read`].
#[derive(Debug)]
pub enum Started {
    /// All messages were in memory.
    Done(Result<Messages, ReadError>),
    /// The storage is read; [`Log::take_finished_read`] will return the result.
    Pending(ReadId),
}

/// Reads under way, and state that speeds up subsequent reads.
#[derive(Debug, Default)]
pub(crate) struct Reads {
    jobs: Vec<Job>,
    finished: Vec<(ReadId, Result<Messages, ReadError>)>,
    next_id: u64,
    pub(crate) cursors: Cursors,
    pub(crate) load: Option<Box<Load>>,
    pub(crate) plans: Plans,
    /// Time at which reads that lacked memory are repeated.
    pub(crate) repeat_at: Option<Timestamp>,
    /// Time of the last storage read.
    pub(crate) now: Timestamp,
    /// Number of index look-ups so far: identifies the least recently used index.
    pub(crate) clock: u64,
}

impl Reads {
    pub(crate) fn is_full(&self) -> bool {
        self.jobs.len() >= READS_MAX
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        self.cursors.memory_bytes()
    }

    pub(crate) fn forget_segment(&mut self, segment: Offset) {
        self.cursors.retain(|place| place.segment != segment);
    }

    /// End all reads as empty after a purge, and drop the cursors.
    pub(crate) fn abort_all(&mut self) {
        for job in self.jobs.drain(..) {
            self.finished.push((job.id, Ok(Messages::default())));
        }
        self.plans.abort_all();
        self.repeat_at = None;
        self.cursors.clear();
        self.load = None;
    }
}

/// State of one read.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) id: ReadId,
    pub(crate) skip: SkipUntil,
    pub(crate) count: u32,
    pub(crate) bytes: u64,
    /// Limit that not even the first message may exceed.
    pub(crate) bytes_max: u64,
    pub(crate) found: Messages,
    /// Place at which the read continues, once known.
    pub(crate) place: Option<Place>,
    /// Bytes read from `place` on.
    pub(crate) read_ahead: Slice,
    /// Size in bytes of the next message.
    pub(crate) needed: u64,
    pub(crate) asked: u64,
    /// Maximum number of bytes to request at once.
    pub(crate) asked_max: u64,
    /// True if memory was lacking and the read has to be repeated.
    pub(crate) waits_for_memory: bool,
    pub(crate) message_bytes: u64,
    pub(crate) sequential: u8,
    /// The segment whose index has to be loaded first.
    pub(crate) waits_for: Option<Offset>,
    pub(crate) has_rebuilt: bool,
}

/// Condition by which leading messages are skipped.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SkipUntil {
    Until(u64),
    OlderThan(u64),
}

impl Log {
    /// Read up to `count` visible messages, within the configured size, but at least one.
    pub fn read(&mut self, from: ReadFrom, count: u32, out: &mut Vec<StorageRequest>) -> Started {
        self.read_within(from, count, u64::MAX, out)
    }

    /// Read as [`read`](Self::read) does, but at most `bytes_max` bytes, also if the first message is larger:
    /// [`ReadError::TooLarge`] then names its size.
    pub fn read_within(
        &mut self,
        from: ReadFrom,
        count: u32,
        bytes_max: u64,
        out: &mut Vec<StorageRequest>,
    ) -> Started {
        let id = ReadId(self.reads.next_id);
        self.reads.next_id += 1;
        let mut job = Job {
            id,
            skip: match from {
                ReadFrom::Offset(offset) => SkipUntil::Until(offset.0),
                ReadFrom::Timestamp(timestamp) => SkipUntil::OlderThan(timestamp.0),
            },
            count,
            bytes: u64::from(self.config.poll_size_bytes_max).min(bytes_max),
            bytes_max,
            found: Messages::default(),
            place: None,
            read_ahead: Slice::default(),
            needed: 0,
            asked: 0,
            asked_max: u64::MAX,
            waits_for_memory: false,
            message_bytes: 0,
            sequential: 0,
            waits_for: None,
            has_rebuilt: false,
        };
        if let Some(result) = self.advance(&mut job, out) {
            Started::Done(result)
        } else {
            self.reads.jobs.push(job);
            Started::Pending(id)
        }
    }

    /// Take a finished read, in no particular order.
    pub fn take_finished_read(&mut self) -> Option<(ReadId, Result<Messages, ReadError>)> {
        self.reads.finished.pop()
    }

    pub(crate) fn read_done(
        &mut self,
        id: ReadId,
        outcome: Result<StorageOutcome, StorageError>,
        out: &mut Vec<StorageRequest>,
    ) {
        let Some(index) = self.reads.jobs.iter().position(|job| job.id == id) else {
            return;
        };
        let mut job = self.reads.jobs.swap_remove(index);
        let segment = job.place.map(|place| place.segment);
        let is_there = segment.is_some_and(|base| self.segment_index(base).is_some());
        let result = match outcome {
            // The segment was removed meanwhile: continue with the first message retained.
            _ if !is_there => self.advance(&mut job, out),
            Ok(StorageOutcome::Read(bytes)) => {
                let is_short = (bytes.len() as u64) < job.asked;
                job.read_ahead = bytes.freeze();
                match self.extract_messages(&mut job) {
                    ExtractResult::Complete => Some(Ok(self.finish(&mut job))),
                    ExtractResult::Partly if !is_short => self.advance(&mut job, out),
                    ExtractResult::Partly => self.damaged(&mut job, false, out),
                    ExtractResult::Damaged { way } => self.damaged(&mut job, way, out),
                    ExtractResult::TooLarge { bytes } => Some(Err(ReadError::TooLarge { bytes })),
                }
            }
            Ok(_) => Some(Err(ReadError::Busy)),
            Err(error) if error.kind == StorageErrorKind::Exhausted => {
                self.shrink_or_defer_read(&mut job, out)
            }
            Err(source) if job.found.messages_count == 0 => Some(Err(ReadError::Storage {
                namespace: self.config.namespace,
                file: FileName::Log(segment.unwrap_or_default()),
                source,
            })),
            Err(_) => Some(Ok(self.finish(&mut job))),
        };
        let result = if result.is_none() && self.has_load_ended(&mut job) {
            self.advance(&mut job, out)
        } else {
            result
        };
        self.finish_or_requeue(job, result);
    }

    /// Request fewer bytes, or retry later, because memory for the read is lacking.
    fn shrink_or_defer_read(
        &mut self,
        job: &mut Job,
        out: &mut Vec<StorageRequest>,
    ) -> Option<Result<Messages, ReadError>> {
        if job.found.messages_count > 0 {
            return Some(Ok(self.finish(job)));
        }
        if job.asked > SHORT_READ_BYTES.max(job.needed) {
            job.asked_max = (job.asked / 4).max(SHORT_READ_BYTES);
            return self.advance(job, out);
        }
        if self.closing {
            return Some(Err(ReadError::Busy));
        }
        job.waits_for_memory = true;
        let at = Timestamp(self.now.0 + REPEAT_MICROS);
        self.reads.repeat_at.get_or_insert(at);
        None
    }

    /// Repeat the reads that lacked memory, if their time has come.
    pub(crate) fn repeat_reads(&mut self, now: Timestamp, out: &mut Vec<StorageRequest>) {
        // A closing log does not wait for memory.
        let is_due = |at| at <= now || self.closing;
        if !self.reads.repeat_at.is_some_and(is_due) {
            return;
        }
        self.reads.repeat_at = None;
        let is_waiting = |job: &mut Job| core::mem::take(&mut job.waits_for_memory);
        let waiting: Vec<Job> = self.reads.jobs.extract_if(.., is_waiting).collect();
        for mut job in waiting {
            let result = self.advance(&mut job, out);
            self.finish_or_requeue(job, result);
        }
    }

    /// Resume the reads and plans that wait for a load after one has ended. Those that wait for this very segment fail
    /// if its load failed.
    pub(crate) fn resume_waiting(
        &mut self,
        loaded: Offset,
        failure: Option<&ReadError>,
        out: &mut Vec<StorageRequest>,
    ) {
        let jobs = core::mem::take(&mut self.reads.jobs);
        for mut job in jobs {
            let result = match (job.waits_for.take(), failure) {
                (None, _) => None,
                (Some(segment), Some(error)) if segment == loaded => Some(Err(error.clone())),
                (Some(_), _) => self.advance(&mut job, out),
            };
            self.finish_or_requeue(job, result);
        }
        self.resume_plans(loaded, failure, out);
    }

    fn finish_or_requeue(&mut self, job: Job, result: Option<Result<Messages, ReadError>>) {
        match result {
            Some(result) => self.reads.finished.push((job.id, result)),
            None => self.reads.jobs.push(job),
        }
    }

    /// Continue until the read is complete or waits for the storage.
    fn advance(
        &mut self,
        job: &mut Job,
        out: &mut Vec<StorageRequest>,
    ) -> Option<Result<Messages, ReadError>> {
        loop {
            let result = self.step(job, out);
            if result.is_some() || !self.has_load_ended(job) {
                return result;
            }
        }
    }

    /// Return whether the load that a read waits for has ended already: an empty index needs no storage read.
    fn has_load_ended(&self, job: &mut Job) -> bool {
        self.reads.load.is_none() && job.waits_for.take().is_some()
    }

    fn step(
        &mut self,
        job: &mut Job,
        out: &mut Vec<StorageRequest>,
    ) -> Option<Result<Messages, ReadError>> {
        loop {
            if let Some(place) = job.place
                && self.segment_index(place.segment).is_none()
            {
                job.place = None;
                job.read_ahead = Slice::default();
                job.needed = 0;
                if job.found.messages_count > 0 {
                    return Some(Ok(self.finish(job)));
                }
            }
            let from = match (job.skip, job.place) {
                (SkipUntil::Until(offset), place) => {
                    let passed = place.map_or(0, |place| place.offset);
                    Offset(offset.max(passed)).max(self.first_offset())
                }
                (SkipUntil::OlderThan(_), Some(place)) => Offset(place.offset),
                (SkipUntil::OlderThan(timestamp), None) => match self.locate(timestamp) {
                    Located::InMemory(offset) => {
                        job.skip = SkipUntil::Until(offset.0);
                        offset
                    }
                    Located::InStorage(place) => {
                        job.place = Some(place);
                        Offset(place.offset)
                    }
                    Located::NotFound => return Some(Ok(self.finish(job))),
                    Located::NeedsIndex(segment) => {
                        return self.wait_for_index(job, segment, false, out);
                    }
                },
            };
            if from >= self.visible_end() || job.count == 0 {
                return Some(Ok(self.finish(job)));
            }
            if self.tail.front().is_some_and(|front| from >= front.base) {
                if let SkipUntil::OlderThan(timestamp) = job.skip {
                    // All messages before `from` are older.
                    match self.locate_in_memory_from(from, timestamp) {
                        Some(offset) => job.skip = SkipUntil::Until(offset.0.max(from.0)),
                        None => return Some(Ok(self.finish(job))),
                    }
                    job.place = None;
                    continue;
                }
                let read = self.read_memory(job, from);
                job.place = None;
                return Some(read.map(|()| self.finish(job)));
            }
            let Some(place) = self.start_place(job, from) else {
                let segment = self.segment_of(from);
                return self.wait_for_index(job, segment, false, out);
            };
            job.place = Some(place);
            if !job.read_ahead.is_empty() {
                match self.extract_messages(job) {
                    ExtractResult::Complete => return Some(Ok(self.finish(job))),
                    ExtractResult::Partly => continue,
                    ExtractResult::Damaged { way } => return self.damaged(job, way, out),
                    ExtractResult::TooLarge { bytes } => {
                        return Some(Err(ReadError::TooLarge { bytes }));
                    }
                }
            }
            return self.request(job, place, from, out);
        }
    }

    pub(crate) fn finish(&mut self, job: &mut Job) -> Messages {
        let found = core::mem::take(&mut job.found);
        if let Some(place) = job.place
            && found.messages_count > 0
            && self
                .tail
                .front()
                .is_none_or(|front| place.offset < front.base.0)
        {
            self.reads.cursors.put(Cursor {
                place,
                read_ahead: core::mem::take(&mut job.read_ahead),
                message_bytes: found.size_bytes / u64::from(found.messages_count),
                sequential: job.sequential,
                at: self.now,
            });
        }
        found
    }
}
