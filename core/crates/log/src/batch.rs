//! Messages to be appended: batches of clients, and runs of a leader's log.

use core::ops::Range;

use headrace_buffer::{Buffer, BufferPool, Slice};
use headrace_model::Offset;

/// Maximum size of a batch that is copied into a shared block; larger batches stay in their receive buffer.
pub const COPIED_BYTES_MAX: usize = 16 * 1024;

/// Messages of one request, packed back to back, as accepted by `wire::batch::validate`.
#[derive(Debug)]
pub struct Batch {
    pub(crate) buffer: Buffer,
    pub(crate) range: Range<usize>,
    pub(crate) messages_count: u32,
}

impl Batch {
    /// Make a batch of the messages in `buffer[range]`. The log takes the whole buffer and may keep it as long as the
    /// messages are in memory.
    ///
    /// # Panics
    /// If `range` is not within `0..buffer.len()`.
    pub fn new(buffer: Buffer, range: Range<usize>, messages_count: u32) -> Self {
        assert!(
            range.start <= range.end && range.end <= buffer.len(),
            "the messages lie within their buffer"
        );
        Self {
            buffer,
            range,
            messages_count,
        }
    }

    /// Make a batch by copying messages out of a buffer that stays in use.
    pub fn copied(messages: &[u8], messages_count: u32) -> Self {
        Self::new(
            Buffer::unpooled(messages),
            0..messages.len(),
            messages_count,
        )
    }

    /// Return the unchanged messages, for an append elsewhere.
    pub fn freeze(self) -> Slice {
        self.buffer.freeze().slice(self.range)
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer[self.range.clone()]
    }

    /// Take the memory of the messages, or of a copy of them if they are a small part of their buffer: a copy is cheaper
    /// than keeping the whole buffer in memory.
    pub(crate) fn into_slice(self, pool: &BufferPool) -> Slice {
        let length = self.range.len();
        if self.buffer.capacity() > 2 * length + COPIED_BYTES_MAX
            && let Ok(mut copy) = pool.acquire(length)
        {
            copy.copy_from_slice(self.bytes());
            return copy.freeze();
        }
        self.freeze()
    }

    /// Number of messages.
    pub const fn messages_count(&self) -> u32 {
        self.messages_count
    }

    /// Size of the messages in bytes.
    pub fn size_bytes(&self) -> usize {
        self.range.len()
    }
}

/// Place in a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogPlace {
    /// Base offset of the segment.
    pub segment: Offset,
    /// Position in the segment, in bytes.
    pub position: u64,
    /// Offset of the message that starts there.
    pub base: Offset,
}

/// Consecutive messages as the log of a leader has them, stamped, and their place there.
///
/// A run that begins a segment has the base offset of the segment, and position 0.
#[derive(Debug)]
pub struct Run {
    /// The messages.
    pub batch: Batch,
    /// Place of the first message.
    pub place: LogPlace,
}
