//! `SendMessages`: metadata, index block, messages.
//!
//! Decoding covers steps 2 to 5 of the documented order of errors; [`crate::batch::validate`] covers 6 to 8.

use core::ops::Range;

use super::{Payload, Target};
use crate::batch::INDEX_BYTES;
use crate::reader::Reader;
use crate::writer::Writer;
use crate::{Identifier, Partitioning, Status};

/// Bytes of the field with the length of the metadata.
const METADATA_LENGTH_BYTES: usize = 4;

/// Maximum number of bytes of a payload that decoding its metadata needs, however long the frame is: the length, two
/// identifiers and a partitioning of 257 bytes each, the count. Official clients send some 20 bytes.
pub const METADATA_PREFIX_BYTES_MAX: usize = METADATA_LENGTH_BYTES + 3 * (2 + 255) + 4;

/// Append messages to a partition.
///
/// Layout: `u32 metadata_length · Ident stream · Ident topic · Partitioning · u32 messages_count ·
/// Index[messages_count] · Message[messages_count]`; the metadata's length counts stream, topic, partitioning and
/// count. The size of the messages is not encoded: they fill the rest of the frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SendMessages<'a> {
    /// The stream.
    pub stream: Identifier<'a>,
    /// The topic within the stream.
    pub topic: Identifier<'a>,
    /// Choice of the partition.
    pub partitioning: Partitioning<'a>,
    /// Announced number of messages; 0 decodes and is refused by validation.
    pub messages_count: u32,
    /// Index block: 16 bytes per message.
    pub indexes: &'a [u8],
    /// Messages, back to back, not validated yet.
    pub messages: &'a [u8],
}

/// Metadata of a [`SendMessages`], which can be decoded before the rest of the frame has arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SendMetadata<'a> {
    /// The stream.
    pub stream: Identifier<'a>,
    /// The topic within the stream.
    pub topic: Identifier<'a>,
    /// Choice of the partition.
    pub partitioning: Partitioning<'a>,
    /// Announced number of messages.
    pub messages_count: u32,
    /// Number of payload bytes before the index block: 4 and the declared length.
    pub metadata_bytes: usize,
}

impl<'a> SendMetadata<'a> {
    /// Decode the metadata from the first bytes of a payload of `payload_bytes`.
    ///
    /// `prefix` is the received part of the payload: the smaller of `payload_bytes` and [`METADATA_PREFIX_BYTES_MAX`]
    /// always suffices. With less, a valid request may be refused with 3 (or 6) because its metadata appears to be
    /// truncated.
    ///
    /// Fails in this order: [`Status::INVALID_COMMAND`] if the declared metadata does not fit the payload,
    /// [`Status::INVALID_IDENTIFIER`] for any defect of stream or topic, [`Status::INVALID_COMMAND`] for any defect of
    /// partitioning or count and if the index block does not fit the payload. Bytes inside the declared metadata after
    /// the count are skipped.
    #[inline]
    pub fn decode_prefix(prefix: &'a [u8], payload_bytes: u32) -> Result<Self, Status> {
        let payload_bytes = payload_bytes as usize;
        let mut reader = Reader::new(prefix);
        let declared = reader.u32()? as usize;
        let metadata_bytes = declared
            .checked_add(METADATA_LENGTH_BYTES)
            .filter(|&bytes| bytes <= payload_bytes)
            .ok_or(Status::INVALID_COMMAND)?;
        let available = declared.min(reader.remaining());
        let mut reader = Reader::new(reader.bytes(available)?);

        let stream = read_identifier(&mut reader)?;
        let topic = read_identifier(&mut reader)?;
        // Any defect of a partitioning is status 3 here, including those that are structural errors in other commands.
        let partitioning = Partitioning::read(&mut reader).map_err(|_| Status::INVALID_COMMAND)?;
        let messages_count = reader.u32()?;

        let metadata = Self {
            stream,
            topic,
            partitioning,
            messages_count,
            metadata_bytes,
        };
        match metadata.messages_start() {
            Some(start) if start <= payload_bytes => Ok(metadata),
            _ => Err(Status::INVALID_COMMAND),
        }
    }

    /// Range of the index block in the payload.
    #[inline]
    pub fn indexes_range(&self) -> Range<usize> {
        self.metadata_bytes..self.metadata_bytes + self.indexes_bytes()
    }

    /// Range of the messages in a payload of `payload_bytes`, which must be the value passed to decoding.
    #[inline]
    pub fn messages_range(&self, payload_bytes: usize) -> Range<usize> {
        self.metadata_bytes + self.indexes_bytes()..payload_bytes
    }

    /// Join the metadata with the payload from which it was decoded.
    ///
    /// Fails with [`Status::INVALID_COMMAND`] if `payload` is shorter than the metadata announces.
    #[inline]
    pub fn with_payload(&self, payload: &'a [u8]) -> Result<SendMessages<'a>, Status> {
        let mut reader = Reader::new(payload);
        reader.bytes(self.metadata_bytes)?;
        let indexes = reader.bytes(self.indexes_bytes())?;
        Ok(SendMessages {
            stream: self.stream,
            topic: self.topic,
            partitioning: self.partitioning,
            messages_count: self.messages_count,
            indexes,
            messages: reader.rest(),
        })
    }

    fn indexes_bytes(&self) -> usize {
        // Cannot saturate: decoding has checked that the index fits a payload.
        (self.messages_count as usize).saturating_mul(INDEX_BYTES)
    }

    fn messages_start(&self) -> Option<usize> {
        self.metadata_bytes.checked_add(self.indexes_bytes())
    }
}

/// Range of the messages in the payload of a `SendMessages`. Fails like decoding.
pub fn messages_range(payload: &[u8]) -> Result<Range<usize>, Status> {
    let payload_bytes = u32::try_from(payload.len()).map_err(|_| Status::INVALID_COMMAND)?;
    let metadata = SendMetadata::decode_prefix(payload, payload_bytes)?;
    Ok(metadata.messages_range(payload.len()))
}

/// Read an identifier. Any defect of an identifier is the same status here, unlike in other commands.
fn read_identifier<'a>(reader: &mut Reader<'a>) -> Result<Identifier<'a>, Status> {
    reader.identifier().map_err(|_| Status::INVALID_IDENTIFIER)
}

impl<'a> Payload<'a> for SendMessages<'a> {
    #[inline]
    fn read(reader: &mut Reader<'a>) -> Result<Self, Status> {
        let payload = reader.rest();
        let payload_bytes = u32::try_from(payload.len()).map_err(|_| Status::INVALID_COMMAND)?;
        SendMetadata::decode_prefix(payload, payload_bytes)?.with_payload(payload)
    }

    fn target(&self) -> Target<'a> {
        (Some(self.stream), Some(self.topic))
    }

    fn write(&self, out: &mut Writer<'_>) {
        let metadata_bytes = self.stream.encoded_bytes()
            + self.topic.encoded_bytes()
            + self.partitioning.encoded_bytes()
            + size_of::<u32>();
        out.count(metadata_bytes);
        out.identifier(self.stream);
        out.identifier(self.topic);
        out.partitioning(self.partitioning);
        out.u32(self.messages_count);
        out.bytes(self.indexes);
        out.bytes(self.messages);
    }
}
