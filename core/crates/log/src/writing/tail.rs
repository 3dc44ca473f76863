//! In-memory tail: all messages that are not written yet, and as many of the newest written ones as a budget allows.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use headrace_buffer::{Block, BufferPool, Slice};
use headrace_model::{Offset, Timestamp, limits};

use crate::index::Index;
use crate::storage::WRITE_BYTES_MAX;
use crate::walk::message_at;

/// Minimum and initial size of a block for small batches.
pub(crate) const BLOCK_BYTES_MIN: usize = 4 * 1024;
/// Maximum size to which blocks grow while they are being filled.
const BLOCK_BYTES_MAX: usize = 1024 * 1024;

/// Messages that lie back to back in memory and in one segment.
#[derive(Debug)]
pub(crate) struct Chunk {
    bytes: Bytes,
    /// Base offset of the segment.
    pub(crate) segment: Offset,
    /// Position of the first byte in the segment.
    pub(crate) position: u64,
    /// Offset of the first message.
    pub(crate) base: Offset,
    /// Offset after the last message.
    pub(crate) end: Offset,
    /// Timestamp of the message before the first.
    pub(crate) timestamp_before: u64,
    /// Timestamp of the last message.
    pub(crate) last_timestamp: u64,
    /// Time of the last append.
    pub(crate) appended_at: Timestamp,
}

#[derive(Debug)]
enum Bytes {
    /// Small batches, copied one behind the other, so that polls and writes get them in one piece.
    Block(Block),
    /// A batch in its receive buffer.
    Buffer(Slice),
}

impl Chunk {
    pub(crate) fn bytes(&self) -> &[u8] {
        match &self.bytes {
            Bytes::Block(block) => block,
            Bytes::Buffer(slice) => slice,
        }
    }

    pub(crate) fn slice(&self, start: usize, end: usize) -> Slice {
        match &self.bytes {
            Bytes::Block(block) => block.slice(start..end),
            Bytes::Buffer(slice) => slice.slice(start..end),
        }
    }

    fn len(&self) -> usize {
        self.bytes().len()
    }

    fn capacity_bytes(&self) -> usize {
        match &self.bytes {
            Bytes::Block(block) => block.capacity_bytes(),
            Bytes::Buffer(slice) => slice.capacity_bytes(),
        }
    }

    /// Position in `bytes()` at which the message with this offset starts; the offset is in the chunk or directly
    /// behind it.
    pub(crate) fn start_of(&self, offset: Offset, index: &Index) -> usize {
        if offset == self.end {
            return self.len();
        }
        let known = index.floor(offset.0);
        let (mut expected, mut at) = match known {
            Some(entry) if entry.position > self.position => (
                entry.offset,
                usize::try_from(entry.position - self.position).expect("within the chunk"),
            ),
            _ => (self.base.0, 0),
        };
        while expected < offset.0 {
            at += self.length_at(at, expected);
            expected += 1;
        }
        at
    }

    /// Find how many messages from `start` on fit `bytes_max`. Returns the end of the last one and the offset after it.
    /// Includes the first message in any case if `one_at_least`.
    pub(crate) fn fit(
        &self,
        start: (usize, Offset),
        bytes_max: u64,
        one_at_least: bool,
        index: &Index,
    ) -> (usize, Offset) {
        let (mut at, mut offset) = start;
        let start_at = at;
        let limit = start_at.saturating_add(usize::try_from(bytes_max).unwrap_or(usize::MAX));
        let known = index.floor_by_position(self.position.saturating_add(limit as u64));
        if known.position > self.position + at as u64 && known.offset <= self.end.0 {
            at = usize::try_from(known.position - self.position).expect("within the chunk");
            offset = Offset(known.offset);
        }
        while offset < self.end {
            let end = at + self.length_at(at, offset.0);
            if end > limit && !(one_at_least && at == start_at) {
                break;
            }
            at = end;
            offset = offset.advanced_by(1);
        }
        (at, offset)
    }

    /// First message of the chunk that is not older than `timestamp`.
    pub(crate) fn first_since(&self, timestamp: u64, index: &Index) -> Offset {
        let known = index.floor_by_timestamp(timestamp);
        let (mut expected, mut at) = match known {
            Some(entry) if entry.position > self.position && entry.offset < self.end.0 => (
                entry.offset,
                usize::try_from(entry.position - self.position).expect("within the chunk"),
            ),
            _ => (self.base.0, 0),
        };
        while expected < self.end.0 {
            let found =
                message_at(&self.bytes()[at..], expected).expect("stamped messages are whole");
            if found.timestamp >= timestamp {
                break;
            }
            at += found.bytes;
            expected += 1;
        }
        Offset(expected)
    }

    fn length_at(&self, at: usize, expected: u64) -> usize {
        message_at(&self.bytes()[at..], expected)
            .expect("stamped messages are whole")
            .bytes
    }
}

