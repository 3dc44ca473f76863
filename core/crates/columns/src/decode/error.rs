//! Errors in bytes received from a partition, with their place.

use headrace_model::limits::{PAYLOAD_SIZE_BYTES_MAX, USER_HEADERS_SIZE_BYTES_MAX};

use crate::Column;

/// A payload that was not requested or is not valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("byte {byte} of the payload, {place}: {defect}", place = Place(*.offset))]
pub struct DecodeError {
    /// Kind of the error.
    pub defect: Defect,
    /// Offset in the header of the defective message; None if there is no whole header.
    pub offset: Option<u64>,
    /// Position of the message, or of the defect, in the payload.
    pub byte: usize,
}

/// Kind of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Defect {
    /// The payload ends inside the header before the messages, or inside a message.
    #[error("the bytes end too early")]
    Truncated,
    /// The number of messages differs from the one announced.
    #[error("{announced} messages were announced, there are {found}")]
    Count {
        /// Number of messages in the header.
        announced: u32,
        /// Number of messages found, plus one if bytes follow the announced ones.
        found: u32,
    },
    /// The payload comes from another partition.
    #[error("the messages are of partition {found}, not of {expected}")]
    Partition {
        /// Partition to be read.
        expected: u32,
        /// Partition in the payload.
        found: u32,
    },
    /// An offset is not the next one. A greater offset means that messages are missing; a smaller one is an error
    /// within a payload.
    #[error("its offset should be {expected}")]
    Offset {
        /// Next offset.
        expected: u64,
    },
    /// The offset does not fit 63 bits.
    #[error("its offset does not fit 63 bits")]
    OffsetRange,
    /// The server's timestamp does not fit 63 bits.
    #[error("its timestamp does not fit 63 bits")]
    TimestampRange,
    /// The reserved field is not 0.
    #[error("its reserved field is not 0")]
    Reserved,
    /// The stored checksum does not match the bytes.
    #[error("its checksum is {stored:#018x}, its bytes have {computed:#018x}")]
    Checksum {
        /// Checksum in the message.
        stored: u64,
        /// Checksum of the bytes.
        computed: u64,
    },
    /// Payload or user headers exceed the limits of every server.
    #[error(
        "it has {payload_bytes} B of payload and {user_headers_bytes} B of user headers; limits \
         {PAYLOAD_SIZE_BYTES_MAX} B and {USER_HEADERS_SIZE_BYTES_MAX} B"
    )]
    Size {
        /// Size of the payload in bytes.
        payload_bytes: u32,
        /// Size of the user headers in bytes.
        user_headers_bytes: u32,
    },
}

/// Place of an error, for its text.
struct Place(Option<u64>);

impl std::fmt::Display for Place {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(offset) => write!(formatter, "message with offset {offset}"),
            None => formatter.write_str("no message"),
        }
    }
}

/// Settings with which no decoder can be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// A column is selected twice.
    #[error("column {} is named twice", .0.name())]
    ColumnTwice(Column),
    /// The range ends before it starts.
    #[error("the range ends at {end}, before its start {start}")]
    Range {
        /// Offset of the first message.
        start: u64,
        /// Offset after the last message.
        end: u64,
    },
    /// A bound of a batch is 0, or needs more than 31 bits.
    #[error("{name} is {value}, 1 to {} are allowed", i32::MAX)]
    Bound {
        /// Name of the bound.
        name: &'static str,
        /// Value of the bound.
        value: usize,
    },
    /// A name exceeds the maximum length.
    #[error("a name has {0} B, at most 255 are allowed")]
    NameTooLong(usize),
}
