//! Reading: from memory, from storage, and from one over to the other.

use alloc::boxed::Box;
use alloc::vec::Vec;

use headrace_buffer::Slice;
use headrace_model::{Offset, Timestamp};

use crate::cursor::{Cursor, Cursors, Place};
use crate::entry::COARSE_INTERVAL_BYTES;
use crate::error::ReadError;
use crate::load::Load;
use crate::log::{Log, Pending};
use crate::storage::{
    FileName, StorageError, StorageErrorKind, StorageOperation, StorageOutcome, StorageRequest,
};
use crate::walk::{Stop, checksum_matches, message_at};

/// Reads of one log that wait for the storage, at most.
const READS_MAX: usize = 1024;
/// Bytes of one storage read, at most, unless a single message is larger.
const READ_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// What a sequential reader reads at least.
const AHEAD_BYTES: u64 = 1024 * 1024;
/// Polls in a row after which a reader counts as sequential.
const SEQUENTIAL_FROM: u8 = 2;

/// Names a read that is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReadId(u64);

/// Where to start reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadFrom {
    /// At this offset, or at the first one retained if that is larger.
    Offset(Offset),
    /// At the first message the server timestamp of which is not smaller.
    Timestamp(Timestamp),
}

/// Messages read, back to back, in ascending order of offset.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Messages {
    /// The bytes.
    pub slices: Vec<Slice>,
    /// How many messages they are.
    pub messages_count: u32,
    /// How many bytes.
    pub size_bytes: u64,
    /// Offset of the last message, when there is one.
    pub last_offset: Option<Offset>,
}

/// The result of [`Log::read`].
#[derive(Debug)]
pub enum Started {
    /// All was in memory.
    Done(Result<Messages, ReadError>),
    /// The storage was asked; [`Log::take_finished_read`] will have the result.
    Pending(ReadId),
}

/// Reads under way and what speeds up the next ones.
#[derive(Debug, Default)]
pub(crate) struct Reads {
    jobs: Vec<Job>,
    finished: Vec<(ReadId, Result<Messages, ReadError>)>,
    next_id: u64,
    pub(crate) cursors: Cursors,
    pub(crate) load: Option<Box<Load>>,
    /// Look-ups in indexes so far: tells which index was used last.
    pub(crate) clock: u64,
}

impl Reads {
    pub(crate) fn trim(&mut self) {
        self.cursors.clear();
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        self.cursors.memory_bytes()
    }

    pub(crate) fn forget_segment(&mut self, segment: Offset) {
        self.cursors.retain(|place| place.segment != segment);
    }

    /// After a purge there is nothing to be read.
    pub(crate) fn forget_everything(&mut self) {
        for job in self.jobs.drain(..) {
            self.finished.push((job.id, Ok(Messages::default())));
        }
        self.cursors.clear();
        self.load = None;
    }
}

/// One read under way.
#[derive(Debug)]
struct Job {
    id: ReadId,
    skip: Skip,
    count: u32,
    bytes: u64,
    found: Messages,
    /// Where it goes on, once that is known.
    place: Option<Place>,
    /// Bytes read from `place` on.
    ahead: Slice,
    /// The next message has this many bytes.
    needed: u64,
    asked: u64,
    message_bytes: u64,
    sequential: u8,
    /// The segment whose index has to be loaded first.
    waits_for: Option<Offset>,
    has_rebuilt: bool,
}

/// Which messages are passed over.
#[derive(Debug, Clone, Copy)]
enum Skip {
    Until(u64),
    OlderThan(u64),
}

/// Where the first message with a timestamp is.
enum Located {
    InMemory(Offset),
    InStorage(Place),
    Nowhere,
    /// After the index of this segment was loaded it will be known.
    NeedsIndex(Offset),
}

enum Walked {
    /// All that was wanted, or all there is.
    Complete,
    /// More has to be read.
    Partly,
    /// Something is wrong at `place`; with the way there, if the message wanted lies behind it.
    Damaged { way: bool },
}

