//! Starting point of a poll.

use crate::Malformed;
use crate::reader::Reader;

/// Starting point of a poll. Layout: `u8 kind · u64 value`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PollingStrategy {
    /// This offset.
    Offset(u64),
    /// The first message whose server timestamp is not smaller; microseconds since the Unix epoch.
    Timestamp(u64),
    /// The first retained message.
    First,
    /// The last `count` messages, returned in ascending order.
    Last,
    /// The offset after the one stored for the consumer.
    Next,
}

impl PollingStrategy {
    /// Kind and value of the encoding; the value is 0 for kinds without one.
    pub const fn parts(self) -> (u8, u64) {
        match self {
            Self::Offset(offset) => (1, offset),
            Self::Timestamp(timestamp) => (2, timestamp),
            Self::First => (3, 0),
            Self::Last => (4, 0),
            Self::Next => (5, 0),
        }
    }

    /// Strategy from kind and value; the value is ignored for kinds without one.
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

    /// Read a strategy. The value is read for every kind, so a payload without it is truncated.
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let kind = reader.u8()?;
        let value = reader.u64()?;
        Self::from_parts(kind, value)
    }
}
