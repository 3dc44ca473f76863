//! Reading from memory, from storage, and across the boundary between both.

use alloc::vec::Vec;

use headrace_buffer::Slice;
use headrace_model::{Offset, Timestamp};

use crate::error::ReadError;
use crate::operations::pending::ReadId;
use crate::reading::Reader;
use crate::reading::cursor::Cursor;
use crate::reading::from_memory::read_memory;
use crate::reading::from_storage::{ExtractResult, extract_messages};
use crate::reading::job::{Job, Messages, ReadFrom, SkipUntil, Started};
use crate::reading::locate::{Located, locate, locate_in_memory_from};
use crate::state::LogState;
use crate::storage::{FileName, StorageError, StorageErrorKind, StorageOutcome, StorageRequest};

/// Minimum size of a storage read when memory is short.
const SHORT_READ_BYTES: u64 = 16 * 1024;
/// Microseconds before a read is repeated for lack of memory.
const REPEAT_MICROS: u64 = 20_000;

impl Reader {
    /// Read up to `count` visible messages, within the configured size and `bytes_max`.
    pub(crate) fn read(
        &mut self,
        from: ReadFrom,
        (count, bytes_max): (u32, u64),
        state: &mut LogState,
        out: &mut Vec<StorageRequest>,
    ) -> Started {
        let id = ReadId(self.next_id);
        self.next_id += 1;
        let mut job = Job {
            id,
            skip: match from {
                ReadFrom::Offset(offset) => SkipUntil::Until(offset.0),
                ReadFrom::Timestamp(timestamp) => SkipUntil::OlderThan(timestamp.0),
            },
            count,
            bytes: u64::from(state.config.poll_size_bytes_max).min(bytes_max),
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
        if let Some(result) = self.advance(&mut job, state, out) {
            Started::Done(result)
        } else {
            self.jobs.push(job);
            Started::Pending(id)
        }
    }

    /// Take a finished read, in no particular order.
    pub(crate) fn take_finished(&mut self) -> Option<(ReadId, Result<Messages, ReadError>)> {
        self.finished.pop()
    }

    pub(crate) fn read_done(
        &mut self,
        id: ReadId,
        outcome: Result<StorageOutcome, StorageError>,
        state: &mut LogState,
        out: &mut Vec<StorageRequest>,
    ) {
        self.now = state.now;
        let Some(index) = self.jobs.iter().position(|job| job.id == id) else {
            return;
        };
        let mut job = self.jobs.swap_remove(index);
        let segment = job.place.map(|place| place.segment);
        let is_there = segment.is_some_and(|base| state.segments.index_of(base).is_some());
        let result = match outcome {
            // The segment was removed meanwhile: continue with the first message retained.
            _ if !is_there => self.advance(&mut job, state, out),
            Ok(StorageOutcome::Read(bytes)) => {
                let is_short = (bytes.len() as u64) < job.asked;
                job.read_ahead = bytes.freeze();
                match extract_messages(&mut job, self.now, state) {
                    ExtractResult::Complete => Some(Ok(self.finish(&mut job, state))),
                    ExtractResult::Partly if !is_short => self.advance(&mut job, state, out),
                    ExtractResult::Partly => self.damaged(&mut job, false, state, out),
                    ExtractResult::Damaged { way } => self.damaged(&mut job, way, state, out),
                    ExtractResult::TooLarge { bytes } => Some(Err(ReadError::TooLarge { bytes })),
                }
            }
            Ok(_) => Some(Err(ReadError::Busy)),
            Err(error) if error.kind == StorageErrorKind::Exhausted => {
                self.shrink_or_defer_read(&mut job, state, out)
            }
            Err(source) if job.found.messages_count == 0 => Some(Err(ReadError::Storage {
                namespace: state.config.namespace,
                file: FileName::Log(segment.unwrap_or_default()),
                source,
            })),
            Err(_) => Some(Ok(self.finish(&mut job, state))),
        };
        let result = if result.is_none() && self.has_load_ended(&mut job) {
            self.advance(&mut job, state, out)
        } else {
            result
        };
        self.finish_or_requeue(job, result);
    }

    /// Request fewer bytes, or retry later, because memory for the read is lacking.
    fn shrink_or_defer_read(
        &mut self,
        job: &mut Job,
        state: &mut LogState,
        out: &mut Vec<StorageRequest>,
    ) -> Option<Result<Messages, ReadError>> {
        if job.found.messages_count > 0 {
            return Some(Ok(self.finish(job, state)));
        }
        if job.asked > SHORT_READ_BYTES.max(job.needed) {
            job.asked_max = (job.asked / 4).max(SHORT_READ_BYTES);
            return self.advance(job, state, out);
        }
        if state.closing {
            return Some(Err(ReadError::Busy));
        }
        job.waits_for_memory = true;
        let at = Timestamp(state.now.0 + REPEAT_MICROS);
        self.repeat_at.get_or_insert(at);
        None
    }

    /// Repeat the reads that lacked memory, if their time has come.
    pub(crate) fn repeat_reads(
        &mut self,
        now: Timestamp,
        state: &mut LogState,
        out: &mut Vec<StorageRequest>,
    ) {
        // A closing log does not wait for memory.
        let is_due = |at| at <= now || state.closing;
        if !self.repeat_at.is_some_and(is_due) {
            return;
        }
        self.repeat_at = None;
        let is_waiting = |job: &mut Job| core::mem::take(&mut job.waits_for_memory);
        let waiting: Vec<Job> = self.jobs.extract_if(.., is_waiting).collect();
        for mut job in waiting {
            let result = self.advance(&mut job, state, out);
            self.finish_or_requeue(job, result);
        }
    }

    /// Resume the reads and plans that wait for a load after one has ended. Those that wait for this very segment fail
    /// if its load failed.
    pub(crate) fn resume_waiting(
        &mut self,
        loaded: Offset,
        failure: Option<&ReadError>,
        state: &mut LogState,
        out: &mut Vec<StorageRequest>,
    ) {
        let jobs = core::mem::take(&mut self.jobs);
        for mut job in jobs {
            let result = match (job.waits_for.take(), failure) {
                (None, _) => None,
                (Some(segment), Some(error)) if segment == loaded => Some(Err(error.clone())),
                (Some(_), _) => self.advance(&mut job, state, out),
            };
            self.finish_or_requeue(job, result);
        }
        self.resume_plans(loaded, failure, state, out);
    }

    fn finish_or_requeue(&mut self, job: Job, result: Option<Result<Messages, ReadError>>) {
        match result {
            Some(result) => self.finished.push((job.id, result)),
            None => self.jobs.push(job),
        }
    }

    /// Continue until the read is complete or waits for the storage.
    fn advance(
        &mut self,
        job: &mut Job,
        state: &mut LogState,
        out: &mut Vec<StorageRequest>,
    ) -> Option<Result<Messages, ReadError>> {
        loop {
            let result = self.step(job, state, out);
            if result.is_some() || !self.has_load_ended(job) {
                return result;
            }
        }
    }

    /// Return whether the load that a read waits for has ended already: an empty index needs no storage read.
    fn has_load_ended(&self, job: &mut Job) -> bool {
        self.load.is_none() && job.waits_for.take().is_some()
    }

    fn step(
        &mut self,
        job: &mut Job,
        state: &mut LogState,
        out: &mut Vec<StorageRequest>,
    ) -> Option<Result<Messages, ReadError>> {
        loop {
            if let Some(place) = job.place
                && state.segments.index_of(place.segment).is_none()
            {
                job.place = None;
                job.read_ahead = Slice::default();
                job.needed = 0;
                if job.found.messages_count > 0 {
                    return Some(Ok(self.finish(job, state)));
                }
            }
            let from = match (job.skip, job.place) {
                (SkipUntil::Until(offset), place) => {
                    let passed = place.map_or(0, |place| place.offset);
                    Offset(offset.max(passed)).max(state.first_offset())
                }
                (SkipUntil::OlderThan(_), Some(place)) => Offset(place.offset),
                (SkipUntil::OlderThan(timestamp), None) => match locate(state, timestamp) {
                    Located::InMemory(offset) => {
                        job.skip = SkipUntil::Until(offset.0);
                        offset
                    }
                    Located::InStorage(place) => {
                        job.place = Some(place);
                        Offset(place.offset)
                    }
                    Located::NotFound => return Some(Ok(self.finish(job, state))),
                    Located::NeedsIndex(segment) => {
                        return self.wait_for_index(job, segment, false, state, out);
                    }
                },
            };
            if from >= state.visible_end() || job.count == 0 {
                return Some(Ok(self.finish(job, state)));
            }
            if state.tail.front().is_some_and(|front| from >= front.base) {
                if let SkipUntil::OlderThan(timestamp) = job.skip {
                    // All messages before `from` are older.
                    match locate_in_memory_from(state, from, timestamp) {
                        Some(offset) => job.skip = SkipUntil::Until(offset.0.max(from.0)),
                        None => return Some(Ok(self.finish(job, state))),
                    }
                    job.place = None;
                    continue;
                }
                let read = read_memory(job, from, state);
                job.place = None;
                return Some(read.map(|()| self.finish(job, state)));
            }
            let Some(place) = self.start_place(job, from, state) else {
                let segment = state.segments.base_of(from);
                return self.wait_for_index(job, segment, false, state, out);
            };
            job.place = Some(place);
            if !job.read_ahead.is_empty() {
                match extract_messages(job, self.now, state) {
                    ExtractResult::Complete => return Some(Ok(self.finish(job, state))),
                    ExtractResult::Partly => continue,
                    ExtractResult::Damaged { way } => return self.damaged(job, way, state, out),
                    ExtractResult::TooLarge { bytes } => {
                        return Some(Err(ReadError::TooLarge { bytes }));
                    }
                }
            }
            return self.request(job, place, from, state, out);
        }
    }

    pub(crate) fn finish(&mut self, job: &mut Job, state: &LogState) -> Messages {
        let found = core::mem::take(&mut job.found);
        if let Some(place) = job.place
            && found.messages_count > 0
            && state
                .tail
                .front()
                .is_none_or(|front| place.offset < front.base.0)
        {
            self.cursors.put(Cursor {
                place,
                read_ahead: core::mem::take(&mut job.read_ahead),
                message_bytes: found.size_bytes / u64::from(found.messages_count),
                sequential: job.sequential,
                at: state.now,
            });
        }
        found
    }
}