impl Log {
    /// Read up to `count` messages that are visible, and no more bytes than the settings allow; one at least.
    pub fn read(&mut self, from: ReadFrom, count: u32, out: &mut Vec<StorageRequest>) -> Started {
        let id = ReadId(self.reads.next_id);
        self.reads.next_id += 1;
        let mut job = Job {
            id,
            skip: match from {
                ReadFrom::Offset(offset) => Skip::Until(offset.0),
                ReadFrom::Timestamp(timestamp) => Skip::OlderThan(timestamp.0),
            },
            count,
            bytes: u64::from(self.config.poll_size_bytes_max),
            found: Messages::default(),
            place: None,
            ahead: Slice::default(),
            needed: 0,
            asked: 0,
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

    /// A read that has ended since, in no particular order.
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
            // The segment was removed meanwhile: go on with the first message retained.
            _ if !is_there => self.advance(&mut job, out),
            Ok(StorageOutcome::Read(bytes)) => {
                let is_short = (bytes.len() as u64) < job.asked;
                job.ahead = bytes.freeze();
                match self.walk(&mut job) {
                    Walked::Complete => Some(Ok(self.finish(&mut job))),
                    Walked::Partly if !is_short => self.advance(&mut job, out),
                    Walked::Partly => self.damaged(&mut job, false, out),
                    Walked::Damaged { way } => self.damaged(&mut job, way, out),
                }
            }
            Ok(_) => Some(Err(ReadError::Busy)),
            Err(error) if error.kind == StorageErrorKind::Exhausted => Some(Err(ReadError::Busy)),
            Err(source) if job.found.messages_count == 0 => Some(Err(ReadError::Storage {
                namespace: self.config.namespace,
                file: FileName::Log(segment.unwrap_or_default()),
                source,
            })),
            Err(_) => Some(Ok(self.finish(&mut job))),
        };
        self.end_or_keep(job, result);
    }

