//! Identifiers of streams, topics, groups, users and consumers in requests.

use crate::reader::Reader;
use crate::{Malformed, Status};

/// Maximum number of bytes of a name.
pub const NAME_BYTES_MAX: usize = 255;

/// A stream, topic, group, user or consumer, by number or by name.
///
/// Layout: `u8 kind · u8 length · value`. Names are matched byte for byte; a name of digits is still a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Identifier<'a> {
    /// Numeric id; 0 is valid.
    Numeric(u32),
    /// Name, 1 to 255 bytes.
    Named(&'a str),
}

impl<'a> Identifier<'a> {
    pub(crate) const KIND_NUMERIC: u8 = 1;
    pub(crate) const KIND_NAMED: u8 = 2;

    /// Identifier from untrusted text.
    ///
    /// Returns [`Status::INVALID_FORMAT`] if the name is empty or longer than [`NAME_BYTES_MAX`].
    pub fn named(name: &'a str) -> Result<Self, Status> {
        check_name(name)?;
        Ok(Self::Named(name))
    }

    /// Number of bytes of the encoding.
    pub(crate) fn encoded_bytes(&self) -> usize {
        2 + match self {
            Self::Numeric(_) => 4,
            Self::Named(name) => name.len(),
        }
    }

    /// Read an identifier. An unknown kind is reported before a wrong length, and a wrong length before missing bytes.
    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        match reader.u8()? {
            Self::KIND_NUMERIC => match reader.u8()? {
                4 => Ok(Self::Numeric(reader.u32()?)),
                _ => Err(Malformed::InvalidLength),
            },
            Self::KIND_NAMED => Ok(Self::Named(reader.name()?)),
            kind => Err(Malformed::UnknownCode(kind)),
        }
    }
}

impl From<u32> for Identifier<'_> {
    fn from(id: u32) -> Self {
        Self::Numeric(id)
    }
}

/// Check that `name` can be encoded as the name of a stream, topic, group, user or token.
///
/// Returns [`Status::INVALID_FORMAT`] if it is empty or longer than [`NAME_BYTES_MAX`] bytes.
pub fn check_name(name: &str) -> Result<(), Status> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        return Err(Status::INVALID_FORMAT);
    }
    Ok(())
}
