//! File of a stage.
//!
//! | bytes | field |
//! |---|---|
//! | 0..8 | `hdrstage` |
//! | 8..12 | format version, 1 |
//! | 12..16 | 0 |
//! | 16..24 | incarnation of the partition |
//! | 24..40 | id of the stage |
//! | 40..48 | XXH3-64 of the above |
//! | 48.. | blocks: `u32` number of messages, `u32` their size in bytes, XXH3-64 of the messages, then the messages as received |
//! | last 48 | footer: number of messages in all blocks, their size, the file's length, `u32` number of chunks, `u32` 0, incarnation, XXH3-64 of the above and of the id |
//!
//! The footer is written after everything before it is on the device: a valid footer proves that the stage is complete.
//! A block is at most as large as one read, or holds a single message.

use alloc::vec::Vec;

use headrace_log::accepted_bytes;
use headrace_model::StageId;
use headrace_model::limits::{PAYLOAD_SIZE_BYTES_MAX, USER_HEADERS_SIZE_BYTES_MAX};
use headrace_wire::hash::xxh3_64;

pub(super) const HEADER_BYTES: usize = 48;
pub(super) const BLOCK_HEADER_BYTES: usize = 16;
pub(super) const FOOTER_BYTES: usize = 48;
/// Number of bytes that are read at once.
pub(super) const WINDOW_BYTES: usize = 1024 * 1024;
/// Maximum size of the messages of one block, unless it holds a single message.
const BLOCK_BYTES_MAX: usize = WINDOW_BYTES - BLOCK_HEADER_BYTES;

/// Maximum size of a block with a single message.
const MESSAGE_BYTES_MAX: usize = headrace_wire::message::HEADER_BYTES
    + PAYLOAD_SIZE_BYTES_MAX as usize
    + USER_HEADERS_SIZE_BYTES_MAX as usize;

const MAGIC: &[u8; 8] = b"hdrstage";
const VERSION: u32 = 1;

pub(super) fn header(incarnation: u64, id: StageId) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES);
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(&incarnation.to_le_bytes());
    bytes.extend_from_slice(&id.0.to_le_bytes());
    let checksum = xxh3_64(&bytes);
    bytes.extend_from_slice(&checksum.to_le_bytes());
    bytes
}

/// Header of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BlockHeader {
    pub(super) messages: u32,
    pub(super) bytes: u32,
    checksum: u64,
}

impl BlockHeader {
    pub(super) fn encode(self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(BLOCK_HEADER_BYTES);
        bytes.extend_from_slice(&self.messages.to_le_bytes());
        bytes.extend_from_slice(&self.bytes.to_le_bytes());
        bytes.extend_from_slice(&self.checksum.to_le_bytes());
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; BLOCK_HEADER_BYTES] = bytes.first_chunk()?;
        let header = Self {
            messages: u32_at(bytes, 0),
            bytes: u32_at(bytes, 4),
            checksum: u64_at(bytes, 8),
        };
        let is_possible =
            header.messages > 0 && (1..=MESSAGE_BYTES_MAX).contains(&(header.bytes as usize));
        is_possible.then_some(header)
    }

    pub(super) fn is_of(self, messages: &[u8]) -> bool {
        self.checksum == xxh3_64(messages)
    }

    /// Size of the block in bytes, including the header.
    pub(super) fn length(self) -> usize {
        BLOCK_HEADER_BYTES + self.bytes as usize
    }
}

/// Divide messages, packed back to back, into blocks. None if the number of messages does not match.
pub(super) fn blocks(messages: &[u8], messages_count: u32) -> Option<Vec<BlockHeader>> {
    let mut blocks = Vec::new();
    let mut left = messages_count;
    let mut start = 0;
    while start < messages.len() {
        let (mut end, mut count) = (start, 0);
        while end < messages.len() {
            let length = accepted_bytes(&messages[end..])?;
            if count > 0 && end + length - start > BLOCK_BYTES_MAX {
                break;
            }
            end += length;
            count += 1;
        }
        left = left.checked_sub(count)?;
        blocks.push(BlockHeader {
            messages: count,
            bytes: u32::try_from(end - start).ok()?,
            checksum: xxh3_64(&messages[start..end]),
        });
        start = end;
    }
    (left == 0).then_some(blocks)
}

/// Footer of a complete stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Footer {
    pub(super) messages: u64,
    pub(super) bytes: u64,
    /// Length of the whole file.
    pub(super) length: u64,
    pub(super) chunks: u32,
}

