//! Topic requests that are more than a path.
//!
//! Expiry and size have two special values: 0 asks for the server's default, 2^64-1 for never and unlimited.

use super::Payload;
use crate::reader::Reader;
use crate::writer::Writer;
use crate::{CompressionAlgorithm, Identifier, Status};

/// Create a topic.
///
/// Layout: `Ident stream · u32 partitions_count · u8 compression · u64 message_expiry · u64 max_topic_size ·
/// u8 replication_factor · Name`. The order of expiry and size differs from topic responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CreateTopic<'a> {
    /// The stream.
    pub stream: Identifier<'a>,
    /// Number of partitions; 0 is allowed, the handler checks the upper bound (2015).
    pub partitions_count: u32,
    /// Code of a [`CompressionAlgorithm`], unchecked.
    pub compression_code: u8,
    /// Microseconds, or one of the special values.
    pub message_expiry: u64,
    /// Bytes, or one of the special values.
    pub max_topic_size: u64,
    /// Number of copies; 0 asks for the server's default.
    pub replication_factor: u8,
    /// The name, unique within the stream.
    pub name: &'a str,
}

/// Replace all settings of a topic.
///
/// Layout: `Ident stream · Ident topic · u8 compression · u64 message_expiry · u64 max_topic_size ·
/// u8 replication_factor · Name`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UpdateTopic<'a> {
    /// The stream.
    pub stream: Identifier<'a>,
    /// The topic within the stream.
    pub topic: Identifier<'a>,
    /// Code of a [`CompressionAlgorithm`], unchecked.
    pub compression_code: u8,
    /// Microseconds, or one of the special values.
    pub message_expiry: u64,
    /// Bytes, or one of the special values.
    pub max_topic_size: u64,
    /// Number of copies; 0 asks for the server's default.
    pub replication_factor: u8,
    /// New name; may be the current one.
    pub name: &'a str,
}

impl CreateTopic<'_> {
    /// Compression of payloads. Fails with [`Status::INVALID_COMMAND`] on an unknown code.
    pub fn compression(&self) -> Result<CompressionAlgorithm, Status> {
        Ok(CompressionAlgorithm::try_from(self.compression_code)?)
    }
}

impl UpdateTopic<'_> {
    /// Compression of payloads. Fails with [`Status::INVALID_COMMAND`] on an unknown code.
    pub fn compression(&self) -> Result<CompressionAlgorithm, Status> {
        Ok(CompressionAlgorithm::try_from(self.compression_code)?)
    }
}

impl<'a> Payload<'a> for CreateTopic<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Status> {
        Ok(Self {
            stream: reader.identifier()?,
            partitions_count: reader.u32()?,
            compression_code: reader.u8()?,
            message_expiry: reader.u64()?,
            max_topic_size: reader.u64()?,
            replication_factor: reader.u8()?,
            name: reader.name()?,
        })
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.identifier(self.stream);
        out.u32(self.partitions_count);
        out.u8(self.compression_code);
        out.u64(self.message_expiry);
        out.u64(self.max_topic_size);
        out.u8(self.replication_factor);
        out.name(self.name);
    }
}

impl<'a> Payload<'a> for UpdateTopic<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Status> {
        Ok(Self {
            stream: reader.identifier()?,
            topic: reader.identifier()?,
            compression_code: reader.u8()?,
            message_expiry: reader.u64()?,
            max_topic_size: reader.u64()?,
            replication_factor: reader.u8()?,
            name: reader.name()?,
        })
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.identifier(self.stream);
        out.identifier(self.topic);
        out.u8(self.compression_code);
        out.u64(self.message_expiry);
        out.u64(self.max_topic_size);
        out.u8(self.replication_factor);
        out.name(self.name);
    }
}
