//! Messages on their way into the log.

use core::ops::Range;

use headrace_buffer::{Buffer, Slice};

/// One request's messages, packed back to back, as `wire::batch::validate` accepted them.
#[derive(Debug)]
pub struct Batch {
    pub(crate) buffer: Buffer,
    pub(crate) range: Range<usize>,
    pub(crate) messages_count: u32,
}

impl Batch {
    /// The messages are `buffer[range]`; the log takes the whole buffer and may keep it for as long as the messages
    /// are in memory.
    ///
    /// # Panics
    /// When `range` is not within `0..buffer.len()`.
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

    /// Messages that were copied out of a buffer in use.
    pub fn copied(messages: &[u8], messages_count: u32) -> Self {
        Self::new(
            Buffer::unpooled(messages),
            0..messages.len(),
            messages_count,
        )
    }

    /// The messages as they are, for somebody else to append.
    pub fn freeze(self) -> Slice {
        self.buffer.freeze().slice(self.range)
    }

    /// Number of messages.
    pub const fn messages_count(&self) -> u32 {
        self.messages_count
    }

    /// Bytes of the messages.
    pub fn size_bytes(&self) -> usize {
        self.range.len()
    }
}
