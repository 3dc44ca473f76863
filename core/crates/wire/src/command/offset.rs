//! Stored consumer offsets.

use super::Payload;
use crate::reader::Reader;
use crate::writer::Writer;
use crate::{Consumer, Identifier, Status};

/// Get or delete a stored offset. Layout: `Consumer · Ident stream · Ident topic · OptPartition`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConsumerOffsetPath<'a> {
    /// Consumer that owns the offset.
    pub consumer: Consumer<'a>,
    /// The stream.
    pub stream: Identifier<'a>,
    /// The topic within the stream.
    pub topic: Identifier<'a>,
    /// Partition id; `None`: partition 0, except for a group that deletes (the partition it polled last).
    pub partition_id: Option<u32>,
}

/// Store an offset. Layout: `Consumer · Ident stream · Ident topic · OptPartition · u64 offset`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreConsumerOffset<'a> {
    /// Consumer and partition of the offset.
    pub path: ConsumerOffsetPath<'a>,
    /// Offset of the last message processed.
    pub offset: u64,
}

impl<'a> Payload<'a> for ConsumerOffsetPath<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Status> {
        Ok(Self {
            consumer: Consumer::read(reader)?,
            stream: reader.identifier()?,
            topic: reader.identifier()?,
            partition_id: reader.optional_partition()?,
        })
    }

    fn write(&self, out: &mut Writer<'_>) {
        self.consumer.write(out);
        out.identifier(self.stream);
        out.identifier(self.topic);
        out.optional_partition(self.partition_id);
    }

    fn consumer(&self) -> Option<Consumer<'a>> {
        Some(self.consumer)
    }
}

impl<'a> Payload<'a> for StoreConsumerOffset<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Status> {
        Ok(Self {
            path: ConsumerOffsetPath::read(reader)?,
            offset: reader.u64()?,
        })
    }

    fn write(&self, out: &mut Writer<'_>) {
        self.path.write(out);
        out.u64(self.offset);
    }

    fn consumer(&self) -> Option<Consumer<'a>> {
        Some(self.path.consumer)
    }
}
