//! Where a poll starts.

use crate::Malformed;
use crate::reader::Reader;

/// Where a poll starts. Layout: `u8 kind · u64 value`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PollingStrategy {
    /// At this offset.
    Offset(u64),
    /// At the first message whose server timestamp is not smaller; microseconds since the Unix epoch.
    Timestamp(u64),
    /// At the first message retained.
    First,
    /// So that the last messages are returned, in ascending order.
    Last,
    /// After the offset stored for the consumer.
    Next,
}

impl PollingStrategy {
    /// The kind and value of the encoding; the value is 0 where it has no meaning.
    pub const fn parts(self) -> (u8, u64) {
        match self {
            Self::Offset(offset) => (1, offset),
            Self::Timestamp(timestamp) => (2, timestamp),
            Self::First => (3, 0),
            Self::Last => (4, 0),
            Self::Next => (5, 0),
        }
    }

    /// The strategy of such a kind and value; the value is ignored where it has no meaning.
    pub const fn from_parts(kind: u8, value: u64) -> Result<Self, Malformed> {
        match kind {
            1 => Ok(Self::Offset(value)),
            2 => Ok(Self::Timestamp(value)),
            3 => Ok(Self::First),
            4 => Ok(Self::Last),
            5 => Ok(Self::Next),
            kind => Err(Malformed::UnknownCode(kind)),
        }
    }

    /// The value is read even where it has no meaning, so a payload without it is truncated.
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let kind = reader.u8()?;
        let value = reader.u64()?;
        Self::from_parts(kind, value)
    }
}
