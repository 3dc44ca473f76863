//! Validation of received batches.

use headrace_model::limits::{PAYLOAD_SIZE_BYTES_MAX, USER_HEADERS_SIZE_BYTES_MAX};

use super::INDEX_BYTES;
use crate::Status;
use crate::message::{HEADER_BYTES, HeaderView};

/// Check a batch in one pass, as in steps 6 to 8 of the documented order of checks.
///
/// `indexes` and `messages` are the blocks of a decoded `SendMessages` with `count` messages. On success, iterating
/// over `messages` with [`crate::message::Messages`] yields exactly `count` complete messages, and the position of
/// every entry but the last is the end of its message.
///
/// The first message that breaks a rule determines the error; within a message the order is
///
/// 1. [`Status::NON_ZERO_OFFSET`], [`Status::NON_ZERO_TIMESTAMP`]: the fields of the entry that only the server sets;
/// 2. [`Status::MISSING_INDEX`]: the positions do not delimit a message (beyond the block, descending, less than a
///    header, header lengths beyond the slice). For the last message the end of the block is used instead of its
///    position;
/// 3. [`Status::TOO_BIG_MESSAGE_PAYLOAD`], [`Status::TOO_BIG_USER_HEADERS`];
/// 4. [`Status::INVALID_OFFSET`]: the offset in the header is smaller than that of the previous message;
/// 5. [`Status::CANNOT_READ_INDEX_POSITION`]: the position is smaller than that of the previous entry, which is only
///    possible for the last entry at this point;
/// 6. [`Status::INVALID_RESERVED_FIELD`]: the reserved field is not 0. The reference server accepts such a
///    message, which makes the partition unreadable for its clients.
///
/// [`Status::INVALID_MESSAGES_COUNT`] for an empty batch is checked before all of them,
/// [`Status::INVALID_MESSAGES_SIZE`] for messages smaller than the block after all of them. An index block that does
/// not hold `count` entries, which decoding rules out, is [`Status::INVALID_INDEXES_COUNT`].
pub fn validate(indexes: &[u8], messages: &[u8], count: u32) -> Result<(), Status> {
    if count == 0 {
        return Err(Status::INVALID_MESSAGES_COUNT);
    }
    let (entries, rest) = indexes.as_chunks::<INDEX_BYTES>();
    let Some((last, entries)) = entries.split_last() else {
        return Err(Status::INVALID_INDEXES_COUNT);
    };
    if entries.len() + 1 != count as usize || !rest.is_empty() {
        return Err(Status::INVALID_INDEXES_COUNT);
    }

    let mut walk = Walk {
        messages,
        position: 0,
        offset: 0,
        messages_bytes: 0,
    };
    for entry in entries {
        let fields = Entry::parse(entry);
        walk.message(fields, fields.position as usize)?;
    }
    walk.message(Entry::parse(last), messages.len())?;

    if walk.messages_bytes == messages.len() as u64 {
        Ok(())
    } else {
        Err(Status::INVALID_MESSAGES_SIZE)
    }
}

/// One entry of the index block.
#[derive(Clone, Copy)]
struct Entry {
    offset: u32,
    position: u32,
    timestamp: u64,
}

impl Entry {
    #[inline]
    fn parse(bytes: &[u8; INDEX_BYTES]) -> Self {
        let word = u128::from_le_bytes(*bytes);
        #[allow(
            clippy::cast_possible_truncation,
            reason = "the three fields of the word"
        )]
        Self {
            offset: word as u32,
            position: (word >> 32) as u32,
            timestamp: (word >> 64) as u64,
        }
    }
}

/// State carried from one message to the next.
struct Walk<'a> {
    messages: &'a [u8],
    /// Position of the previous entry: the start of this message.
    position: u32,
    /// Offset in the previous header.
    offset: u64,
    messages_bytes: u64,
}

impl Walk<'_> {
    /// Check the message of `entry`, whose end in the block is `end`.
    #[inline]
    fn message(&mut self, entry: Entry, end: usize) -> Result<(), Status> {
        if entry.offset != 0 {
            return Err(Status::NON_ZERO_OFFSET);
        }
        if entry.timestamp != 0 {
            return Err(Status::NON_ZERO_TIMESTAMP);
        }
        let Some(slice) = self.messages.get(self.position as usize..end) else {
            return Err(Status::MISSING_INDEX);
        };
        let Some(header) = slice.first_chunk::<HEADER_BYTES>() else {
            return Err(Status::MISSING_INDEX);
        };
        let header = HeaderView(header);
        let message_bytes = header.message_bytes();
        if message_bytes > slice.len() as u64 {
            return Err(Status::MISSING_INDEX);
        }
        if header.payload_length() > PAYLOAD_SIZE_BYTES_MAX {
            return Err(Status::TOO_BIG_MESSAGE_PAYLOAD);
        }
        if header.user_headers_length() > USER_HEADERS_SIZE_BYTES_MAX {
            return Err(Status::TOO_BIG_USER_HEADERS);
        }
        if header.offset() < self.offset {
            return Err(Status::INVALID_OFFSET);
        }
        if entry.position < self.position {
            return Err(Status::CANNOT_READ_INDEX_POSITION);
        }
        if header.reserved() != 0 {
            return Err(Status::INVALID_RESERVED_FIELD);
        }
        self.position = entry.position;
        self.offset = header.offset();
        self.messages_bytes += message_bytes;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
