//! What is wrong with bytes that came from a partition, and where.

use headrace_model::limits::{PAYLOAD_SIZE_BYTES_MAX, USER_HEADERS_SIZE_BYTES_MAX};

use crate::Column;

/// A payload is not what was asked for, or not what a partition sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("byte {byte} of the payload, {place}: {defect}", place = Place(*.offset))]
pub struct DecodeError {
    /// What is wrong.
    pub defect: Defect,
    /// Offset of the message that is wrong, as it says so itself; none where there is no whole header.
    pub offset: Option<u64>,
    /// Where the message, or what is wrong, begins in the payload.
    pub byte: usize,
}

/// What is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Defect {
    /// The payload ends inside what stands before the messages, or inside a message.
    #[error("the bytes end too early")]
    Truncated,
    /// There are more or fewer messages than announced.
    #[error("{announced} messages were announced, there are {found}")]
    Count {
        /// Messages, as what stands before them has it.
        announced: u32,
        /// Messages, or one more if bytes are left behind those that were announced.
        found: u32,
    },
    /// It comes from another partition.
    #[error("the messages are of partition {found}, not of {expected}")]
    Partition {
        /// The partition that is read.
        expected: u32,
        /// The partition that the payload names.
        found: u32,
    },
    /// An offset is not the next one: greater, and messages are missing, or smaller within a payload.
    #[error("its offset should be {expected}")]
    Offset {
        /// The offset that comes next.
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
    /// The stored checksum is not that of the bytes.
    #[error("its checksum is {stored:#018x}, its bytes have {computed:#018x}")]
    Checksum {
        /// As the message has it.
        stored: u64,
        /// As its bytes have it.
        computed: u64,
    },
    /// Payload or user headers are larger than any server accepts.
    #[error(
        "it has {payload_bytes} B of payload and {user_headers_bytes} B of user headers; limits \
         {PAYLOAD_SIZE_BYTES_MAX} B and {USER_HEADERS_SIZE_BYTES_MAX} B"
    )]
    Size {
        /// Bytes of the payload.
        payload_bytes: u32,
        /// Bytes of the user headers.
        user_headers_bytes: u32,
    },
}

/// For the text of an error.
struct Place(Option<u64>);

impl std::fmt::Display for Place {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(offset) => write!(formatter, "message with offset {offset}"),
            None => formatter.write_str("no message"),
        }
    }
}

/// A decoder cannot be made so.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// A column is asked for twice.
    #[error("column {} is named twice", .0.name())]
    ColumnTwice(Column),
    /// The range ends before it starts.
    #[error("the range ends at {end}, before its start {start}")]
    Range {
        /// Of the first message.
        start: u64,
        /// Behind the last message.
        end: u64,
    },
    /// A bound of a batch is 0, or needs more than 32 bits.
    #[error("{name} is {value}, 1 to {} are allowed", i32::MAX)]
    Bound {
        /// The bound.
        name: &'static str,
        /// Its value.
        value: usize,
    },
    /// A name has more bytes than names have.
    #[error("a name has {0} B, at most 255 are allowed")]
    NameTooLong(usize),
}
