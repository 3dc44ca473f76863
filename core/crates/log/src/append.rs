//! Appending: where a batch goes, and its one pass.

use fastrand::Rng;
use headrace_buffer::Buffer;
use headrace_model::{Durability, Offset, Timestamp, limits};

use crate::batch::Batch;
use crate::error::AppendError;
use crate::log::Log;
use crate::segment::Segment;
use crate::stamp::Stamp;
use crate::tail::{BLOCK_BYTES_MIN, Spot};

/// Batches up to this size are copied behind each other; larger ones stay in the buffer they came in.
pub const COPIED_BYTES_MAX: usize = 16 * 1024;

/// Messages keep the timestamp of the last one while the clock is behind it, but not by more than this: then the clock was
/// ahead, and a new segment goes on with its time.
pub const CLOCK_SETBACK_MICROS_MAX: u64 = 60_000_000;

/// Where a batch went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    /// Offset of its first message.
    pub base_offset: Offset,
    /// Offset after its last message: the batch is acknowledged when [`Log::visible_end`] has come this far.
    pub end_offset: Offset,
}

impl Log {
    /// Append a batch, all of it or nothing. Its buffer is kept unless the batch is small.
    ///
    /// # Panics
    /// When the log is not open.
    pub fn append(&mut self, now: Timestamp, batch: Batch) -> Result<Appended, AppendError> {
        let Batch {
            mut buffer,
            range,
            messages_count,
        } = batch;
        let length = range.len();
        if length <= COPIED_BYTES_MAX {
            return self.append_copied(now, &buffer[range], messages_count);
        }
        let (spot, timestamp) = self.admit(now, length)?;
        let segment = self.segments.back_mut().expect("admitted into a segment");
        let random = &mut self.random;
        // The batch may be a small part of what its buffer occupies: a copy is cheaper than keeping that for long.
        let copy = if buffer.capacity() > 2 * length + COPIED_BYTES_MAX {
            self.pool.acquire(length).ok()
        } else {
            None
        };
        let slice = if let Some(mut copy) = copy {
            copy.copy_from_slice(&buffer[range]);
            stamp(segment, random, spot, timestamp, &mut copy, messages_count)?;
            copy.freeze()
        } else {
            let messages = &mut buffer[range.clone()];
            stamp(segment, random, spot, timestamp, messages, messages_count)?;
            buffer.freeze().slice(range)
        };
        let end = spot.base.advanced_by(u64::from(messages_count));
        self.tail.push_whole(slice, spot, end, timestamp);
        Ok(self.appended(now, spot, length, end, timestamp))
    }

    /// Append a batch by copying its messages, all of them or none.
    ///
    /// Other memory is taken where the pool has none for the copy. A refusal would let the next batch of the same
    /// producer, which may find some, overtake this one. Hosts bound the batches that are on their way.
    ///
    /// # Panics
    /// When the log is not open.
    pub fn append_copied(
        &mut self,
        now: Timestamp,
        messages: &[u8],
        messages_count: u32,
    ) -> Result<Appended, AppendError> {
        let length = messages.len();
        if length > COPIED_BYTES_MAX {
            let batch = match self.pool.acquire(length) {
                Ok(mut buffer) => {
                    buffer.copy_from_slice(messages);
                    Batch::new(buffer, 0..length, messages_count)
                }
                Err(_) => Batch::copied(messages, messages_count),
            };
            return self.append(now, batch);
        }
        let (spot, timestamp) = self.admit(now, length)?;
        let segment = self.segments.back_mut().expect("admitted into a segment");
        let Some(room) = self.tail.room(length, spot, &self.pool) else {
            let mut copy = Buffer::unpooled(messages);
            let random = &mut self.random;
            stamp(segment, random, spot, timestamp, &mut copy, messages_count)?;
            let end = spot.base.advanced_by(u64::from(messages_count));
            // What is only cached goes first.
            while self.oldest_cached().is_some() {
                self.evict_oldest();
            }
            self.tail.push_whole(copy.freeze(), spot, end, timestamp);
            return Ok(self.appended(now, spot, length, end, timestamp));
        };
        room.copy_from_slice(messages);
        stamp(
            segment,
            &mut self.random,
            spot,
            timestamp,
            room,
            messages_count,
        )?;
        let end = spot.base.advanced_by(u64::from(messages_count));
        self.tail.commit_small(length, end, timestamp);
        Ok(self.appended(now, spot, length, end, timestamp))
    }

