//! Answers to the commands that the classic protocol does not have.

use alloc::vec::Vec;

use super::part::{Part, payload};
use super::{read_counted, write_all};
use crate::reader::Reader;
use crate::writer::Writer;
use crate::{Malformed, Status};

/// What a server offers beyond the classic protocol: the answer to `Capabilities`.
///
/// Layout: `u32 version · u32 codes_count · u32 code[codes_count] · u32 limits_count · Limit[limits_count]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capabilities {
    /// Grows when the meaning of an extension changes.
    pub version: u32,
    /// The commands, ascending.
    pub codes: Vec<u32>,
    /// Limits, ascending by kind. A client passes over those that it does not know.
    pub limits: Vec<Limit>,
}

/// One limit of a server. Layout: `u32 kind · u64 value`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// The number of a [`LimitKind`], or of one that came later.
    pub kind: u32,
    /// In the unit of its kind.
    pub value: u64,
}

/// What a [`Limit`] limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u32)]
pub enum LimitKind {
    /// Bytes in the payload of a request other than `SendMessages`.
    RequestBytes = 1,
    /// Bytes in the payload of `SendMessages`.
    SendBytes = 2,
    /// Bytes of messages in one answer; a single message may be larger.
    PollBytes = 3,
    /// Microseconds that `WaitMessages` waits.
    WaitMicros = 4,
    /// Partitions that the connections of one shard may wait for and watch in all.
    WaitedPartitions = 5,
}

/// What is known of a watched partition: the frames that follow a `WatchPartitions` hold any number of these.
///
/// Layout: `u32 status · u32 stream_id · u32 topic_id · u32 partition_id · u64 incarnation · u64 purge_epoch ·
/// u64 first_offset · u64 next_offset`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WatchedPartition {
    /// 0: as follows. Else why the partition is not watched any more; the last four fields are 0 then.
    pub status: Status,
    /// The stream.
    pub stream_id: u32,
    /// The topic within the stream.
    pub topic_id: u32,
    /// The partition within the topic.
    pub partition_id: u32,
    /// Tells the partition from an earlier one of the same numbers.
    pub incarnation: u64,
    /// Grows with every purge, after which offsets begin at 0 again.
    pub purge_epoch: u64,
    /// The first offset that can be polled.
    pub first_offset: u64,
    /// The offset behind the last message that can be polled.
    pub next_offset: u64,
}

/// A ticket for a topic: the answer to `IssueTicket`. Layout: `Str32 ticket · u64 not_after`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct IssuedTicket<'a> {
    /// The text to be shown to partition nodes.
    pub ticket: &'a str,
    /// The last second, since the Unix epoch, in which it opens anything.
    pub not_after: u64,
}

impl core::fmt::Debug for IssuedTicket<'_> {
    /// Leaves the ticket out, so that a logged answer never shows it.
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        formatter
            .debug_struct("IssuedTicket")
            .field("not_after", &self.not_after)
            .finish_non_exhaustive()
    }
}

impl Capabilities {
    /// The value of a limit that the server has told.
    pub fn limit(&self, kind: LimitKind) -> Option<u64> {
        let found = self.limits.iter().find(|limit| limit.kind == kind as u32);
        found.map(|limit| limit.value)
    }
}

payload!(Capabilities);
payload!(WatchedPartition);
payload!(IssuedTicket<'a>);

impl Part<'_> for Capabilities {
    fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let version = reader.u32()?;
        let codes_count = reader.u32()?;
        let codes = read_counted(reader, codes_count)?;
        let limits_count = reader.u32()?;
        Ok(Self {
            version,
            codes,
            limits: read_counted(reader, limits_count)?,
        })
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.u32(self.version);
        out.count(self.codes.len());
        write_all(&self.codes, out);
        out.count(self.limits.len());
        write_all(&self.limits, out);
    }
}

impl Part<'_> for u32 {
    fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        reader.u32()
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.u32(*self);
    }
}

impl Part<'_> for Limit {
    fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            kind: reader.u32()?,
            value: reader.u64()?,
        })
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.u32(self.kind);
        out.u64(self.value);
    }
}

impl<'a> Part<'a> for IssuedTicket<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(Self {
            ticket: reader.str32()?,
            not_after: reader.u64()?,
        })
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.str32(self.ticket);
        out.u64(self.not_after);
    }
}

impl Part<'_> for WatchedPartition {
    fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            status: Status(reader.u32()?),
            stream_id: reader.u32()?,
            topic_id: reader.u32()?,
            partition_id: reader.u32()?,
            incarnation: reader.u64()?,
            purge_epoch: reader.u64()?,
            first_offset: reader.u64()?,
            next_offset: reader.u64()?,
        })
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.u32(self.status.0);
        out.u32(self.stream_id);
        out.u32(self.topic_id);
        out.u32(self.partition_id);
        out.u64(self.incarnation);
        out.u64(self.purge_epoch);
        out.u64(self.first_offset);
        out.u64(self.next_offset);
    }
}
