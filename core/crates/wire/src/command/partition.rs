//! Partition and segment requests.

use super::Payload;
use crate::reader::Reader;
use crate::writer::Writer;
use crate::{Identifier, Status};

/// Create or delete partitions. Layout: `Ident stream · Ident topic · u32 count`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartitionsCount<'a> {
    /// The stream.
    pub stream: Identifier<'a>,
    /// The topic within the stream.
    pub topic: Identifier<'a>,
    /// Number of partitions to create, or to delete from the highest id down; the handler checks the range (2015,
    /// 2019).
    pub partitions_count: u32,
}

/// Remove sealed segments. Layout: `Ident stream · Ident topic · u32 partition_id · u32 segments_count`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeleteSegments<'a> {
    /// The stream.
    pub stream: Identifier<'a>,
    /// The topic within the stream.
    pub topic: Identifier<'a>,
    /// The partition.
    pub partition_id: u32,
    /// Maximum number of segments to remove, oldest first.
    pub segments_count: u32,
}

impl<'a> Payload<'a> for PartitionsCount<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Status> {
        Ok(Self {
            stream: reader.identifier()?,
            topic: reader.identifier()?,
            partitions_count: reader.u32()?,
        })
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.identifier(self.stream);
        out.identifier(self.topic);
        out.u32(self.partitions_count);
    }
}

impl<'a> Payload<'a> for DeleteSegments<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Status> {
        Ok(Self {
            stream: reader.identifier()?,
            topic: reader.identifier()?,
            partition_id: reader.u32()?,
            segments_count: reader.u32()?,
        })
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.identifier(self.stream);
        out.identifier(self.topic);
        out.u32(self.partition_id);
        out.u32(self.segments_count);
    }
}