/// Data of the next write.
#[derive(Debug)]
pub(crate) struct Gathered {
    pub(crate) segment: Offset,
    pub(crate) position: u64,
    pub(crate) slices: Vec<Slice>,
    pub(crate) bytes: u64,
    /// Offset after the last message that is complete once this is written.
    pub(crate) end: Offset,
}

/// The newest messages in memory, oldest first.
#[derive(Debug)]
pub(crate) struct Tail {
    chunks: VecDeque<Chunk>,
    /// Memory occupied by the chunks.
    memory_bytes: u64,
    budget_bytes: u64,
    /// Number of bytes not handed to a write yet. They begin in chunk `queued_chunk`, at byte `queued_from`.
    queued_bytes: u64,
    queued_chunk: usize,
    queued_from: usize,
    block_bytes: usize,
}

/// Place of the next batch, and the timestamp before it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AppendPosition {
    pub(crate) segment: Offset,
    pub(crate) position: u64,
    pub(crate) base: Offset,
    pub(crate) timestamp_before: u64,
    pub(crate) now: Timestamp,
}

impl Tail {
    pub(crate) const fn new(budget_bytes: u64) -> Self {
        Self {
            chunks: VecDeque::new(),
            memory_bytes: 0,
            budget_bytes,
            queued_bytes: 0,
            queued_chunk: 0,
            queued_from: 0,
            block_bytes: BLOCK_BYTES_MIN,
        }
    }

    /// Number of bytes not handed to a write yet.
    pub(crate) fn queued_bytes(&self) -> u64 {
        self.queued_bytes
    }

    /// The oldest chunk.
    pub(crate) fn front(&self) -> Option<&Chunk> {
        self.chunks.front()
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        self.memory_bytes
    }

    /// The chunk that holds this offset.
    pub(crate) fn chunk_index(&self, offset: Offset) -> Option<usize> {
        if offset < self.front()?.base {
            return None;
        }
        let index = self.chunks.partition_point(|chunk| chunk.end <= offset);
        (index < self.chunks.len()).then_some(index)
    }

    /// First chunk with a message that is not older than `timestamp`. If there is such a message, its first one is in
    /// that chunk.
    pub(crate) fn chunk_since(&self, timestamp: u64) -> Option<&Chunk> {
        let index = self
            .chunks
            .partition_point(|chunk| chunk.last_timestamp < timestamp);
        self.chunks.get(index)
    }

    pub(crate) fn chunk(&self, index: usize) -> Option<&Chunk> {
        self.chunks.get(index)
    }

    /// Make room for a small batch behind the last one; the caller fills it and calls `commit_small`.
    ///
    /// Reuses the last block if it belongs to the same segment, has room, and its bytes are not being written or sent.
    /// Otherwise begins a new block, larger if the last one was filled and smaller if it was not.
    pub(crate) fn reserve_small(
        &mut self,
        length: usize,
        spot: AppendPosition,
        pool: &BufferPool,
    ) -> Option<&mut [u8]> {
        let mut reuse = false;
        // Blocks are evicted as a whole when the budget is exceeded: a block must be a small part of the budget.
        let budget = usize::try_from(self.budget_bytes / 4).unwrap_or(usize::MAX);
        let largest = budget.clamp(BLOCK_BYTES_MIN, BLOCK_BYTES_MAX);
        if let Some(Chunk {
            bytes: Bytes::Block(block),
            segment,
            ..
        }) = self.chunks.back_mut()
            && *segment == spot.segment
        {
            if block.remaining_bytes() < length {
                self.block_bytes = (self.block_bytes * 2).min(largest);
            } else if block.spare_mut(0).is_some() {
                reuse = true;
            } else if block.len() < block.remaining_bytes() {
                self.block_bytes = (self.block_bytes / 2).max(BLOCK_BYTES_MIN);
            }
        }
        if !reuse {
            let buffer = pool.acquire(self.block_bytes.max(length));
            // When memory is short, use the smallest possible block.
            let buffer = buffer.or_else(|_| {
                self.block_bytes = BLOCK_BYTES_MIN;
                pool.acquire(BLOCK_BYTES_MIN.max(length))
            });
            self.push(Bytes::Block(Block::new(buffer.ok()?)), spot);
        }
        let chunk = self.chunks.back_mut()?;
        chunk.appended_at = spot.now;
        match &mut chunk.bytes {
            Bytes::Block(block) => block.spare_mut(length),
            Bytes::Buffer(_) => None,
        }
    }

    /// Commit `length` bytes of messages that were filled into the room.
    pub(crate) fn commit_small(&mut self, length: usize, end: Offset, timestamp: u64) {
        let chunk = self.chunks.back_mut().expect("room was made");
        if let Bytes::Block(block) = &mut chunk.bytes {
            block.commit(length);
        }
        chunk.end = end;
        chunk.last_timestamp = timestamp;
        self.queued_bytes += length as u64;
    }

    /// Take a batch in its own buffer.
    pub(crate) fn push_buffer(
        &mut self,
        slice: Slice,
        spot: AppendPosition,
        end: Offset,
        timestamp: u64,
    ) {
        self.queued_bytes += slice.len() as u64;
        self.push(Bytes::Buffer(slice), spot);
        let chunk = self.chunks.back_mut().expect("just pushed");
        chunk.end = end;
        chunk.last_timestamp = timestamp;
    }