    /// Returns true when that many more bytes may wait to be written, and there is memory for them; one batch may always
    /// wait.
    pub fn has_room_for(&self, length: usize) -> bool {
        // A large batch has its memory already.
        let block = length.max(BLOCK_BYTES_MIN);
        let has_memory = length > COPIED_BYTES_MAX || self.pool.has_room(block);
        if !has_memory {
            self.pool.want(block);
        }
        has_memory && self.may_queue(length)
    }

    fn may_queue(&self, length: usize) -> bool {
        let queued = self.tail.queued_bytes();
        queued == 0 || queued + length as u64 <= self.config.queue_bytes_max
    }

    /// Whether `length` more bytes may wait, and where they go.
    fn admit(&mut self, now: Timestamp, length: usize) -> Result<(Spot, u64), AppendError> {
        assert!(self.is_open(), "only an open log is appended to");
        if let Some(failure) = &self.failure {
            return Err(AppendError::Failed(failure.clone()));
        }
        if !self.may_queue(length) {
            return Err(AppendError::Busy);
        }
        if now.0 < self.last_timestamp.saturating_sub(CLOCK_SETBACK_MICROS_MAX) {
            self.set_clock_back(now);
        }
        if self.segments.is_empty() {
            self.begin_segment();
        }
        let segment = self.segments.back().expect("there is one");
        let spot = Spot {
            segment: segment.base,
            position: segment.size,
            base: self.next_offset,
            timestamp_before: self.last_timestamp,
            now,
        };
        Ok((spot, now.0.max(self.last_timestamp)))
    }

    /// The clock was ahead, and is not any more: go on with its time in another segment, because timestamps within one
    /// ascend. The one before counts as ended now, however late its last messages say: so ages and searches by time are
    /// right across segments, and only messages that were stamped wrongly are not found by the time that they show.
    fn set_clock_back(&mut self, now: Timestamp) {
        self.last_timestamp = now.0;
        let Some(open) = self.segments.back_mut() else {
            return;
        };
        open.last_timestamp = Some(now.0);
        if open.size > 0 {
            open.end_saved = false;
            self.begin_segment();
        }
    }

    fn appended(
        &mut self,
        now: Timestamp,
        spot: Spot,
        length: usize,
        end: Offset,
        timestamp: u64,
    ) -> Appended {
        let segment = self.segments.back_mut().expect("admitted into a segment");
        if segment.size == 0 {
            segment.first_timestamp = Some(timestamp);
        }
        segment.size += length as u64;
        segment.end = end;
        segment.last_timestamp = Some(timestamp);
        segment.end_saved = false;
        let is_full = segment.size >= self.segment_size_bytes();
        self.size_bytes += length as u64;
        self.next_offset = end;
        self.last_timestamp = timestamp;
        if self.config.durability == Durability::Memory && self.flush_deadline.is_none() {
            self.flush_deadline = Some(Timestamp(now.0 + self.config.flush_interval_micros));
        }
        if is_full {
            // The batch that fills a segment stays in it as a whole; the next one begins another (LOG-2).
            self.begin_segment();
        }
        Appended {
            base_offset: spot.base,
            end_offset: end,
        }
    }

    /// Append to another segment from now on: the one before, if any, is sealed.
    pub(crate) fn begin_segment(&mut self) {
        let next = Segment::new(self.next_offset, self.last_timestamp);
        self.segments.push_back(next);
    }

    pub(crate) fn segment_size_bytes(&self) -> u64 {
        self.config
            .segment_size_bytes
            .clamp(1, limits::SEGMENT_SIZE_BYTES_MAX)
    }
}

/// The pass over the messages of a batch that goes to `spot`.
fn stamp(
    segment: &mut Segment,
    random: &mut Rng,
    spot: Spot,
    timestamp: u64,
    messages: &mut [u8],
    messages_count: u32,
) -> Result<(), AppendError> {
    let entries = segment.index.recent_count();
    let stamp = Stamp {
        base_offset: spot.base.0,
        position: spot.position,
        timestamp,
        timestamp_before: spot.timestamp_before,
        entry_position: segment.index.last_position(),
        random,
        entries: segment.index.recent_mut(),
    };
    stamp.apply(messages, messages_count).map_err(|_| {
        segment.index.truncate(entries);
        AppendError::Malformed
    })
}
