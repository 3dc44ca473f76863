//! Appended and polled messages, and stored offsets.

use super::part::{Part, payload};
use crate::frame::{RESPONSE_HEADER_BYTES, ResponseHeader};
use crate::message::Messages;
use crate::reader::Reader;
use crate::writer::Writer;
use crate::{Malformed, Status};

/// Bytes before the messages of a poll response.
pub const POLLED_HEADER_BYTES: usize = 16;

/// Bytes of the additional prefix in the response to `ReadMessages`.
const READ_GAP_BYTES: usize = 16;

/// Header of polled messages. Layout: `u32 partition_id · u64 current_offset · u32 messages_count`.
///
/// All zero if a member of a group has no partition to poll, or asks for one that it does not own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PolledHeader {
    /// Partition that was polled; chosen by the server for a group.
    pub partition_id: u32,
    /// Offset of the last message in the partition, not of the consumer; 0 also for an empty partition.
    pub current_offset: u64,
    /// Messages that follow.
    pub messages_count: u32,
}

/// Response to `PollMessages`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Polled<'a> {
    /// Partition, its last offset, and the number of messages that follow.
    pub header: PolledHeader,
    /// Messages, back to back, by ascending offset. Not validated by decoding: [`Self::messages`] iterates over them.
    pub message_bytes: &'a [u8],
}

/// Range of messages that were removed before they could be read. Layout: `u64 from · u64 to`; both 0 if there is no
/// gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReadGap {
    /// Requested offset.
    pub from: u64,
    /// First retained offset after `from`.
    pub to: u64,
}

/// Response to `ReadMessages`. Layout: `ReadGap ·` the response to `PollMessages`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadAnswer<'a> {
    /// Gap before the messages.
    pub gap: ReadGap,
    /// The messages.
    pub polled: Polled<'a>,
}

payload!(PolledHeader);
payload!(Polled<'a>);
payload!(ReadAnswer<'a>);

impl PolledHeader {
    /// Encode the header.
    pub fn to_bytes(&self) -> [u8; POLLED_HEADER_BYTES] {
        let mut bytes = [0; POLLED_HEADER_BYTES];
        bytes[..4].copy_from_slice(&self.partition_id.to_le_bytes());
        bytes[4..12].copy_from_slice(&self.current_offset.to_le_bytes());
        bytes[12..].copy_from_slice(&self.messages_count.to_le_bytes());
        bytes
    }

    /// Encode the start of a successful response, up to the messages, so that a server can send the messages from where
    /// they are stored.
    ///
    /// `None` if `messages_bytes` does not fit the length of the frame.
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

    /// Encode the start of a successful response to `ReadMessages`; see [`Self::frame_head`].
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
    /// Iterate over the messages. A truncated message is an error; the number of messages is not compared with the
    /// header.
    pub fn messages(&self) -> Messages<'a> {
        Messages::new(self.message_bytes)
    }

    /// Validate what decoding does not: the bytes are exactly the announced number of complete messages, each with a
    /// reserved field of 0.
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
