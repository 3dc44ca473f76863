//! Append path: admission of a batch and the single pass over its messages.

use fastrand::Rng;
use headrace_buffer::Buffer;
use headrace_model::{Offset, Timestamp, limits};

use crate::batch::Batch;
use crate::error::AppendError;
use crate::log::Log;
use crate::segment::{FirstMessage, Segment};
use crate::writing::stamp::Stamp;
use crate::writing::tail::{AppendPosition, BLOCK_BYTES_MIN};

/// Maximum size of a batch that is copied into a shared block; larger batches stay in their receive buffer.
pub const COPIED_BYTES_MAX: usize = 16 * 1024;

/// Maximum setback of the clock that is bridged by repeating the last timestamp. After a larger setback a new segment
/// is begun, which continues with the time of the clock.
pub const CLOCK_SETBACK_MICROS_MAX: u64 = 60_000_000;

/// Offsets given to a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    /// Offset of the first message.
    pub base_offset: Offset,
    /// Offset after the last message. The batch is acknowledged once [`Log::visible_end`] has reached this offset.
    pub end_offset: Offset,
}

impl Log {
    /// Append a batch atomically. The log keeps the buffer unless the batch is small.
    ///
    /// # Panics
    /// If the log is not open.
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
        // The batch may be a small part of its buffer: a copy is cheaper than keeping the whole buffer in memory.
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
        self.tail.push_buffer(slice, spot, end, timestamp);
        Ok(self.appended(now, spot, length, end, timestamp))
    }

    /// Append a batch atomically by copying its messages.
    ///
    /// If the pool has no memory for the copy, memory outside the pool is used. A refusal would let the next batch of
    /// the same producer, which may get memory, overtake this one. Hosts bound the number of batches in flight.
    ///
    /// # Panics
    /// If the log is not open.
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
        let Some(room) = self.tail.reserve_small(length, spot, &self.pool) else {
            let mut copy = Buffer::unpooled(messages);
            let random = &mut self.random;
            stamp(segment, random, spot, timestamp, &mut copy, messages_count)?;
            let end = spot.base.advanced_by(u64::from(messages_count));
            // Release cached data to compensate for the memory outside the pool.
            while self.oldest_cached().is_some() {
                self.evict_oldest();
            }
            self.tail.push_buffer(copy.freeze(), spot, end, timestamp);
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

    /// Return true if `length` more bytes may be queued for writing and memory is available for them. An empty queue
    /// takes a batch of any size.
    pub fn has_room_for(&self, length: usize) -> bool {
        // A large batch brings its own memory.
        let block = length.max(BLOCK_BYTES_MIN);
        let has_memory = length > COPIED_BYTES_MAX || self.pool.has_room(block);
        if !has_memory {
            self.pool.request_eviction(block);
        }
        has_memory && self.may_queue(length)
    }

    fn may_queue(&self, length: usize) -> bool {
        let queued = self.tail.queued_bytes();
        queued == 0 || queued + length as u64 <= self.config.queue_bytes_max
    }

    /// Check that `length` more bytes may be queued, and choose their place in the log.
    fn admit(
        &mut self,
        now: Timestamp,
        length: usize,
    ) -> Result<(AppendPosition, u64), AppendError> {
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
        let spot = AppendPosition {
            segment: segment.base,
            position: segment.size,
            base: self.next_offset,
            timestamp_before: self.last_timestamp,
            now,
        };
        Ok((spot, now.0.max(self.last_timestamp)))
    }

    /// Begin another segment with the current time after the clock was ahead, because timestamps ascend within a
    /// segment.
    ///
    /// The segment before counts as ended now, even if its last messages carry later timestamps. Retention by age and
    /// searches by time are therefore right across segments; only the wrongly stamped messages are not found by their
    /// own timestamps.
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
        spot: AppendPosition,
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
        if self.config.durability.delays_writes() && self.flush_deadline.is_none() {
            self.flush_deadline = Some(Timestamp(now.0 + self.config.flush_interval_micros));
        }
        if is_full {
            // A batch that fills a segment stays in that segment as a whole; the next batch begins another (LOG-2).
            self.begin_segment();
        }
        Appended {
            base_offset: spot.base,
            end_offset: end,
        }
    }

    /// Begin another segment. The one before, if any, is sealed.
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

/// Stamp the messages of a batch in the single pass over them; `spot` is their place.
fn stamp(
    segment: &mut Segment,
    random: &mut Rng,
    spot: AppendPosition,
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
    let last = stamp.apply(messages, messages_count).map_err(|_| {
        segment.index.truncate(entries);
        AppendError::Malformed
    })?;
    segment.last_message = Some(last);
    if spot.position == 0
        && let Some(checksum) = messages.first_chunk()
    {
        segment.first_message = FirstMessage::Checked(u64::from_le_bytes(*checksum));
    }
    Ok(())
}