impl Footer {
    pub(super) fn encode(self, incarnation: u64, id: StageId) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(FOOTER_BYTES);
        bytes.extend_from_slice(&self.messages.to_le_bytes());
        bytes.extend_from_slice(&self.bytes.to_le_bytes());
        bytes.extend_from_slice(&self.length.to_le_bytes());
        bytes.extend_from_slice(&self.chunks.to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&incarnation.to_le_bytes());
        let checksum = footer_checksum(&bytes, id);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Decode a footer. None if it is not the footer of a complete stage of this id and partition.
    pub(super) fn decode(bytes: &[u8], incarnation: u64, id: StageId, length: u64) -> Option<Self> {
        let bytes: &[u8; FOOTER_BYTES] = bytes.try_into().ok()?;
        let footer = Self {
            messages: u64_at(bytes, 0),
            bytes: u64_at(bytes, 8),
            length: u64_at(bytes, 16),
            chunks: u32_at(bytes, 24),
        };
        let is_ours = u64_at(bytes, 32) == incarnation && footer.length == length;
        (has_checksum(bytes, id) && is_ours).then_some(footer)
    }
}

/// Return whether these last bytes of a file, which are no valid footer, may have been one before they were damaged. An
/// incomplete stage ends with messages or zeros.
pub(super) fn resembles_footer(bytes: &[u8], incarnation: u64, id: StageId, length: u64) -> bool {
    let Ok(bytes) = <&[u8; FOOTER_BYTES]>::try_from(bytes) else {
        return true;
    };
    let is_foreign = has_checksum(bytes, id) && u64_at(bytes, 32) != incarnation;
    let has_known_field = u64_at(bytes, 16) == length || u64_at(bytes, 32) == incarnation;
    has_known_field && !is_foreign
}

fn has_checksum(footer: &[u8; FOOTER_BYTES], id: StageId) -> bool {
    footer_checksum(&footer[..FOOTER_BYTES - 8], id) == u64_at(footer, 40)
}

fn footer_checksum(fields: &[u8], id: StageId) -> u64 {
    let mut hashed = fields.to_vec();
    hashed.extend_from_slice(&id.0.to_le_bytes());
    xxh3_64(&hashed)
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// A footer that does not belong to a complete stage of this id and partition is rejected.
        #[test]
        fn only_an_intact_end_of_this_stage_is_read(
            numbers: (u64, u64, u64, u32), incarnation: u64, id: u128, place in 0..FOOTER_BYTES, mask in 1_u8..,
        ) {
            let (messages, bytes, length, chunks) = numbers;
            let footer = Footer { messages, bytes, length, chunks };
            let id = StageId(id);
            let mut encoded = footer.encode(incarnation, id);
            prop_assert_eq!(Footer::decode(&encoded, incarnation, id, length), Some(footer));
            prop_assert_eq!(Footer::decode(&encoded, incarnation ^ 1, id, length), None);
            prop_assert_eq!(Footer::decode(&encoded, incarnation, StageId(id.0 ^ 1), length), None);
            prop_assert_eq!(Footer::decode(&encoded, incarnation, id, length ^ 1), None);
            prop_assert_eq!(Footer::decode(&encoded[1..], incarnation, id, length), None);
            encoded[place] ^= mask;
            prop_assert_eq!(Footer::decode(&encoded, incarnation, id, length), None);
        }

        /// Blocks cover all messages; each fits one read or holds a single message.
        #[test]
        fn blocks_cover_the_messages(lengths in prop::collection::vec(0_u32..600_000, 0..12), wrong in 1_u32..3) {
            let mut messages = Vec::new();
            for length in &lengths {
                let mut header = [0; headrace_wire::message::HEADER_BYTES];
                headrace_wire::message::HeaderMut(&mut header).set_payload_length(*length);
                messages.extend_from_slice(&header);
                messages.resize(messages.len() + *length as usize, 7);
            }
            let count = u32::try_from(lengths.len()).unwrap();
            let blocks = blocks(&messages, count).expect("well-formed");
            let mut at = 0;
            for block in &blocks {
                prop_assert!(block.length() <= WINDOW_BYTES || block.messages == 1);
                let covered = &messages[at..at + block.bytes as usize];
                prop_assert!(block.is_of(covered));
                prop_assert_eq!(BlockHeader::decode(&block.encode()), Some(*block));
                at += covered.len();
            }
            prop_assert_eq!(at, messages.len());
            prop_assert_eq!(blocks.iter().map(|block| block.messages).sum::<u32>(), count);
            prop_assert_eq!(super::blocks(&messages, count + wrong), None);
            if !messages.is_empty() {
                prop_assert_eq!(super::blocks(&messages[..messages.len() - 1], count), None);
            }
        }
    }
}
