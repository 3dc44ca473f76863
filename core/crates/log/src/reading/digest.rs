//! Digest of a range of messages, by which replicas compare what they have stored.

use headrace_model::Offset;
use headrace_wire::hash::Xxh3;

use crate::reading::job::{Messages, ReadFrom};

/// Digest of the bytes of a range, XXH3-64, made in steps: its owner decides how large the next read is, and when.
///
/// Reads compare the checksums of messages, and return from memory what is there. Only visible messages are read.
#[derive(Debug, Clone)]
pub struct RangeDigest {
    next: Offset,
    end: Offset,
    hash: Xxh3,
    bytes: u64,
}

/// A read did not return the next messages of the range: they were removed, are lost, or are not visible.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("message {offset} is not there")]
pub struct MissingMessage {
    /// Offset of the message.
    pub offset: Offset,
}

impl RangeDigest {
    /// Begin the digest of the messages from `start` up to `end`.
    pub fn new(start: Offset, end: Offset) -> Self {
        Self {
            next: start,
            end,
            hash: Xxh3::new(),
            bytes: 0,
        }
    }

    /// Start and number of messages of the next read, for [`Log::read_within`](crate::Log::read_within). None if the
    /// digest is complete.
    pub fn next_read(&self) -> Option<(ReadFrom, u32)> {
        let count = self.end.0.saturating_sub(self.next.0);
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        (count > 0).then_some((ReadFrom::Offset(self.next), count))
    }

    /// Take the result of that read.
    pub fn take(&mut self, messages: &Messages) -> Result<(), MissingMessage> {
        let count = u64::from(messages.messages_count);
        let end = messages.last_offset.map(|last| last.advanced_by(1));
        let end = end.filter(|end| end.0 - count == self.next.0);
        let end = end.ok_or(MissingMessage { offset: self.next })?;
        for slice in &messages.slices {
            self.hash.write(slice);
        }
        self.bytes += messages.size_bytes;
        self.next = end;
        Ok(())
    }

    /// Number of bytes so far, and their hash.
    pub fn result(&self) -> (u64, u64) {
        (self.bytes, self.hash.hash())
    }
}
