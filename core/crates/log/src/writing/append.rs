//! Append path: admission of a batch and the single pass over its messages.

use fastrand::Rng;
use headrace_buffer::Buffer;
use headrace_model::{Offset, Timestamp};

use crate::batch::{Batch, COPIED_BYTES_MAX};
use crate::error::AppendError;
use crate::reading::Reader;
use crate::segment::{FirstMessage, Segment};
use crate::state::LogState;
use crate::writing::Writer;
use crate::writing::stamp::Stamp;
use crate::writing::tail::{AppendPosition, BLOCK_BYTES_MIN};

/// Maximum setback of the clock that is bridged by repeating the last timestamp. After a larger setback a new segment
/// is begun, which continues with the time of the clock.
pub const CLOCK_SETBACK_MICROS_MAX: u64 = 60_000_000;

/// Offsets given to a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    /// Offset of the first message.
    pub base_offset: Offset,
    /// Offset after the last message. The batch is acknowledged once [`visible_end`](crate::LogState::visible_end) has reached this offset.
    pub end_offset: Offset,
}

impl Writer {
    /// Append a batch atomically. The log keeps the buffer unless the batch is small.
    ///
    /// # Panics
    /// If the log is not open.
    pub(crate) fn append(
        &mut self,
        now: Timestamp,
        batch: Batch,
        state: &mut LogState,
        reader: &mut Reader,
    ) -> Result<Appended, AppendError> {
        let Batch {
            mut buffer,
            range,
            messages_count,
        } = batch;
        let length = range.len();
        if length <= COPIED_BYTES_MAX {
            return self.append_copied(now, &buffer[range], messages_count, state, reader);
        }
        let (spot, timestamp) = admit(now, length, state)?;
        let segment = state.segments.back_mut().expect("admitted into a segment");
        let random = &mut self.random;
        // The batch may be a small part of its buffer: a copy is cheaper than keeping the whole buffer in memory.
        let copy = if buffer.capacity() > 2 * length + COPIED_BYTES_MAX {
            state.pool.acquire(length).ok()
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
        state.tail.push_buffer(slice, spot, end, timestamp);
        Ok(self.appended((now, spot, length), (end, timestamp), state))
    }

    /// Append a batch atomically by copying its messages.
    ///
    /// If the pool has no memory for the copy, memory outside the pool is used. A refusal would let the next batch of
    /// the same producer, which may get memory, overtake this one. Hosts bound the number of batches in flight.
    ///
    /// # Panics
    /// If the log is not open.
    // Small batches are so cheap that a further call shows: 4 % of the instructions of one.
    #[inline]
    pub(crate) fn append_copied(
        &mut self,
        now: Timestamp,
        messages: &[u8],
        messages_count: u32,
        state: &mut LogState,
        reader: &mut Reader,
    ) -> Result<Appended, AppendError> {
        let length = messages.len();
        if length > COPIED_BYTES_MAX {
            let batch = match state.pool.acquire(length) {
                Ok(mut buffer) => {
                    buffer.copy_from_slice(messages);
                    Batch::new(buffer, 0..length, messages_count)
                }
                Err(_) => Batch::copied(messages, messages_count),
            };
            return self.append(now, batch, state, reader);
        }
        let (spot, timestamp) = admit(now, length, state)?;
        let segment = state.segments.back_mut().expect("admitted into a segment");
        let Some(room) = state.tail.reserve_small(length, spot, &state.pool) else {
            let mut copy = Buffer::unpooled(messages);
            let random = &mut self.random;
            stamp(segment, random, spot, timestamp, &mut copy, messages_count)?;
            let end = spot.base.advanced_by(u64::from(messages_count));
            // Release cached data to compensate for the memory outside the pool.
            while reader.oldest_cached(state).is_some() {
                reader.evict_oldest(state);
            }
            state.tail.push_buffer(copy.freeze(), spot, end, timestamp);
            return Ok(self.appended((now, spot, length), (end, timestamp), state));
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
        state.tail.commit_small(length, end, timestamp);
        Ok(self.appended((now, spot, length), (end, timestamp), state))
    }

    fn appended(
        &mut self,
        (now, spot, length): (Timestamp, AppendPosition, usize),
        (end, timestamp): (Offset, u64),
        state: &mut LogState,
    ) -> Appended {
        let size = self.extended((now, length), end, (timestamp, timestamp), state);
        if size >= state.segment_size_bytes() {
            // A batch that fills a segment stays in that segment as a whole; the next batch begins another (LOG-2).
            state.begin_segment();
        }
        Appended {
            base_offset: spot.base,
            end_offset: end,
        }
    }

    /// Note that the open segment has grown. The timestamps are those of the first and the last new message. Returns its
    /// size in bytes.
    #[inline]
    pub(crate) fn extended(
        &mut self,
        (now, length): (Timestamp, usize),
        end: Offset,
        (first, last): (u64, u64),
        state: &mut LogState,
    ) -> u64 {
        let segment = state.segments.back_mut().expect("admitted into a segment");
        if segment.size == 0 {
            segment.first_timestamp = Some(first);
        }
        segment.size += length as u64;
        segment.end = end;
        segment.last_timestamp = Some(last);
        segment.index_file.has_end = false;
        let size = segment.size;
        state.segments.add_bytes(length as u64);
        state.ends.next = end;
        state.ends.last_timestamp = last;
        if state.config.durability.delays_writes() && self.flush_deadline.is_none() {
            self.flush_deadline = Some(Timestamp(now.0 + state.config.flush_interval_micros));
        }
        size
    }
}

/// Return true if `length` more bytes may be queued for writing and memory is available for them. An empty queue
/// takes a batch of any size.
pub(crate) fn has_room_for(length: usize, state: &LogState) -> bool {
    // A large batch brings its own memory.
    let block = length.max(BLOCK_BYTES_MIN);
    let has_memory = length > COPIED_BYTES_MAX || state.pool.has_room(block);
    if !has_memory {
        state.pool.request_eviction(block);
    }
    has_memory && may_queue(length, state)
}

pub(crate) fn may_queue(length: usize, state: &LogState) -> bool {
    let queued = state.tail.queued_bytes();
    queued == 0 || queued + length as u64 <= state.config.queue_bytes_max
}

/// Check that `length` more bytes may be queued, and choose their place in the log.
#[inline]
fn admit(
    now: Timestamp,
    length: usize,
    state: &mut LogState,
) -> Result<(AppendPosition, u64), AppendError> {
    assert!(state.is_open(), "only an open log is appended to");
    if let Some(failure) = state.failure() {
        return Err(AppendError::Failed(failure.clone()));
    }
    if !may_queue(length, state) {
        return Err(AppendError::Busy);
    }
    if now.0
        < state
            .ends
            .last_timestamp
            .saturating_sub(CLOCK_SETBACK_MICROS_MAX)
    {
        set_clock_back(now, state);
    }
    if state.segments.is_empty() {
        state.begin_segment();
    }
    let segment = state.segments.back().expect("there is one");
    let spot = AppendPosition {
        segment: segment.base,
        position: segment.size,
        base: state.ends.next,
        timestamp_before: state.ends.last_timestamp,
        now,
    };
    Ok((spot, now.0.max(state.ends.last_timestamp)))
}

/// Begin another segment with the current time after the clock was ahead, because timestamps ascend within a
/// segment.
///
/// The segment before counts as ended now, even if its last messages carry later timestamps. Retention by age and
/// searches by time are therefore right across segments; only the wrongly stamped messages are not found by their
/// own timestamps.
pub(crate) fn set_clock_back(now: Timestamp, state: &mut LogState) {
    state.ends.last_timestamp = now.0;
    let Some(open) = state.segments.back_mut() else {
        return;
    };
    open.last_timestamp = Some(now.0);
    if open.size > 0 {
        open.index_file.has_end = false;
        state.begin_segment();
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
