//! Batches of messages to be appended.

use core::ops::Range;

use headrace_buffer::{Buffer, Slice};

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

    /// Number of messages.
    pub const fn messages_count(&self) -> u32 {
        self.messages_count
    }

    /// Size of the messages in bytes.
    pub fn size_bytes(&self) -> usize {
        self.range.len()
    }
}
