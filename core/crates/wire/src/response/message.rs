//! Polled messages and stored offsets.

use super::part::{Part, payload};
use crate::frame::{RESPONSE_HEADER_BYTES, ResponseHeader};
use crate::message::Messages;
use crate::reader::Reader;
use crate::writer::Writer;
use crate::{Malformed, Status};

/// Bytes before the messages of a poll's answer.
pub const POLLED_HEADER_BYTES: usize = 16;

/// Bytes before those, in the answer to `ReadMessages`.
const READ_GAP_BYTES: usize = 16;

/// What stands before polled messages. Layout: `u32 partition_id · u64 current_offset · u32 messages_count`.
///
/// All zero when a member of a group has no partition to poll, or asks for one that it does not own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PolledHeader {
    /// The partition that was polled; the server chose it for a group.
    pub partition_id: u32,
    /// Offset of the last message in the partition, not of the consumer; 0 also for an empty partition.
    pub current_offset: u64,
    /// Messages that follow.
    pub messages_count: u32,
}

/// The answer to `PollMessages`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Polled<'a> {
    /// Partition, its last offset, and how many messages follow.
    pub header: PolledHeader,
    /// The messages, back to back, by ascending offset. Not checked by decoding: [`Self::messages`] walks over them.
    pub message_bytes: &'a [u8],
}

/// Messages that were removed before they could be read. Layout: `u64 from · u64 to`; both 0 where there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReadGap {
    /// The offset that was to be read.
    pub from: u64,
    /// The first offset behind it that is left.
    pub to: u64,
}

/// The answer to `ReadMessages`. Layout: `ReadGap ·` the answer to `PollMessages`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadAnswer<'a> {
    /// What is missing before the messages.
    pub gap: ReadGap,
    /// The messages.
    pub polled: Polled<'a>,
}

/// A stored offset: the answer to `GetConsumerOffset`.
///
/// Layout: `u32 partition_id · u64 current_offset · u64 stored_offset`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConsumerOffsetInfo {
    /// The partition.
    pub partition_id: u32,
    /// Offset of the last message in the partition.
    pub current_offset: u64,
    /// Offset of the last message that the consumer processed.
    pub stored_offset: u64,
}

payload!(PolledHeader);
payload!(Polled<'a>);
payload!(ConsumerOffsetInfo);
payload!(ReadAnswer<'a>);

impl PolledHeader {
    /// The sixteen bytes.
    pub fn to_bytes(&self) -> [u8; POLLED_HEADER_BYTES] {
        let mut bytes = [0; POLLED_HEADER_BYTES];
        bytes[..4].copy_from_slice(&self.partition_id.to_le_bytes());
        bytes[4..12].copy_from_slice(&self.current_offset.to_le_bytes());
        bytes[12..].copy_from_slice(&self.messages_count.to_le_bytes());
        bytes
    }

    /// The head of a successful response to which only the bytes of the messages need to be appended, so that a
    /// server can send them from where they lie.
    ///
    /// `None` when `messages_bytes` does not fit the frame's length.
    pub fn frame_head(
        &self,
        messages_bytes: u64,
    ) -> Option<[u8; RESPONSE_HEADER_BYTES + POLLED_HEADER_BYTES]> {
        let length = messages_bytes.checked_add(POLLED_HEADER_BYTES as u64)?;
        let header = ResponseHeader {
            status: Status::OK,
            length: u32::try_from(length).ok()?,
        };
        let mut head = [0; RESPONSE_HEADER_BYTES + POLLED_HEADER_BYTES];
        head[..RESPONSE_HEADER_BYTES].copy_from_slice(&header.encode());
        head[RESPONSE_HEADER_BYTES..].copy_from_slice(&self.to_bytes());
        Some(head)
    }

    /// The same for the answer to `ReadMessages`.
    pub fn read_frame_head(
        &self,
        gap: ReadGap,
        messages_bytes: u64,
    ) -> Option<[u8; RESPONSE_HEADER_BYTES + READ_GAP_BYTES + POLLED_HEADER_BYTES]> {
        let length = messages_bytes.checked_add((READ_GAP_BYTES + POLLED_HEADER_BYTES) as u64)?;
        let header = ResponseHeader {
            status: Status::OK,
            length: u32::try_from(length).ok()?,
        };
        let mut head = [0; RESPONSE_HEADER_BYTES + READ_GAP_BYTES + POLLED_HEADER_BYTES];
        let (front, polled) = head.split_at_mut(RESPONSE_HEADER_BYTES + READ_GAP_BYTES);
        front[..RESPONSE_HEADER_BYTES].copy_from_slice(&header.encode());
        front[RESPONSE_HEADER_BYTES..][..8].copy_from_slice(&gap.from.to_le_bytes());
        front[RESPONSE_HEADER_BYTES..][8..].copy_from_slice(&gap.to.to_le_bytes());
        polled.copy_from_slice(&self.to_bytes());
        Some(head)
    }
}

impl<'a> Polled<'a> {
    /// Walk over the messages. A message that the bytes cut off is an error; compare the number of messages with the
    /// header's if that matters.
    pub fn messages(&self) -> Messages<'a> {
        Messages::new(self.message_bytes)
    }

    /// Check what decoding leaves out: that the bytes are exactly as many whole messages as announced, none with a
    /// reserved field that is not 0.
    pub fn check(&self) -> Result<(), Malformed> {
        let mut count = 0_u32;
        for message in self.messages() {
            if message?.header().reserved() != 0 {
                return Err(Malformed::ReservedNotZero);
            }
            count = count.checked_add(1).ok_or(Malformed::CountMismatch)?;
        }
        if count == self.header.messages_count {
            Ok(())
        } else {
            Err(Malformed::CountMismatch)
        }
    }
}

impl<'a> Part<'a> for PolledHeader {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(Self {
            partition_id: reader.u32()?,
            current_offset: reader.u64()?,
            messages_count: reader.u32()?,
        })
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.bytes(&self.to_bytes());
    }
}

impl<'a> Part<'a> for Polled<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(Self {
            header: PolledHeader::read(reader)?,
            message_bytes: reader.rest(),
        })
    }

    fn write(&self, out: &mut Writer<'_>) {
        self.header.write(out);
        out.bytes(self.message_bytes);
    }
}

impl<'a> Part<'a> for ReadAnswer<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        let gap = ReadGap {
            from: reader.u64()?,
            to: reader.u64()?,
        };
        if gap != ReadGap::default() && gap.from >= gap.to {
            return Err(Malformed::CountMismatch);
        }
        Ok(Self {
            gap,
            polled: Polled::read(reader)?,
        })
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.u64(self.gap.from);
        out.u64(self.gap.to);
        self.polled.write(out);
    }
}

impl<'a> Part<'a> for ConsumerOffsetInfo {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(Self {
            partition_id: reader.u32()?,
            current_offset: reader.u64()?,
            stored_offset: reader.u64()?,
        })
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.u32(self.partition_id);
        out.u64(self.current_offset);
        out.u64(self.stored_offset);
    }
}
