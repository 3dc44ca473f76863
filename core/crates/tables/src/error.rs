//! Errors of tables that are to be sent.

use arrow_schema::{ArrowError, DataType};
use headrace_columns::KEY_HEADER;
use headrace_model::limits::{PAYLOAD_SIZE_BYTES_MAX, USER_HEADERS_SIZE_BYTES_MAX};

/// Columns that no messages can be made of.
#[derive(Debug, thiserror::Error)]
pub enum ColumnError {
    /// No column has the name that was given.
    #[error("{role}: there is no column {name:?}; there are {}", names.join(", "))]
    Missing {
        /// Argument that names the column.
        role: &'static str,
        /// Name of the column.
        name: String,
        /// Names of the columns that exist.
        names: Vec<String>,
    },
    /// Two columns have the name.
    #[error("{role}: two columns are named {name:?}")]
    Twice {
        /// Argument that names the column.
        role: &'static str,
        /// Name of the columns.
        name: String,
    },
    /// The column has another type than those that are taken.
    #[error("{role}: column {name:?} is {found}; taken are {taken}")]
    Type {
        /// Argument that names the column.
        role: &'static str,
        /// Name of the column.
        name: String,
        /// Type of the column.
        found: DataType,
        /// Types that are taken.
        taken: &'static str,
    },
    /// No column has payloads.
    #[error(
        "payload: no column is named \"value\" or \"payload\", there are {}; name one by `payload`, or use a codec",
        names.join(", ")
    )]
    NoPayload {
        /// Names of the columns that exist.
        names: Vec<String>,
    },
    /// Two columns may be the payload.
    #[error(
        "payload: there is a column \"value\" and a column \"payload\"; name one of them by `payload`"
    )]
    TwoPayloads,
    /// A column would be lost.
    #[error(
        "column {name:?} ({kind}) would not be sent; leave it out of the table, name what it is for, or use a codec"
    )]
    Unused {
        /// Name of the column.
        name: String,
        /// Type of the column.
        kind: DataType,
    },
    /// A column of payloads is named, and a codec makes the payloads.
    #[error(
        "payload: column {name:?} and a codec exclude each other; a codec makes the payloads of all columns"
    )]
    PayloadAndCodec {
        /// Name of the column.
        name: String,
    },
    /// A message of many rows has no property of one of them.
    #[error(
        "{role}: codec \"arrow\" sends many rows in a message, so no column {name:?} decides about one"
    )]
    ManyRows {
        /// Argument that names the column.
        role: &'static str,
        /// Name of the column.
        name: String,
    },
    /// The codec has no form for the type of a column.
    #[error("codec: column {name:?} is {kind}, which cannot be encoded: {reason}")]
    Codec {
        /// Name of the column.
        name: String,
        /// Type of the column.
        kind: DataType,
        /// Reason that the codec gives.
        reason: String,
    },
    /// Rows cannot be read or encoded.
    #[error("table: {0}")]
    Arrow(#[from] ArrowError),
}

/// A row that cannot be a message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("row {row}, column {column:?}: {problem}")]
pub struct RowError {
    /// Number of the row in the table, from 0.
    pub row: u64,
    /// Name of the column.
    pub column: String,
    /// Problem of its value.
    pub problem: RowProblem,
}

/// Problem of a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RowProblem {
    /// The payload is null.
    #[error("it is null, and a message has a payload")]
    NoPayload,
    /// The payload is larger than every server takes.
    #[error("the payload has {bytes} bytes, at most {PAYLOAD_SIZE_BYTES_MAX} are allowed")]
    PayloadTooBig {
        /// Size in bytes.
        bytes: usize,
    },
    /// The key has another size than those that are allowed.
    #[error("the key has {bytes} bytes, 1 to 255 are allowed")]
    Key {
        /// Size in bytes.
        bytes: usize,
    },
    /// A header cannot be written.
    #[error(
        "names and values of headers have 1 to 255 bytes, header {name:?} has {name_bytes} and {value_bytes}"
    )]
    Header {
        /// Name of the header.
        name: String,
        /// Size of the name in bytes.
        name_bytes: usize,
        /// Size of the value in bytes.
        value_bytes: usize,
    },
    /// The name or the value of a header is null.
    #[error("the name or the value of a header is null")]
    NullHeader,
    /// The name of a header is no text.
    #[error("the name of a header is not UTF-8")]
    NameNoText,
    /// A header is named as that of the key.
    #[error("header {KEY_HEADER:?} holds the key of a message; give it as a column of keys")]
    Reserved,
    /// All headers together are too large.
    #[error("the headers have {bytes} bytes, at most {USER_HEADERS_SIZE_BYTES_MAX} are allowed")]
    HeadersTooBig {
        /// Size in bytes, encoded.
        bytes: usize,
    },
    /// The id has another size.
    #[error("the id has {bytes} bytes, an id has 16")]
    IdBytes {
        /// Size in bytes.
        bytes: usize,
    },
    /// The id is negative.
    #[error("the id is {id}, and ids have no sign")]
    NegativeId {
        /// The value.
        id: i64,
    },
    /// A partition with this id cannot exist.
    #[error("{partition} is no id of a partition; they are 0 to 4294967295")]
    Partition {
        /// The value.
        partition: i64,
    },
}
