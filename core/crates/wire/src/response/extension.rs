//! Responses to the extension commands.

use alloc::sync::Arc;
use alloc::vec::Vec;

use headrace_model::{Offset, Opening};

use super::part::{Part, payload};
use super::{read_counted, write_all};
use crate::reader::Reader;
use crate::writer::Writer;
use crate::{Malformed, Status};

/// Extensions of a server to the Iggy protocol: response to `Capabilities`.
///
/// Layout: `u32 version · u32 codes_count · u32 code[codes_count] · u32 limits_count · Limit[limits_count]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capabilities {
    /// Version, which grows when the meaning of an extension changes.
    pub version: u32,
    /// Codes of the supported commands, ascending.
    pub codes: Vec<u32>,
    /// Limits, ascending by kind. Clients ignore unknown kinds.
    pub limits: Vec<Limit>,
}

/// One limit of a server. Layout: `u32 kind · u64 value`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// Number of a [`LimitKind`], or of a kind defined later.
    pub kind: u32,
    /// Value in the unit of the kind.
    pub value: u64,
}

/// Quantity that a [`Limit`] bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u32)]
pub enum LimitKind {
    /// Maximum number of bytes in the payload of a request other than `SendMessages`.
    RequestBytes = 1,
    /// Maximum number of bytes in the payload of `SendMessages`.
    SendBytes = 2,
    /// Maximum number of bytes of messages in one response; a single message may be larger.
    PollBytes = 3,
    /// Maximum wait of `WaitMessages`, in microseconds.
    WaitMicros = 4,
    /// Maximum number of partitions that the connections of one shard may wait for and watch in total.
    WaitedPartitions = 5,
}

/// State of a watched partition: the frames that follow a `WatchPartitions` hold any number of these.
///
/// Layout: `u32 status · u32 stream_id · u32 topic_id · u32 partition_id · u64 incarnation · u64 purge_epoch ·
/// u64 first_offset · u64 next_offset`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WatchedPartition {
    /// 0: the partition is watched and the following fields are valid. Otherwise the reason why the partition is no
    /// longer watched; the last four fields are 0 in that case.
    pub status: Status,
    /// The stream.
    pub stream_id: u32,
    /// The topic within the stream.
    pub topic_id: u32,
    /// The partition within the topic.
    pub partition_id: u32,
    /// Incarnation, which distinguishes the partition from a deleted one with the same ids.
    pub incarnation: u64,
    /// Purge epoch, which grows with every purge. Offsets restart at 0 after a purge.
    pub purge_epoch: u64,
    /// First offset that can be polled.
    pub first_offset: u64,
    /// Offset after the last message that can be polled.
    pub next_offset: u64,
}

/// State of a watched partition, and the openings of its log: the notifications of a connection that asks for them.
///
/// Layout: `WatchedPartition state · u32 openings_count · (u64 epoch · u64 end)[openings_count]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchedLog {
    /// State as in other notifications.
    pub state: WatchedPartition,
    /// Openings of the log, ascending; the last one is the present. None if they are unknown. See
    /// [`headrace_model::cut_since`].
    pub openings: Arc<[Opening]>,
}

/// Ticket for a topic: response to `IssueTicket`. Layout: `Str32 ticket · u64 not_after`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct IssuedTicket<'a> {
    /// Text to be presented to partition nodes.
    pub ticket: &'a str,
    /// Last second of validity, in seconds since the Unix epoch.
    pub not_after: u64,
}

impl core::fmt::Debug for IssuedTicket<'_> {
    /// Omits the ticket, so that a logged response never reveals it.
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        formatter
            .debug_struct("IssuedTicket")
            .field("not_after", &self.not_after)
            .finish_non_exhaustive()
    }
}

impl Capabilities {
    /// Value of a limit that the server announced.
    pub fn limit(&self, kind: LimitKind) -> Option<u64> {
        let found = self.limits.iter().find(|limit| limit.kind == kind as u32);
        found.map(|limit| limit.value)
    }
}

payload!(Capabilities);
payload!(WatchedPartition);
payload!(WatchedLog);
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

impl From<WatchedPartition> for WatchedLog {
    /// The openings are unknown.
    fn from(state: WatchedPartition) -> Self {
        Self {
            state,
            openings: Arc::default(),
        }
    }
}

impl Part<'_> for WatchedLog {
    fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let state = WatchedPartition::read(reader)?;
        let count = reader.u32()?;
        let openings: Vec<Opening> = read_counted(reader, count)?;
        Ok(Self {
            state,
            openings: openings.into(),
        })
    }

    fn write(&self, out: &mut Writer<'_>) {
        self.state.write(out);
        out.count(self.openings.len());
        write_all(&self.openings, out);
    }
}

impl Part<'_> for Opening {
    fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            epoch: reader.u64()?,
            end: Offset(reader.u64()?),
        })
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.u64(self.epoch);
        out.u64(self.end.0);
    }
}