    /// Gather as many queued bytes as one write takes: one segment, at most 1024 slices and 4 MiB.
    pub(crate) fn gather(&mut self) -> Option<Gathered> {
        if self.queued_bytes == 0 {
            return None;
        }
        while self.chunks[self.queued_chunk].len() == self.queued_from {
            self.queued_chunk += 1;
            self.queued_from = 0;
        }
        let first = &self.chunks[self.queued_chunk];
        let mut gathered = Gathered {
            segment: first.segment,
            position: first.position + self.queued_from as u64,
            slices: Vec::new(),
            bytes: 0,
            end: first.base,
        };
        let mut room = WRITE_BYTES_MAX;
        while let Some(chunk) = self.chunks.get(self.queued_chunk) {
            if chunk.segment != gathered.segment
                || gathered.slices.len() == limits::WRITE_SLICES_MAX
                || room == 0
            {
                break;
            }
            let remaining = chunk.len() - self.queued_from;
            let is_block = matches!(chunk.bytes, Bytes::Block(_));
            if is_block && remaining > room {
                // A block grows while it is queued: only the end of the whole block is known to be a message boundary.
                break;
            }
            let taken = remaining.min(room);
            if taken > 0 {
                let end = self.queued_from + taken;
                gathered.slices.push(chunk.slice(self.queued_from, end));
                gathered.bytes += taken as u64;
                room -= taken;
                self.queued_from = end;
            }
            if self.queued_from < chunk.len() {
                break;
            }
            gathered.end = chunk.end;
            if self.queued_chunk + 1 == self.chunks.len() {
                break;
            }
            self.queued_chunk += 1;
            self.queued_from = 0;
        }
        self.queued_bytes -= gathered.bytes;
        Some(gathered)
    }

    /// Queue everything again from this position of the segment on, after a write that did not happen.
    pub(crate) fn rewind(&mut self, segment: Offset, position: u64) {
        let index = self.chunks.partition_point(|chunk| {
            let end = chunk.position + chunk.len() as u64;
            chunk.segment < segment || chunk.segment == segment && end <= position
        });
        self.queued_chunk = index;
        self.queued_from = self.chunks.get(index).map_or(0, |chunk| {
            let start = position.saturating_sub(chunk.position);
            usize::try_from(start).expect("within the chunk")
        });
        let queued = self
            .chunks
            .iter()
            .skip(index)
            .map(Chunk::len)
            .sum::<usize>();
        self.queued_bytes = (queued - self.queued_from) as u64;
    }

    /// Evict the oldest chunks beyond the budget, as long as `is_written` returns true for them.
    pub(crate) fn evict(&mut self, is_written: impl Fn(&Chunk) -> bool) {
        while self.memory_bytes > self.budget_bytes
            && let Some(front) = self.chunks.front()
            && is_written(front)
        {
            self.pop_front();
        }
    }

    /// Evict the oldest chunk. Returns the memory it occupied in bytes.
    pub(crate) fn evict_front(&mut self) -> u64 {
        let before = self.memory_bytes;
        self.pop_front();
        before - self.memory_bytes
    }

    /// Drop the chunks of a segment that is being removed.
    pub(crate) fn drop_segment(&mut self, segment: Offset) {
        while self
            .chunks
            .front()
            .is_some_and(|chunk| chunk.segment == segment)
        {
            self.pop_front();
        }
    }

    /// Drop all chunks, including queued ones.
    pub(crate) fn clear(&mut self) {
        *self = Self::new(self.budget_bytes);
    }

    fn push(&mut self, bytes: Bytes, spot: AppendPosition) {
        // An empty chunk has no message whose offset or timestamp could be looked up.
        if self.chunks.back().is_some_and(|chunk| chunk.len() == 0) {
            self.pop_back();
        }
        let chunk = Chunk {
            bytes,
            segment: spot.segment,
            position: spot.position,
            base: spot.base,
            end: spot.base,
            timestamp_before: spot.timestamp_before,
            last_timestamp: spot.timestamp_before,
            appended_at: spot.now,
        };
        self.memory_bytes += chunk.capacity_bytes() as u64;
        self.chunks.push_back(chunk);
    }

    fn pop_back(&mut self) {
        if let Some(chunk) = self.chunks.pop_back() {
            self.memory_bytes -= chunk.capacity_bytes() as u64;
            if self.queued_chunk >= self.chunks.len() {
                self.queued_chunk = self.chunks.len();
                self.queued_from = 0;
            }
        }
    }

    fn pop_front(&mut self) {
        if let Some(chunk) = self.chunks.pop_front() {
            self.memory_bytes -= chunk.capacity_bytes() as u64;
            if self.queued_chunk == 0 {
                self.queued_from = 0;
            } else {
                self.queued_chunk -= 1;
            }
        }
    }
}

#[cfg(test)]
mod tests;
