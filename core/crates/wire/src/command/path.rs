//! Requests that consist of identifiers only.

use super::Payload;
use crate::reader::Reader;
use crate::writer::Writer;
use crate::{Identifier, Status};

/// Path of a stream. Layout: `Ident stream`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamPath<'a> {
    /// The stream.
    pub stream: Identifier<'a>,
}

/// Path of a topic. Layout: `Ident stream · Ident topic`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TopicPath<'a> {
    /// The stream.
    pub stream: Identifier<'a>,
    /// The topic within the stream.
    pub topic: Identifier<'a>,
}

/// Path of a consumer group. Layout: `Ident stream · Ident topic · Ident group`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupPath<'a> {
    /// The stream.
    pub stream: Identifier<'a>,
    /// The topic within the stream.
    pub topic: Identifier<'a>,
    /// The group within the topic.
    pub group: Identifier<'a>,
}

/// Request that consists of a path only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Path<'a> {
    /// Path of a stream.
    Stream(StreamPath<'a>),
    /// Path of a topic.
    Topic(TopicPath<'a>),
    /// Path of a consumer group.
    Group(GroupPath<'a>),
}

impl<'a> Payload<'a> for StreamPath<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Status> {
        Ok(Self {
            stream: reader.identifier()?,
        })
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.identifier(self.stream);
    }

    fn path(&self) -> Option<Path<'a>> {
        Some(Path::Stream(*self))
    }
}

impl<'a> Payload<'a> for TopicPath<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Status> {
        Ok(Self {
            stream: reader.identifier()?,
            topic: reader.identifier()?,
        })
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.identifier(self.stream);
        out.identifier(self.topic);
    }

    fn path(&self) -> Option<Path<'a>> {
        Some(Path::Topic(*self))
    }
}

impl<'a> Payload<'a> for GroupPath<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Status> {
        Ok(Self {
            stream: reader.identifier()?,
            topic: reader.identifier()?,
            group: reader.identifier()?,
        })
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.identifier(self.stream);
        out.identifier(self.topic);
        out.identifier(self.group);
    }

    fn path(&self) -> Option<Path<'a>> {
        Some(Path::Group(*self))
    }
}
