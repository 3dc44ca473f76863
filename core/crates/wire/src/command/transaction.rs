//! Transactions: staged messages that become part of their partitions atomically.

use alloc::vec::Vec;

use super::{Payload, counted};
use crate::reader::Reader;
use crate::writer::Writer;
use crate::{Identifier, Malformed, Status};

/// Commit staged messages to their partitions.
///
/// Layout: `Ident stream · Name transaction · Name query_id · u64 batch_id · u8 fence · u32 count · StagedAt[count]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitTransaction<'a> {
    /// Stream that contains all stages.
    pub stream: Identifier<'a>,
    /// Name that the writer keeps over its restarts.
    pub transaction: &'a str,
    /// Query that writes under that name.
    pub query_id: &'a str,
    /// Batch of the query; grows from batch to batch.
    pub batch_id: u64,
    /// True to take the transaction over from another query and fence that query off.
    pub fence: bool,
    /// Stages. Those of one partition are appended in this order.
    pub stages: Vec<StagedAt>,
}

/// Abort a transaction: discard staged messages.
///
/// Layout: `Ident stream · Name transaction · Name query_id · u64 batch_id · u32 count · StagedAt[count]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AbortTransaction<'a> {
    /// Stream that contains all stages.
    pub stream: Identifier<'a>,
    /// Name that the writer keeps over its restarts.
    pub transaction: &'a str,
    /// Query that writes under that name.
    pub query_id: &'a str,
    /// Batch to abort.
    pub batch_id: u64,
    /// Stages to discard.
    pub stages: Vec<StagedAt>,
}

/// One stage. Layout: `u32 topic_id · u32 partition_id · u64 incarnation · u128 stage`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StagedAt {
    /// The topic within the stream.
    pub topic_id: u32,
    /// The partition within the topic.
    pub partition_id: u32,
    /// Incarnation of the partition.
    pub incarnation: u64,
    /// Id of the stage.
    pub stage: u128,
}

/// Name of a record kept in a stream: a transaction or a reader pin. Layout: `Ident stream · Name name`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordName<'a> {
    /// The stream.
    pub stream: Identifier<'a>,
    /// Name of the transaction or the reader.
    pub name: &'a str,
}

/// Pin a value for the readers with one name. Layout: `Ident stream · Name reader · u32 length · u8 value[length]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PinReader<'a> {
    /// The stream.
    pub stream: Identifier<'a>,
    /// Name of the readers.
    pub reader: &'a str,
    /// Value to pin.
    pub value: &'a [u8],
}

impl StagedAt {
    fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            topic_id: reader.u32()?,
            partition_id: reader.u32()?,
            incarnation: reader.u64()?,
            stage: reader.u128()?,
        })
    }

    fn write(self, out: &mut Writer<'_>) {
        out.u32(self.topic_id);
        out.u32(self.partition_id);
        out.u64(self.incarnation);
        out.u128(self.stage);
    }
}

fn write_stages(stages: &[StagedAt], out: &mut Writer<'_>) {
    out.count(stages.len());
    for stage in stages {
        stage.write(out);
    }
}

impl<'a> Payload<'a> for CommitTransaction<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Status> {
        Ok(Self {
            stream: reader.identifier()?,
            transaction: reader.name()?,
            query_id: reader.name()?,
            batch_id: reader.u64()?,
            fence: reader.bool()?,
            stages: counted(reader, StagedAt::read)?,
        })
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.identifier(self.stream);
        out.name(self.transaction);
        out.name(self.query_id);
        out.u64(self.batch_id);
        out.bool(self.fence);
        write_stages(&self.stages, out);
    }
}

impl<'a> Payload<'a> for AbortTransaction<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Status> {
        Ok(Self {
            stream: reader.identifier()?,
            transaction: reader.name()?,
            query_id: reader.name()?,
            batch_id: reader.u64()?,
            stages: counted(reader, StagedAt::read)?,
        })
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.identifier(self.stream);
        out.name(self.transaction);
        out.name(self.query_id);
        out.u64(self.batch_id);
        write_stages(&self.stages, out);
    }
}

impl<'a> Payload<'a> for RecordName<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Status> {
        Ok(Self {
            stream: reader.identifier()?,
            name: reader.name()?,
        })
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.identifier(self.stream);
        out.name(self.name);
    }
}

impl<'a> Payload<'a> for PinReader<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Status> {
        Ok(Self {
            stream: reader.identifier()?,
            reader: reader.name()?,
            value: reader.bytes32()?,
        })
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.identifier(self.stream);
        out.name(self.reader);
        out.bytes32(self.value);
    }
}
