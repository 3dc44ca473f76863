//! Ticket requests. A ticket delegates rights of a user on one topic.

use super::{Payload, Target};
use crate::reader::Reader;
use crate::writer::Writer;
use crate::{Identifier, Status};

const READ: u8 = 1;
const WRITE: u8 = 2;

/// Request a ticket for a topic. Its bearer need not be a user to be accepted by a partition node.
///
/// Layout: `Ident stream · Ident topic · u8 access · u32 lifetime_seconds`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IssueTicket<'a> {
    /// The stream.
    pub stream: Identifier<'a>,
    /// The topic within the stream.
    pub topic: Identifier<'a>,
    /// Bit 0 of the access: the bearer may read.
    pub read: bool,
    /// Bit 1 of the access: the bearer may send.
    pub write: bool,
    /// Requested lifetime in seconds; 0 leaves it to the server, which has a limit of its own.
    pub lifetime_seconds: u32,
}

impl<'a> Payload<'a> for IssueTicket<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Status> {
        let stream = reader.identifier()?;
        let topic = reader.identifier()?;
        let access = reader.u8()?;
        // Refuse an empty access and undefined bits.
        if !(READ..=READ | WRITE).contains(&access) {
            return Err(Status::INVALID_COMMAND);
        }
        Ok(Self {
            stream,
            topic,
            read: access & READ != 0,
            write: access & WRITE != 0,
            lifetime_seconds: reader.u32()?,
        })
    }

    fn target(&self) -> Target<'a> {
        (Some(self.stream), Some(self.topic))
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.identifier(self.stream);
        out.identifier(self.topic);
        let read = if self.read { READ } else { 0 };
        let write = if self.write { WRITE } else { 0 };
        out.u8(read | write);
        out.u32(self.lifetime_seconds);
    }
}
