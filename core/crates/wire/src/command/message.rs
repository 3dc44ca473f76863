//! Poll and flush requests.

use super::Payload;
use crate::reader::Reader;
use crate::writer::Writer;
use crate::{Consumer, Identifier, PollingStrategy, Status};

/// Read messages.
///
/// Layout: `Consumer · Ident stream · Ident topic · OptPartition · Polling · u32 count · u8 auto_commit`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PollMessages<'a> {
    /// Consumer that polls.
    pub consumer: Consumer<'a>,
    /// The stream.
    pub stream: Identifier<'a>,
    /// The topic within the stream.
    pub topic: Identifier<'a>,
    /// Partition id; `None`: partition 0 for a plain consumer, the server's choice for a group.
    pub partition_id: Option<u32>,
    /// Starting point of the poll.
    pub strategy: PollingStrategy,
    /// Maximum number of messages to return.
    pub count: u32,
    /// True to store the offset of the last message returned.
    pub auto_commit: bool,
}

/// Write the buffered messages of a partition. Layout: `Ident stream · Ident topic · u32 partition_id · u8 fsync`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlushUnsavedBuffer<'a> {
    /// The stream.
    pub stream: Identifier<'a>,
    /// The topic within the stream.
    pub topic: Identifier<'a>,
    /// The partition.
    pub partition_id: u32,
    /// True to sync to the device as well.
    pub fsync: bool,
}

impl<'a> Payload<'a> for PollMessages<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Status> {
        Ok(Self {
            consumer: Consumer::read(reader)?,
            stream: reader.identifier()?,
            topic: reader.identifier()?,
            partition_id: reader.optional_partition()?,
            strategy: PollingStrategy::read(reader)?,
            count: reader.u32()?,
            auto_commit: reader.bool()?,
        })
    }

    fn write(&self, out: &mut Writer<'_>) {
        self.consumer.write(out);
        out.identifier(self.stream);
        out.identifier(self.topic);
        out.optional_partition(self.partition_id);
        out.polling(self.strategy);
        out.u32(self.count);
        out.bool(self.auto_commit);
    }

    fn consumer(&self) -> Option<Consumer<'a>> {
        Some(self.consumer)
    }
}

impl<'a> Payload<'a> for FlushUnsavedBuffer<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Status> {
        Ok(Self {
            stream: reader.identifier()?,
            topic: reader.identifier()?,
            partition_id: reader.u32()?,
            fsync: reader.bool()?,
        })
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.identifier(self.stream);
        out.identifier(self.topic);
        out.u32(self.partition_id);
        out.bool(self.fsync);
    }
}