    /// A load has ended: whoever waits for one goes on, or fails if it was this one and it failed.
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
            self.end_or_keep(job, result);
        }
    }

    fn end_or_keep(&mut self, job: Job, result: Option<Result<Messages, ReadError>>) {
        match result {
            Some(result) => self.reads.finished.push((job.id, result)),
            None => self.reads.jobs.push(job),
        }
    }

    /// Go on until the read is complete or waits for the storage.
    fn advance(
        &mut self,
        job: &mut Job,
        out: &mut Vec<StorageRequest>,
    ) -> Option<Result<Messages, ReadError>> {
        loop {
            if let Some(place) = job.place
                && self.segment_index(place.segment).is_none()
            {
                job.place = None;
                job.ahead = Slice::default();
                if job.found.messages_count > 0 {
                    return Some(Ok(self.finish(job)));
                }
            }
            let from = match (job.skip, job.place) {
                (Skip::Until(offset), place) => {
                    let passed = place.map_or(0, |place| place.offset);
                    Offset(offset.max(passed)).max(self.first_offset())
                }
                (Skip::OlderThan(_), Some(place)) => Offset(place.offset),
                (Skip::OlderThan(timestamp), None) => match self.locate(timestamp) {
                    Located::InMemory(offset) => {
                        job.skip = Skip::Until(offset.0);
                        offset
                    }
                    Located::InStorage(place) => {
                        job.place = Some(place);
                        Offset(place.offset)
                    }
                    Located::Nowhere => return Some(Ok(self.finish(job))),
                    Located::NeedsIndex(segment) => {
                        return self.wait_for_index(job, segment, false, out);
                    }
                },
            };
            if from >= self.visible_end() || job.count == 0 {
                return Some(Ok(self.finish(job)));
            }
            if self.tail.front().is_some_and(|front| from >= front.base) {
                if let Skip::OlderThan(timestamp) = job.skip {
                    // Everything in storage is older.
                    match self.locate_in_memory(timestamp) {
                        Some(offset) => job.skip = Skip::Until(offset.0.max(from.0)),
                        None => return Some(Ok(self.finish(job))),
                    }
                    job.place = None;
                    continue;
                }
                self.read_memory(job, from);
                job.place = None;
                return Some(Ok(self.finish(job)));
            }
            let Some(place) = self.place_for(job, from) else {
                let segment = self.segment_of(from);
                return self.wait_for_index(job, segment, false, out);
            };
            job.place = Some(place);
            if !job.ahead.is_empty() {
                match self.walk(job) {
                    Walked::Complete => return Some(Ok(self.finish(job))),
                    Walked::Partly => continue,
                    Walked::Damaged { way } => return self.damaged(job, way, out),
                }
            }
            return self.request(job, place, from, out);
        }
    }

    fn finish(&mut self, job: &mut Job) -> Messages {
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
                ahead: core::mem::take(&mut job.ahead),
                message_bytes: found.size_bytes / u64::from(found.messages_count),
                sequential: job.sequential,
            });
        }
        found
    }

    fn segment_of(&self, offset: Offset) -> Offset {
        let after = self
            .segments
            .partition_point(|segment| segment.base <= offset);
        self.segments[after.saturating_sub(1)].base
    }

    /// A boundary from which the walk to `from` is short: where the last poll ended, or what the index knows.
    fn place_for(&mut self, job: &mut Job, from: Offset) -> Option<Place> {
        let base = self.segment_of(from);
        if let Some(place) = job.place
            && place.segment == base
        {
            return Some(place);
        }
        job.ahead = Slice::default();
        if let Some(place) = job.place
            && job.found.messages_count > 0
            && place.offset == base.0
        {
            return Some(Place {
                segment: base,
                position: 0,
                offset: base.0,
            });
        }
        if job.found.messages_count == 0
            && let Some(cursor) = self.reads.cursors.take(from.0)
            && self.segment_index(cursor.place.segment).is_some()
        {
            job.ahead = cursor.ahead;
            job.message_bytes = cursor.message_bytes;
            job.sequential = cursor.sequential.saturating_add(1);
            if cursor.place.segment == base {
                return Some(cursor.place);
            }
            // It stopped at the end of the segment before.
            job.ahead = Slice::default();
            return Some(Place {
                segment: base,
                position: 0,
                offset: base.0,
            });
        }
        self.reads.clock += 1;
        let clock = self.reads.clock;
        let index = &mut self.segment_mut(base)?.index;
        index.used = clock;
        let entry = index.floor(from.0)?;
        Some(Place {
            segment: base,
            position: entry.position,
            offset: entry.offset,
        })
    }

    /// Ask the storage for what the job wants next.
    fn request(
        &mut self,
        job: &mut Job,
        place: Place,
        from: Offset,
        out: &mut Vec<StorageRequest>,
    ) -> Option<Result<Messages, ReadError>> {
        let end = self.readable_end(place.segment);
        if place.position >= end || job.needed > end - place.position {
            return self.damaged(job, true, out);
        }
        if self.reads.jobs.len() >= READS_MAX {
            return Some(Err(ReadError::Busy));
        }
        let wanted = self.wanted_bytes(job, place, from);
        let length = wanted.max(job.needed).min(end - place.position);
        job.asked = length;
        job.needed = 0;
        let operation = StorageOperation::Read {
            file: FileName::Log(place.segment),
            position: place.position,
            length: u32::try_from(length).expect("a message is smaller than 4 GiB"),
        };
        self.issue(Pending::Read(job.id), operation, out);
        None
    }

    /// Where the bytes of a segment that have to be read from storage end.
    fn readable_end(&self, base: Offset) -> u64 {
        let index = self.segment_index(base).expect("the place is in a segment");
        let written = self.segments[index].written;
        match self.tail.front() {
            Some(front) if front.segment == base => written.min(front.position),
            _ => written,
        }
    }

    fn wanted_bytes(&self, job: &Job, place: Place, from: Offset) -> u64 {
        let index = self
            .segment_index(place.segment)
            .expect("the place is in a segment");
        let last = from.0.saturating_add(u64::from(job.count));
        let by_count = match self.segments[index].index.ceiling(last) {
            Some(entry) if entry.position > place.position => entry.position - place.position,
            _ if job.message_bytes > 0 => {
                u64::from(job.count).saturating_mul(job.message_bytes / 4 * 5 + 64)
            }
            _ => u64::MAX,
        };
        let passed_over = if place.offset < from.0 || matches!(job.skip, Skip::OlderThan(_)) {
            COARSE_INTERVAL_BYTES
        } else {
            0
        };
        let wanted = by_count.min(job.bytes.saturating_add(passed_over));
        let at_least = if job.sequential >= SEQUENTIAL_FROM {
            AHEAD_BYTES
        } else {
            COARSE_INTERVAL_BYTES / 4
        };
        wanted.max(at_least).min(READ_BYTES_MAX)
    }

    /// Take messages out of `job.ahead`, which starts at `job.place`, and verify those that were not before.
    fn walk(&mut self, job: &mut Job) -> Walked {
        let place = job.place.expect("bytes have a place");
        let visible_end = self.visible_end();
        let index = self
            .segment_index(place.segment)
            .expect("the place is in a segment");
        let sealed_end = (index + 1 < self.segments.len()).then_some(self.segments[index].size);
        let segment = &mut self.segments[index];
        let end = segment.end.min(visible_end).0;
        let bytes = core::mem::take(&mut job.ahead);
        let (mut at, mut offset) = (0, place.offset);
        let mut taken = None;
        let walked = loop {
            if offset >= end {
                let more = segment.end.0 == offset && segment.end < visible_end;
                break if more {
                    Walked::Partly
                } else {
                    Walked::Complete
                };
            }
            if job.count == 0 {
                break Walked::Complete;
            }
            let found = match message_at(&bytes[at..], offset) {
                Ok(found) => found,
                Err(Stop::Incomplete { needed }) => {
                    job.needed = needed;
                    break Walked::Partly;
                }
                Err(Stop::Damaged) => break Walked::Damaged { way: true },
            };
            let is_skipped = match job.skip {
                Skip::Until(wanted) => offset < wanted,
                Skip::OlderThan(timestamp) => found.timestamp < timestamp,
            };
            if !is_skipped {
                if found.bytes as u64 > job.bytes && job.found.messages_count > 0 {
                    job.count = 0;
                    break Walked::Complete;
                }
                let start = place.position + at as u64;
                if !segment.verified.covers(start, start + found.bytes as u64)
                    && !checksum_matches(&bytes[at..at + found.bytes])
                {
                    break Walked::Damaged { way: false };
                }
                taken.get_or_insert(at);
                job.count -= 1;
                job.bytes = job.bytes.saturating_sub(found.bytes as u64);
                job.found.messages_count += 1;
                job.found.size_bytes += found.bytes as u64;
                job.found.last_offset = Some(Offset(offset));
            }
            at += found.bytes;
            offset += 1;
        };
        if let Some(start) = taken {
            let position = place.position;
            segment
                .verified
                .add(position + start as u64, position + at as u64, sealed_end);
            job.found.slices.push(bytes.slice(start..at));
        }
        job.place = Some(Place {
            position: place.position + at as u64,
            offset,
            ..place
        });
        // After `Partly` the rest is the beginning of a message that has to be read as a whole.
        if matches!(walked, Walked::Complete) {
            job.ahead = bytes.slice(at..);
        }
        walked
    }

    /// What is at `job.place` is not the message that should be there.
    fn damaged(
        &mut self,
        job: &mut Job,
        way: bool,
        out: &mut Vec<StorageRequest>,
    ) -> Option<Result<Messages, ReadError>> {
        job.ahead = Slice::default();
        let place = job.place.take().expect("damage has a place");
        if job.found.messages_count > 0 {
            return Some(Ok(self.finish(job)));
        }
        if let Some(segment) = self.segment_mut(place.segment)
            && way
            && place.position < segment.index.recent_start()
            && !segment.index.rebuilt
            && !job.has_rebuilt
        {
            // The index may be wrong, and the log decides that (LOG-14); or there may be a way around the damage.
            job.has_rebuilt = true;
            return self.wait_for_index(job, place.segment, true, out);
        }
        Some(Err(ReadError::Damaged {
            namespace: self.config.namespace,
            offset: Offset(place.offset),
            file: FileName::Log(place.segment),
            position: place.position,
        }))
    }

    fn wait_for_index(
        &mut self,
        job: &mut Job,
        segment: Offset,
        from_log: bool,
        out: &mut Vec<StorageRequest>,
    ) -> Option<Result<Messages, ReadError>> {
        if self.reads.jobs.len() >= READS_MAX {
            return Some(Err(ReadError::Busy));
        }
        job.waits_for = Some(segment);
        self.start_load(segment, from_log, out);
        None
    }

    /// Where the first message is that is not older than `timestamp`.
    fn locate(&self, timestamp: u64) -> Located {
        if let Some(front) = self.tail.front()
            && timestamp > front.timestamp_before
        {
            return match self.locate_in_memory(timestamp) {
                Some(offset) => Located::InMemory(offset),
                None => Located::Nowhere,
            };
        }
        let (mut first, mut end) = (0, self.segments.len());
        while first < end {
            let middle = first.midpoint(end);
            match self.segments[middle].last_timestamp {
                None => return Located::NeedsIndex(self.segments[middle].base),
                Some(last) if last < timestamp => first = middle + 1,
                Some(_) => end = middle,
            }
        }
        let Some(segment) = self.segments.get(first) else {
            return Located::Nowhere;
        };
        match segment.index.floor_by_timestamp(timestamp) {
            Some(entry) => Located::InStorage(Place {
                segment: segment.base,
                position: entry.position,
                offset: entry.offset,
            }),
            None => Located::NeedsIndex(segment.base),
        }
    }

    fn locate_in_memory(&self, timestamp: u64) -> Option<Offset> {
        let chunk = self.tail.chunk_since(timestamp)?;
        let index = self.segment_index(chunk.segment)?;
        Some(chunk.first_since(timestamp, &self.segments[index].index))
    }

    /// Take messages from the tail, which goes on to the end of the log.
    fn read_memory(&self, job: &mut Job, from: Offset) {
        let mut from = from;
        let visible_end = self.visible_end();
        let mut chunk_index = self.tail.chunk_index(from);
        while let Some(index) = chunk_index
            && let Some(chunk) = self.tail.chunk(index)
            && from < visible_end
            && job.count > 0
        {
            let segment = self
                .segment_index(chunk.segment)
                .expect("the tail's segments are in the log");
            let entries = &self.segments[segment].index;
            let wanted = from.advanced_by(u64::from(job.count));
            let mut end = chunk.end.min(visible_end).min(wanted);
            let start_at = chunk.start_of(from, entries);
            let mut end_at = chunk.start_of(end, entries);
            let is_first = job.found.messages_count == 0;
            let is_cut = (end_at - start_at) as u64 > job.bytes;
            if is_cut {
                (end_at, end) = chunk.fit((start_at, from), job.bytes, is_first, entries);
            }
            if end_at > start_at {
                let taken = u32::try_from(end.0 - from.0).expect("at most the count");
                job.count -= taken;
                job.bytes = job.bytes.saturating_sub((end_at - start_at) as u64);
                job.found.messages_count += taken;
                job.found.size_bytes += (end_at - start_at) as u64;
                job.found.last_offset = Some(Offset(end.0 - 1));
                job.found.slices.push(chunk.slice(start_at, end_at));
            }
            if is_cut {
                return;
            }
            from = end;
            chunk_index = Some(index + 1);
        }
    }
}
