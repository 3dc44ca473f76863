//! Who polls or stores offsets.

use crate::reader::Reader;
use crate::writer::Writer;
use crate::{Identifier, Malformed, hash};

/// What a consumer identifier means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ConsumerKind {
    /// A consumer by itself; needs no registration.
    Consumer = 1,
    /// A member of an existing group of the topic.
    Group = 2,
}

/// Who polls or stores offsets. Layout: `u8 kind · Ident id`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Consumer<'a> {
    /// Plain consumer or group.
    pub kind: ConsumerKind,
    /// The consumer, or the group.
    pub id: Identifier<'a>,
}

impl<'a> Consumer<'a> {
    /// The key under which offsets of a plain consumer are stored: the number itself, or the name's XXH32.
    ///
    /// A named and a numeric consumer may share a key, and then share their offsets. For a group the key is the id
    /// of the group that the identifier names, which only the catalogue knows: do not ask here.
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
