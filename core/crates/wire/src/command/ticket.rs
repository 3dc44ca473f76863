//! Tickets: what a user lets somebody else do with a topic.

use super::Payload;
use crate::reader::Reader;
use crate::writer::Writer;
use crate::{Identifier, Status};

const READ: u8 = 1;
const WRITE: u8 = 2;

/// Ask for a ticket for a topic: whoever shows it to a partition node need not be a user.
///
/// Layout: `Ident stream · Ident topic · u8 access · u32 lifetime_seconds`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IssueTicket<'a> {
    /// The stream.
    pub stream: Identifier<'a>,
    /// The topic within the stream.
    pub topic: Identifier<'a>,
    /// Bit 0 of the access: its holder may read.
    pub read: bool,
    /// Bit 1 of the access: its holder may send.
    pub write: bool,
    /// How long it is to be valid; 0 leaves it to the server, which has a limit of its own.
    pub lifetime_seconds: u32,
}

impl<'a> Payload<'a> for IssueTicket<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Status> {
        let stream = reader.identifier()?;
        let topic = reader.identifier()?;
        let access = reader.u8()?;
        // A ticket for nothing is as little one as a ticket for what nobody knows.
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

    fn write(&self, out: &mut Writer<'_>) {
        out.identifier(self.stream);
        out.identifier(self.topic);
        let read = if self.read { READ } else { 0 };
        let write = if self.write { WRITE } else { 0 };
        out.u8(read | write);
        out.u32(self.lifetime_seconds);
    }
}
