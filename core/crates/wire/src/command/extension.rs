//! Extension commands, which are not part of the Iggy protocol: only clients that negotiate them receive their
//! responses.

use alloc::vec::Vec;

use super::{Payload, PollMessages, counted};
use crate::reader::Reader;
use crate::writer::Writer;
use crate::{Consumer, Identifier, Malformed, Status, WatchAction};

/// Read messages, and wait if fewer are available than requested: `WaitMessages` and `ReadMessages`.
///
/// Layout: `PollMessages · u32 minimum_bytes · u64 maximum_wait_micros`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitMessages<'a> {
    /// Messages to read.
    pub poll: PollMessages<'a>,
    /// Minimum number of bytes of messages for a response before the maximum wait; 0 for an immediate response.
    pub minimum_bytes: u32,
    /// Maximum wait in microseconds, after which the available messages are returned; the server has a limit of its
    /// own.
    pub maximum_wait_micros: u64,
}

/// Start or stop notifications about changes of partitions.
///
/// Layout: `u8 action · u32 topics_count · WatchedTopic[topics_count]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchPartitions<'a> {
    /// Start or stop.
    pub action: WatchAction,
    /// Partitions, by topic.
    pub topics: Vec<WatchedTopic<'a>>,
}

/// Partitions of one topic. Layout: `Ident stream · Ident topic · u32 partitions_count · u32 partition_id[partitions_count]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchedTopic<'a> {
    /// The stream.
    pub stream: Identifier<'a>,
    /// The topic within the stream.
    pub topic: Identifier<'a>,
    /// Partitions of the topic.
    pub partition_ids: Vec<u32>,
}

/// Set the trace context of the next request on this connection, as defined by W3C Trace Context.
///
/// Layout: `u8[16] trace_id · u8[8] span_id · u8 flags`, the ids in the order of their hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SetTraceContext {
    /// Trace id.
    pub trace_id: u128,
    /// Parent span of the request.
    pub span_id: u64,
    /// Flags; bit 0: the trace is sampled.
    pub flags: u8,
}

/// Turn the connection into a link from a shard of a gateway to a shard of the addressed partition node.
///
/// Layout: `u16 version · u32 node_id · u16 shard · u64 gateway · u64 catalog_version · Str32 ticket`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct OpenLink<'a> {
    /// Version of the link protocol.
    pub version: u16,
    /// Intended node; guards against another node that has taken over the address.
    pub node_id: u32,
    /// Shard of that node.
    pub shard: u16,
    /// Identifier of one run of the gateway process.
    pub gateway: u64,
    /// Version of the gateway's catalog.
    pub catalog_version: u64,
    /// Ticket that proves that the client is a gateway.
    pub ticket: &'a str,
}

/// Log in at a partition node with the rights of the ticket. Layout: `Str32 ticket`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct LoginWithTicket<'a> {
    /// The ticket.
    pub ticket: &'a str,
}

impl core::fmt::Debug for OpenLink<'_> {
    /// Omits the ticket, so that a logged command never reveals it.
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        formatter
            .debug_struct("OpenLink")
            .field("version", &self.version)
            .field("node_id", &self.node_id)
            .field("shard", &self.shard)
            .field("gateway", &self.gateway)
            .field("catalog_version", &self.catalog_version)
            .finish_non_exhaustive()
    }
}

impl core::fmt::Debug for LoginWithTicket<'_> {
    /// Omits the ticket, so that a logged command never reveals it.
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        formatter
            .debug_struct("LoginWithTicket")
            .finish_non_exhaustive()
    }
}

impl<'a> Payload<'a> for OpenLink<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Status> {
        Ok(Self {
            version: reader.u16()?,
            node_id: reader.u32()?,
            shard: reader.u16()?,
            gateway: reader.u64()?,
            catalog_version: reader.u64()?,
            ticket: reader.str32()?,
        })
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.u16(self.version);
        out.u32(self.node_id);
        out.u16(self.shard);
        out.u64(self.gateway);
        out.u64(self.catalog_version);
        out.str32(self.ticket);
    }
}

impl<'a> Payload<'a> for LoginWithTicket<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Status> {
        Ok(Self {
            ticket: reader.str32()?,
        })
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.str32(self.ticket);
    }
}

impl<'a> Payload<'a> for SetTraceContext {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Status> {
        Ok(Self {
            trace_id: u128::from_be_bytes(*reader.array()?),
            span_id: u64::from_be_bytes(*reader.array()?),
            flags: reader.u8()?,
        })
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.bytes(&self.trace_id.to_be_bytes());
        out.bytes(&self.span_id.to_be_bytes());
        out.u8(self.flags);
    }
}

impl<'a> Payload<'a> for WaitMessages<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Status> {
        Ok(Self {
            poll: PollMessages::read(reader)?,
            minimum_bytes: reader.u32()?,
            maximum_wait_micros: reader.u64()?,
        })
    }

    fn write(&self, out: &mut Writer<'_>) {
        self.poll.write(out);
        out.u32(self.minimum_bytes);
        out.u64(self.maximum_wait_micros);
    }

    fn consumer(&self) -> Option<Consumer<'a>> {
        Some(self.poll.consumer)
    }
}

impl<'a> WatchedTopic<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(Self {
            stream: reader.identifier()?,
            topic: reader.identifier()?,
            partition_ids: counted(reader, Reader::u32)?,
        })
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.identifier(self.stream);
        out.identifier(self.topic);
        out.count(self.partition_ids.len());
        for id in &self.partition_ids {
            out.u32(*id);
        }
    }
}

impl<'a> Payload<'a> for WatchPartitions<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Status> {
        Ok(Self {
            action: WatchAction::try_from(reader.u8()?)?,
            topics: counted(reader, WatchedTopic::read)?,
        })
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.u8(self.action.code());
        out.count(self.topics.len());
        for topic in &self.topics {
            topic.write(out);
        }
    }
}
