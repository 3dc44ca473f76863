//! Errors and notices of a log.

use alloc::string::String;
use alloc::sync::Arc;

use headrace_model::{Namespace, Offset, Timestamp};

use crate::batch::LogPlace;
use crate::storage::{FileName, StorageError};

/// Failure of a log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("partition {namespace} {}: {reason}", if *.readable { "is read-only" } else { "is out of service" })]
pub struct Failure {
    /// The partition.
    pub namespace: Namespace,
    /// True if polls are still answered.
    pub readable: bool,
    /// Reason, for operators.
    pub reason: String,
}

/// Finding of recovery, for operators.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Notice {
    /// Messages in the middle are damaged. Those before and behind can be read.
    #[error(
        "{messages_count} messages from offset {offset} on are damaged, in {file} at byte {position}; those behind are kept"
    )]
    Damaged {
        /// Offset of the first damaged message.
        offset: Offset,
        /// Number of damaged messages.
        messages_count: u64,
        /// The file that should hold them.
        file: FileName,
        /// Position of the first damaged message in the file.
        position: u64,
    },
    /// Bytes behind the last whole message were cut off and moved to another file.
    #[error(
        "{bytes} B behind the last whole message were moved from {file}, byte {position}, to {saved_as}"
    )]
    Cut {
        /// The file.
        file: FileName,
        /// Length of the file after the cut.
        position: u64,
        /// Number of bytes cut.
        bytes: u64,
        /// File with the bytes that were cut.
        saved_as: FileName,
    },
    /// Bytes behind the last whole message were cut off and dropped, because there was no space for another file.
    #[error(
        "{bytes} B behind the last whole message of {file}, byte {position}, are lost: there was no space to keep them"
    )]
    CutWithoutCopy {
        /// The file.
        file: FileName,
        /// Length of the file after the cut.
        position: u64,
        /// Number of bytes cut.
        bytes: u64,
    },
    /// A log file is not listed by the manifest and therefore not this partition's. It is not read.
    #[error(
        "{file} ({bytes} B) is not one of this partition's segments: it is {kept} now, and is not read"
    )]
    Foreign {
        /// The file.
        file: FileName,
        /// Size in bytes.
        bytes: u64,
        /// New name of the file.
        kept: FileName,
    },
    /// The first message of a log is not the one that this partition stored there. The log is not read.
    #[error(
        "{file} begins with a message that this partition did not store: the file is another partition's, and its messages are \
         not served"
    )]
    Exchanged {
        /// The file.
        file: FileName,
    },
    /// Messages that were on the device are gone with their log. Their offsets are not used again.
    #[error(
        "{messages_count} messages from offset {offset} on are lost: {file} is missing or empty"
    )]
    Lost {
        /// Offset of the first lost message.
        offset: Offset,
        /// Number of lost messages.
        messages_count: u64,
        /// The file that should hold them.
        file: FileName,
    },
    /// A sealed log became shorter: its last messages are gone.
    #[error("the last {missing_bytes} B of {file} are lost")]
    Shortened {
        /// The file.
        file: FileName,
        /// Number of bytes that are missing.
        missing_bytes: u64,
    },
    /// The manifest was missing, damaged or another partition's, and was rebuilt from its copy.
    #[error("{file} was missing, damaged or another partition's, and was rebuilt from its copy")]
    Rebuilt {
        /// The file.
        file: FileName,
    },
    /// The directory belonged to an earlier partition with the same number, and was moved away as a whole.
    #[error(
        "the directory had {files_count} files ({bytes} B) of an earlier partition with this number: they were moved to \
         streams/set-aside"
    )]
    SetAside {
        /// Number of files.
        files_count: u64,
        /// Size of the files in bytes.
        bytes: u64,
    },
    /// A stage of a committed transaction is damaged: what cannot be read of it is not published.
    #[error(
        "{file} is damaged, and its transaction is committed: it is {kept} now, and is not read"
    )]
    DamagedStage {
        /// The file.
        file: FileName,
        /// New name of the file.
        kept: FileName,
    },
    /// Invalid records of a file were dropped.
    #[error(
        "{records_count} records of {file} are damaged and were dropped: their consumers go on from where they were before, or \
         from the first message"
    )]
    Dropped {
        /// The file.
        file: FileName,
        /// Minimum number of records dropped.
        records_count: u64,
    },
}

