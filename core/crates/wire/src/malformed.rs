//! Decoding errors.

use crate::Status;

/// Bytes that cannot be decoded. Never reported for well-formed bytes with unacceptable values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The bytes end inside a field.
    #[error("the bytes end inside a field")]
    Truncated,
    /// Bytes follow the last field.
    #[error("bytes follow the last field")]
    TrailingBytes,
    /// A text is not UTF-8.
    #[error("a text is not UTF-8")]
    InvalidUtf8,
    /// The code is undefined for its enumeration.
    #[error("code {0} is not defined")]
    UnknownCode(u8),
    /// A length prefix violates the rule of its field: an empty name, a numeric identifier that is not 4 bytes long,
    /// permissions longer or shorter than announced.
    #[error("a length breaks the rule for its field")]
    InvalidLength,
    /// A count and the items that follow disagree.
    #[error("a count and the items that follow disagree")]
    CountMismatch,
    /// A reserved field is not zero.
    #[error("a reserved field is not zero")]
    ReservedNotZero,
}

impl From<Malformed> for Status {
    /// Status with which a server refuses such a request: 3 if undecodable, 4 if decodable but structurally wrong.
    /// `SendMessages` has its own statuses and does not use this conversion.
    fn from(malformed: Malformed) -> Self {
        match malformed {
            Malformed::InvalidLength => Self::INVALID_FORMAT,
            Malformed::Truncated
            | Malformed::TrailingBytes
            | Malformed::InvalidUtf8
            | Malformed::UnknownCode(_)
            | Malformed::CountMismatch
            | Malformed::ReservedNotZero => Self::INVALID_COMMAND,
        }
    }
}
