//! Why bytes are not what they should be.

use crate::Status;

/// Bytes that cannot be decoded. Never reported for bytes that merely hold unwelcome values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The bytes end inside a field.
    #[error("the bytes end inside a field")]
    Truncated,
    /// Bytes follow where nothing may follow.
    #[error("bytes follow the last field")]
    TrailingBytes,
    /// A text is not UTF-8.
    #[error("a text is not UTF-8")]
    InvalidUtf8,
    /// An enumeration has no such code.
    #[error("code {0} is not defined")]
    UnknownCode(u8),
    /// A length prefix breaks the rule for its field: an empty name, a numeric identifier that is not 4 bytes long,
    /// permissions longer or shorter than announced.
    #[error("a length breaks the rule for its field")]
    InvalidLength,
    /// A count and the items that follow disagree.
    #[error("a count and the items that follow disagree")]
    CountMismatch,
    /// A field that must be zero is not.
    #[error("a reserved field is not zero")]
    ReservedNotZero,
}

impl From<Malformed> for Status {
    /// The status with which a server refuses a request that is malformed in this way: undecodable is 3, decodable
    /// but structurally wrong is 4. `SendMessages` has statuses of its own and does not pass here.
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
