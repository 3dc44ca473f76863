//! Identifiers that own their text.

use core::fmt;

use headrace_wire::{Identifier, Status};

/// A stream, topic, group or consumer, by number or by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OwnedIdentifier {
    /// Numeric id.
    Numeric(u32),
    /// Name, 1 to 255 bytes.
    Named(Box<str>),
}

impl OwnedIdentifier {
    /// Check and take a name; [`Status::INVALID_FORMAT`] if it is empty or longer than 255 bytes.
    pub fn named(name: &str) -> Result<Self, Status> {
        Identifier::named(name)?;
        Ok(Self::Named(name.into()))
    }

    /// Borrow it for a request.
    pub fn as_identifier(&self) -> Identifier<'_> {
        match self {
            Self::Numeric(id) => Identifier::Numeric(*id),
            Self::Named(name) => Identifier::Named(name),
        }
    }
}

impl fmt::Display for OwnedIdentifier {
    /// A name is in quotation marks, an id is not.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Numeric(id) => write!(formatter, "{id}"),
            Self::Named(name) => write!(formatter, "'{}'", name.escape_debug()),
        }
    }
}
