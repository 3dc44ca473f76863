//! Splitting a range of messages for parallel readers.

use super::Payload;
use crate::reader::Reader;
use crate::writer::Writer;
use crate::{Identifier, Status};

/// Split a range of messages into parts of about the same size.
///
/// Layout: `Ident stream · Ident topic · u32 partition_id · u64 start · u64 end · u64 target_bytes`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlanRange<'a> {
    /// The stream.
    pub stream: Identifier<'a>,
    /// The topic within the stream.
    pub topic: Identifier<'a>,
    /// The partition within the topic.
    pub partition_id: u32,
    /// First offset of the range; raised to the first retained message.
    pub start: u64,
    /// Offset after the last one of the range; lowered to the end of the partition.
    pub end: u64,
    /// Minimum number of bytes of a part, except the last one; 0: a single part.
    pub target_bytes: u64,
}

impl<'a> Payload<'a> for PlanRange<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Status> {
        Ok(Self {
            stream: reader.identifier()?,
            topic: reader.identifier()?,
            partition_id: reader.u32()?,
            start: reader.u64()?,
            end: reader.u64()?,
            target_bytes: reader.u64()?,
        })
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.identifier(self.stream);
        out.identifier(self.topic);
        out.u32(self.partition_id);
        out.u64(self.start);
        out.u64(self.end);
        out.u64(self.target_bytes);
    }
}
