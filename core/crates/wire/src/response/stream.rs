//! Streams.

use alloc::vec::Vec;

use super::part::{Part, payload};
use super::{TopicHeader, read_counted, write_all};
use crate::Malformed;
use crate::reader::Reader;
use crate::writer::Writer;

/// One stream.
///
/// Layout: `u32 id · u64 created_at · u32 topics_count · u64 size_bytes · u64 messages_count · Name`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamHeader<'a> {
    /// The stream's id.
    pub id: u32,
    /// Microseconds since the Unix epoch.
    pub created_at: u64,
    /// Number of topics in the stream.
    pub topics_count: u32,
    /// Bytes of its messages, headers included.
    pub size_bytes: u64,
    /// Number of messages in the stream.
    pub messages_count: u64,
    /// Name of the stream.
    pub name: &'a str,
}

/// One stream with its topics by ascending id: response to `GetStream`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamDetails<'a> {
    /// The stream; its `topics_count` is the number of topics that follow.
    pub stream: StreamHeader<'a>,
    /// Topics of the stream.
    pub topics: Vec<TopicHeader<'a>>,
}

payload!(StreamHeader<'a>);
payload!(StreamDetails<'a>);

impl<'a> Part<'a> for StreamHeader<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(Self {
            id: reader.u32()?,
            created_at: reader.u64()?,
            topics_count: reader.u32()?,
            size_bytes: reader.u64()?,
            messages_count: reader.u64()?,
            name: reader.name()?,
        })
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.u32(self.id);
        out.u64(self.created_at);
        out.u32(self.topics_count);
        out.u64(self.size_bytes);
        out.u64(self.messages_count);
        out.name(self.name);
    }
}

impl<'a> Part<'a> for StreamDetails<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        let stream = StreamHeader::read(reader)?;
        let topics = read_counted(reader, stream.topics_count)?;
        Ok(Self { stream, topics })
    }

    /// Writes the number of `topics` as the count, so that the two always agree.
    fn write(&self, out: &mut Writer<'_>) {
        StreamHeader {
            topics_count: out.count_of(&self.topics),
            ..self.stream
        }
        .write(out);
        write_all(&self.topics, out);
    }
}
