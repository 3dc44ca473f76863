//! Errors of encoding a row.

use headrace_model::limits::PARTITIONS_PER_TOPIC_MAX;

use crate::input::OutOfBounds;
use crate::{Column, KEY_HEADER};

/// A row that cannot be encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("row {row}, column {}: {defect}", .column.name())]
pub struct EncodeError {
    /// Index of the row in the given rows.
    pub row: usize,
    /// Column of the defective value.
    pub column: Column,
    /// Kind of the error.
    pub defect: Defect,
}

/// Kind of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Defect {
    /// A buffer ends before the values of the column do, or a value ends before its start.
    #[error("its buffers do not hold it")]
    Buffers,
    /// The value is null, but required.
    #[error("it is null")]
    Null,
    /// The value is empty, but needs at least one byte.
    #[error("it is empty")]
    Empty,
    /// The value exceeds its maximum size.
    #[error("it has {bytes} B, at most {bytes_max} are allowed")]
    TooLong {
        /// Size of the value in bytes.
        bytes: usize,
        /// Maximum size in bytes.
        bytes_max: usize,
    },
    /// The size of an id is not 16 bytes.
    #[error("it has {bytes} B, an id has 16")]
    IdLength {
        /// Size of the value in bytes.
        bytes: usize,
    },
    /// The key of a header is not UTF-8.
    #[error("the key of a header is not UTF-8")]
    NoText,
    /// A header has the name that is reserved for keys.
    #[error("a header is named {KEY_HEADER:?}, under which keys are kept")]
    Reserved,
    /// A timestamp is before 1970.
    #[error("it is negative")]
    Negative,
    /// The partition does not exist.
    #[error("there is no partition {partition}, there are {partitions_count}")]
    NoPartition {
        /// Value of the column.
        partition: i32,
        /// Number of partitions of the topic.
        partitions_count: u32,
    },
}

impl From<OutOfBounds> for Defect {
    fn from(OutOfBounds: OutOfBounds) -> Self {
        Self::Buffers
    }
}

/// Settings with which no encoder can be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// The topic has no partitions, or more than the maximum.
    #[error("{0} partitions, 1 to {PARTITIONS_PER_TOPIC_MAX} are allowed")]
    Partitions(u32),
    /// A bound of a batch is 0, or needs more than 31 bits.
    #[error("{name} is {value}, 1 to {max} are allowed", max = i32::MAX)]
    Bound {
        /// Name of the bound.
        name: &'static str,
        /// Value of the bound.
        value: usize,
    },
}
