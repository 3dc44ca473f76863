//! Why the log does not do what it is asked.

use alloc::string::String;
use alloc::sync::Arc;

use headrace_model::{Namespace, Offset};

use crate::storage::{FileName, StorageError};

/// Why a log failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("partition {namespace} {}: {reason}", if *.readable { "is read-only" } else { "is out of service" })]
pub struct Failure {
    /// The partition.
    pub namespace: Namespace,
    /// Whether polls are still answered.
    pub readable: bool,
    /// What happened, for people.
    pub reason: String,
}

/// A finding of recovery, for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Notice {
    /// Messages in the middle are not what was stored. Those before and behind can be read.
    #[error(
        "{messages_count} messages from offset {offset} on are damaged, in {file} at byte {position}; those behind are kept"
    )]
    Damaged {
        /// The first of them.
        offset: Offset,
        /// Number of them.
        messages_count: u64,
        /// The file that should hold them.
        file: FileName,
        /// Position of the first one in the file.
        position: u64,
    },
    /// Bytes behind the last whole message were cut off, and are in a file of their own.
    #[error(
        "{bytes} B behind the last whole message were moved from {file}, byte {position}, to {kept}"
    )]
    Cut {
        /// The file.
        file: FileName,
        /// Its length now.
        position: u64,
        /// Bytes that were cut.
        bytes: u64,
        /// The other file.
        kept: FileName,
    },
    /// The same, where there was no space for another file.
    #[error(
        "{bytes} B behind the last whole message of {file}, byte {position}, are lost: there was no space to keep them"
    )]
    Lost {
        /// The file.
        file: FileName,
        /// Its length now.
        position: u64,
        /// Bytes that were cut.
        bytes: u64,
    },
    /// A log is not this partition's: the manifest does not list it. It is not read.
    #[error(
        "{file} ({bytes} B) is not one of this partition's segments: it is {kept} now, and is not read"
    )]
    Foreign {
        /// The file.
        file: FileName,
        /// Its bytes.
        bytes: u64,
        /// Its name now.
        kept: FileName,
    },
    /// Records of a file were not valid, and were dropped.
    #[error(
        "{records_count} records of {file} are damaged and were dropped: their consumers go on from where they were before, or \
         from the first message"
    )]
    Dropped {
        /// The file.
        file: FileName,
        /// Number of them, at least.
        records_count: u64,
    },
}

/// Why a batch was not appended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// Too much waits to be written, or no memory is free. Wait and retry.
    #[error("too much waits to be written")]
    Busy,
    /// The batch is not what its count and lengths say.
    #[error("the batch is malformed")]
    Malformed,
    /// The log failed earlier.
    #[error("{0}")]
    Failed(Arc<Failure>),
}

/// Why messages cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// Too many reads are under way, or no memory is free. Wait and retry.
    #[error("too many reads are under way")]
    Busy,
    /// A stored message is not what was stored. Others can still be read.
    #[error("partition {namespace}: message {offset} in {file} at byte {position} is damaged")]
    Damaged {
        /// The partition.
        namespace: Namespace,
        /// The message.
        offset: Offset,
        /// The file that should hold it.
        file: FileName,
        /// Where in the file.
        position: u64,
    },
    /// The storage failed.
    #[error("partition {namespace}: {file}: {source}")]
    Storage {
        /// The partition.
        namespace: Namespace,
        /// The file.
        file: FileName,
        /// What the storage said.
        source: StorageError,
    },
}
