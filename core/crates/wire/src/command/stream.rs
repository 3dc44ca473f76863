//! Stream requests that are more than a path.

use super::Payload;
use crate::reader::Reader;
use crate::writer::Writer;
use crate::{Identifier, Status};

/// Create a stream. Layout: `Name`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CreateStream<'a> {
    /// Name, unique on the server.
    pub name: &'a str,
}

/// Rename a stream. Layout: `Ident stream · Name`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UpdateStream<'a> {
    /// The stream.
    pub stream: Identifier<'a>,
    /// New name; may be the current one.
    pub name: &'a str,
}

impl<'a> Payload<'a> for CreateStream<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Status> {
        Ok(Self {
            name: reader.name()?,
        })
    }

    fn write(&self, out: &mut Writer<'_>) {
        out.name(self.name);
    }
}

impl<'a> Payload<'a> for UpdateStream<'a> {
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
