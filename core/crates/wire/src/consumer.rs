//! Consumer reference of requests that poll or access stored offsets.

use crate::reader::Reader;
use crate::writer::Writer;
use crate::{Identifier, Malformed, hash};

/// Kind of a consumer identifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ConsumerKind {
    /// A plain consumer; needs no registration.
    Consumer = 1,
    /// A member of an existing group of the topic.
    Group = 2,
}

/// Consumer that polls or owns a stored offset. Layout: `u8 kind · Ident id`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Consumer<'a> {
    /// Plain consumer or consumer group.
    pub kind: ConsumerKind,
    /// Identifier of the consumer, or of the group.
    pub id: Identifier<'a>,
}

impl<'a> Consumer<'a> {
    /// Key under which the offsets of a plain consumer are stored: the number itself, or the XXH32 of the name.
    ///
    /// A named and a numeric consumer may have the same key and share their offsets in that case. Not valid for a
    /// group: its key is the group id, which only the catalog can resolve from the identifier.
    pub fn key(&self) -> u32 {
        match self.id {
            Identifier::Numeric(id) => id,
            Identifier::Named(name) => hash::xxh32(name.as_bytes()),
        }
    }

    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        let kind = match reader.u8()? {
            1 => ConsumerKind::Consumer,
            2 => ConsumerKind::Group,
            kind => return Err(Malformed::UnknownCode(kind)),
        };
        Ok(Self {
            kind,
            id: reader.identifier()?,
        })
    }

    pub(crate) fn write(&self, out: &mut Writer<'_>) {
        out.u8(self.kind as u8);
        out.identifier(self.id);
    }
}
