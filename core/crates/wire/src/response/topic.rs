//! Topics and partitions.

use alloc::vec::Vec;

use super::part::{Part, payload};
use super::{read_counted, write_all};
use crate::reader::Reader;
use crate::writer::Writer;
use crate::{CompressionAlgorithm, Malformed, PartitionState};

/// One topic.
///
/// Layout: `u32 id · u64 created_at · u32 partitions_count · u64 message_expiry · u8 compression · u64 max_topic_size ·
/// u8 replication_factor · u64 size_bytes · u64 messages_count · Name`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TopicHeader<'a> {
    /// The topic's id within its stream.
    pub id: u32,
    /// Microseconds since the Unix epoch.
    pub created_at: u64,
    /// Number of partitions of the topic.
    pub partitions_count: u32,
    /// Microseconds; 2^64-1 means never.
    pub message_expiry: u64,
    /// Compression that clients apply to payloads.
    pub compression: CompressionAlgorithm,
    /// Bytes; 2^64-1 means unlimited.
    pub max_topic_size: u64,
    /// Number of copies of each partition.
    pub replication_factor: u8,
    /// Bytes of its messages, headers included.
    pub size_bytes: u64,
    /// Number of messages in the topic.
    pub messages_count: u64,
    /// Name of the topic.
    pub name: &'a str,
}

/// One partition.
///
/// Layout: `u32 id · u64 created_at · u32 segments_count · u64 current_offset · u64 size_bytes · u64 messages_count`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartitionInfo {
    /// The partition's id within its topic.
    pub id: u32,
    /// Microseconds since the Unix epoch.
    pub created_at: u64,
    /// Number of segments, the open one included.
    pub segments_count: u32,
    /// Offset of the last message; 0 also when there is none.
    pub current_offset: u64,
    /// Bytes of its messages, headers included.
    pub size_bytes: u64,
    /// Number of messages in the partition.
    pub messages_count: u64,
}

/// State and location of a partition. The response to `DescribePartitions` is a list of these, by ascending id.
///
/// Layout: `u32 id · u8 state · u32 node_id · Str32 node · u64 first_offset · u64 next_deletion_at`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartitionDescription<'a> {
    /// The partition's id within its topic.
    pub id: u32,
    /// State of the partition.
    pub state: PartitionState,
    /// Partition node to which the partition is assigned; 0 without partition nodes, and if it is assigned to none.
    pub node_id: u32,
    /// Name of that node; empty if there is none.
    pub node: &'a str,
    /// First retained offset; the next offset if the partition is empty.
    pub first_offset: u64,
    /// Time before which nothing is removed because of its age, in microseconds since the Unix epoch; 0 if the time is
    /// unknown or nothing ever expires.
    pub next_deletion_at: u64,
}

/// One topic with its partitions by ascending id: response to `GetTopic` and `CreateTopic`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicDetails<'a> {
    /// The topic; its `partitions_count` is the number of partitions that follow.
    pub topic: TopicHeader<'a>,
    /// Partitions of the topic.
    pub partitions: Vec<PartitionInfo>,
}

payload!(TopicHeader<'a>);
payload!(TopicDetails<'a>);
payload!(PartitionInfo);

impl<'a> Part<'a> for TopicHeader<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(Self {
            id: reader.u32()?,
            created_at: reader.u64()?,
            partitions_count: reader.u32()?,
            message_expiry: reader.u64()?,
            compression: reader.u8()?.try_into()?,
            max_topic_size: reader.u64()?,
            replication_factor: reader.u8()?,
            size_bytes: reader.u64()?,
            messages_count: reader.u64()?,
            name: reader.name()?,
        })
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.u32(self.id);
        out.u64(self.created_at);
        out.u32(self.partitions_count);
        out.u64(self.message_expiry);
        out.u8(self.compression.code());
        out.u64(self.max_topic_size);
        out.u8(self.replication_factor);
        out.u64(self.size_bytes);
        out.u64(self.messages_count);
        out.name(self.name);
    }
}

impl<'a> Part<'a> for PartitionInfo {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(Self {
            id: reader.u32()?,
            created_at: reader.u64()?,
            segments_count: reader.u32()?,
            current_offset: reader.u64()?,
            size_bytes: reader.u64()?,
            messages_count: reader.u64()?,
        })
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.u32(self.id);
        out.u64(self.created_at);
        out.u32(self.segments_count);
        out.u64(self.current_offset);
        out.u64(self.size_bytes);
        out.u64(self.messages_count);
    }
}

impl<'a> Part<'a> for PartitionDescription<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(Self {
            id: reader.u32()?,
            state: reader.u8()?.try_into()?,
            node_id: reader.u32()?,
            node: reader.str32()?,
            first_offset: reader.u64()?,
            next_deletion_at: reader.u64()?,
        })
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.u32(self.id);
        out.u8(self.state.code());
        out.u32(self.node_id);
        out.str32(self.node);
        out.u64(self.first_offset);
        out.u64(self.next_deletion_at);
    }
}

impl<'a> Part<'a> for TopicDetails<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        let topic = TopicHeader::read(reader)?;
        let partitions = read_counted(reader, topic.partitions_count)?;
        Ok(Self { topic, partitions })
    }

    /// Writes the number of `partitions` as the count, so that the two always agree.
    fn write(&self, out: &mut Writer<'_>) {
        TopicHeader {
            partitions_count: out.count_of(&self.partitions),
            ..self.topic
        }
        .write(out);
        write_all(&self.partitions, out);
    }
}
