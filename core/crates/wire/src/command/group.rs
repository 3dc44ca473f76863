//! Consumer group requests that are more than a path.

use super::Payload;
use crate::reader::Reader;
use crate::writer::Writer;
use crate::{Identifier, Status};

/// Create a consumer group. Layout: `Ident stream · Ident topic · Name`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CreateConsumerGroup<'a> {
    /// The stream.
    pub stream: Identifier<'a>,
    /// The topic within the stream.
    pub topic: Identifier<'a>,
    /// The name, unique within the topic.
    pub name: &'a str,
}

impl<'a> Payload<'a> for CreateConsumerGroup<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Status> {
        Ok(Self {
            stream: reader.identifier()?,
            topic: reader.identifier()?,
            name: reader.name()?,
        })
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.identifier(self.stream);
        out.identifier(self.topic);
        out.name(self.name);
    }
}