/// Reason why a batch was not appended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// Too many bytes are queued for writing, or no memory is free. Wait and retry.
    #[error("too many bytes wait to be written")]
    Busy,
    /// The batch does not match its count and lengths.
    #[error("the batch is malformed")]
    Malformed,
    /// The log failed earlier.
    #[error("{0}")]
    Failed(Arc<Failure>),
}

/// Reason why a run was not appended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// Too many bytes are queued for writing. Wait and retry.
    #[error("too many bytes wait to be written")]
    Busy,
    /// The log failed earlier.
    #[error("{0}")]
    Failed(Arc<Failure>),
    /// The run neither continues the open segment nor begins one at the end of the log.
    #[error("a run at {place:?} does not continue a log that ends at {end:?}")]
    Place {
        /// Place of the run.
        place: LogPlace,
        /// End of the log.
        end: LogPlace,
    },
    /// A message is not one that the leader can have stored there.
    #[error("message {offset}, at byte {at} of the run, {fault}")]
    Message {
        /// Offset that the message must have.
        offset: Offset,
        /// Position in the run.
        at: usize,
        /// The fault.
        fault: MessageFault,
    },
    /// The run has another number of messages than it states.
    #[error("a run of {stated} messages has {found}")]
    Count {
        /// Number that the run states.
        stated: u32,
        /// Number of its messages.
        found: u64,
    },
}

/// Reason why a log is not truncated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TruncateError {
    /// The log is not open, is being closed, or its contents are being removed.
    #[error("the log is not open for changes")]
    Busy,
    /// The log failed earlier.
    #[error("{0}")]
    Failed(Arc<Failure>),
    /// The offset is not one of the log's.
    #[error("offset {end} is not between {first} and {next}")]
    OutOfRange {
        /// Offset at which the log was to end.
        end: Offset,
        /// First offset retained.
        first: Offset,
        /// Offset of the next message.
        next: Offset,
    },
    /// Committed messages would be dropped.
    #[error("the messages before offset {committed} are committed")]
    Committed {
        /// End of the committed messages.
        committed: Offset,
    },
}

/// Fault of a message in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MessageFault {
    /// The run ends within the message.
    #[error("is not complete")]
    Incomplete,
    /// The message has another offset.
    #[error("has offset {found}")]
    Offset {
        /// Offset of the message.
        found: Offset,
    },
    /// A length exceeds its limit, or a reserved field is set.
    #[error("has fields that no accepted message has")]
    Fields,
    /// The checksum does not match.
    #[error("does not match its checksum")]
    Checksum,
    /// The timestamp is earlier than that of the message before in the same segment.
    #[error("has timestamp {found:?}, after one with {before:?}")]
    Timestamp {
        /// Timestamp of the message.
        found: Timestamp,
        /// Timestamp of the message before.
        before: Timestamp,
    },
}

/// Reason why messages cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// Too many reads are under way, or no memory is free. Wait and retry.
    #[error("too many reads are in progress")]
    Busy,
    /// The first message is larger than the read may return. Repeat it with room for that message.
    #[error("the message has {bytes} B")]
    TooLarge {
        /// Number of bytes that the message needs.
        bytes: u64,
    },
    /// A stored message is damaged. Others can still be read.
    #[error("partition {namespace}: message {offset} in {file} at byte {position} is damaged")]
    Damaged {
        /// The partition.
        namespace: Namespace,
        /// Offset of the message.
        offset: Offset,
        /// The file that should hold it.
        file: FileName,
        /// Position of the message in the file.
        position: u64,
    },
    /// The storage failed.
    #[error("partition {namespace}: {file}: {source}")]
    Storage {
        /// The partition.
        namespace: Namespace,
        /// The file.
        file: FileName,
        /// Error of the storage.
        source: StorageError,
    },
}
