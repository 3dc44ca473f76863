//! Why a row has no encoding.

use headrace_model::limits::PARTITIONS_PER_TOPIC_MAX;

use crate::input::OutOfBounds;
use crate::{Column, KEY_HEADER};

/// A row is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("row {row}, column {}: {defect}", .column.name())]
pub struct EncodeError {
    /// Which row of those that were given.
    pub row: usize,
    /// Which of its columns.
    pub column: Column,
    /// What is wrong.
    pub defect: Defect,
}

/// What is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Defect {
    /// A buffer ends before the values of the column do, or a value would end before it begins.
    #[error("its buffers do not hold it")]
    Buffers,
    /// Null where there has to be something.
    #[error("it is null")]
    Null,
    /// Nothing where there has to be at least a byte.
    #[error("it is empty")]
    Empty,
    /// More bytes than such a value may have.
    #[error("it has {bytes} B, at most {bytes_max} are allowed")]
    TooLong {
        /// Bytes of the value.
        bytes: usize,
        /// Bytes that are allowed.
        bytes_max: usize,
    },
    /// An id has another length.
    #[error("it has {bytes} B, an id has 16")]
    IdLength {
        /// Bytes of the value.
        bytes: usize,
    },
    /// The key of a header is not UTF-8.
    #[error("the key of a header is not UTF-8")]
    NoText,
    /// A header has the name under which keys are kept.
    #[error("a header is named {KEY_HEADER:?}, under which keys are kept")]
    Reserved,
    /// A timestamp before 1970.
    #[error("it is negative")]
    Negative,
    /// There is no such partition.
    #[error("there is no partition {partition}, there are {partitions_count}")]
    NoPartition {
        /// The value.
        partition: i32,
        /// Partitions of the topic.
        partitions_count: u32,
    },
}

impl From<OutOfBounds> for Defect {
    fn from(OutOfBounds: OutOfBounds) -> Self {
        Self::Buffers
    }
}

/// An encoder cannot be made so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// A topic has no partition, or more than topics have.
    #[error("{0} partitions, 1 to {PARTITIONS_PER_TOPIC_MAX} are allowed")]
    Partitions(u32),
    /// A bound of a batch is 0, or needs more than 31 bits.
    #[error("{name} is {value}, 1 to {max} are allowed", max = i32::MAX)]
    Bound {
        /// The bound.
        name: &'static str,
        /// Its value.
        value: usize,
    },
}
