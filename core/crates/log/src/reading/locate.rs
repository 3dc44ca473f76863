//! Look-up of the place in a file, or of the message in memory, at which a read starts.

use alloc::vec::Vec;

use headrace_buffer::Slice;
use headrace_model::Offset;

use crate::error::ReadError;
use crate::log::Log;
use crate::reading::cursor::Place;
use crate::reading::read::{Job, Messages};
use crate::segment::Segment;
use crate::storage::StorageRequest;
use crate::writing::tail::Chunk;

/// Place of the first message with a timestamp.
pub(crate) enum Located {
    InMemory(Offset),
    InStorage(Place),
    NotFound,
    /// The index of this segment has to be loaded first.
    NeedsIndex(Offset),
}

impl Log {
    pub(crate) fn segment_of(&self, offset: Offset) -> Offset {
        let after = self
            .segments
            .partition_point(|segment| segment.base <= offset);
        self.segments[after.saturating_sub(1)].base
    }

    /// Boundary from which the walk to `from` is short: the end of the last poll, or an index entry.
    pub(crate) fn start_place(&mut self, job: &mut Job, from: Offset) -> Option<Place> {
        let base = self.segment_of(from);
        if let Some(place) = job.place
            && place.segment == base
        {
            return Some(place);
        }
        job.read_ahead = Slice::default();
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
            job.read_ahead = cursor.read_ahead;
            job.message_bytes = cursor.message_bytes;
            job.sequential = cursor.sequential.saturating_add(1);
            if cursor.place.segment == base {
                return Some(cursor.place);
            }
            // The reader stopped at the end of the segment before.
            job.read_ahead = Slice::default();
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

    pub(crate) fn wait_for_index(
        &mut self,
        job: &mut Job,
        segment: Offset,
        from_log: bool,
        out: &mut Vec<StorageRequest>,
    ) -> Option<Result<Messages, ReadError>> {
        if self.reads.is_full() {
            return Some(Err(ReadError::Busy));
        }
        job.waits_for = Some(segment);
        self.start_load(segment, from_log, out);
        None
    }

    /// Locate the first message that is not older than `timestamp`.
    pub(crate) fn locate(&self, timestamp: u64) -> Located {
        if let Some(front) = self.tail.front()
            && timestamp > front.timestamp_before
        {
            return match self.locate_in_memory(timestamp) {
                Some(offset) => Located::InMemory(offset),
                None => Located::NotFound,
            };
        }
        let (mut first, mut end) = (0, self.segments.len());
        while first < end {
            let middle = first.midpoint(end);
            match self.last_timestamp_of(middle) {
                Err(segment) => return Located::NeedsIndex(segment),
                Ok(last) if last < timestamp => first = middle + 1,
                Ok(_) => end = middle,
            }
        }
        let Some(segment) = self.segments.get(first) else {
            return Located::NotFound;
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

    /// Timestamp of a segment's last message, or the segment whose index has to be loaded first.
    fn last_timestamp_of(&self, index: usize) -> Result<u64, Offset> {
        let mut last = 0;
        for segment in self.segments.range(..=index).rev() {
            last = last.max(segment.last_timestamp.ok_or(segment.base)?);
            // The timestamps of damaged messages are not known: they are not earlier than those of the messages before.
            if !segment.index.rebuilt {
                break;
            }
        }
        Ok(last)
    }

    fn locate_in_memory(&self, timestamp: u64) -> Option<Offset> {
        let front = self.tail.front()?;
        let before = self.segment_index(front.segment)?;
        let is_older =
            |segment: &&Segment| segment.last_timestamp.is_some_and(|last| last < timestamp);
        let segment = self
            .segments
            .iter()
            .skip(before)
            .find(|segment| !is_older(segment))?;
        match self.tail.chunk_since(timestamp) {
            Some(chunk) if chunk.segment == segment.base => self.first_since(chunk, timestamp),
            // The clock was set back: chunks of the segment before that one are not older than `timestamp` either.
            _ => self.locate_in_memory_from(segment.base.max(front.base), timestamp),
        }
    }

    /// First message in memory from `from` on that is not older. Messages before `from` may be later if the clock was
    /// set back.
    pub(crate) fn locate_in_memory_from(&self, from: Offset, timestamp: u64) -> Option<Offset> {
        let first = self.tail.chunk_index(from)?;
        let chunk = (first..)
            .map_while(|index| self.tail.chunk(index))
            .find(|chunk| chunk.last_timestamp >= timestamp)?;
        self.first_since(chunk, timestamp)
    }

    fn first_since(&self, chunk: &Chunk, timestamp: u64) -> Option<Offset> {
        let index = self.segment_index(chunk.segment)?;
        Some(chunk.first_since(timestamp, &self.segments[index].index))
    }
}
