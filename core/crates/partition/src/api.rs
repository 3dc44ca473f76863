//! What a partition is asked and what it answers.

use alloc::sync::Arc;
use alloc::vec::Vec;

use headrace_buffer::Slice;
use headrace_log::storage::{FileName, StorageError, StorageRequest};
use headrace_log::{AppendError, Batch, Failure, Notice, RangePlan, RangeToPlan, ReadError};
use headrace_model::{Namespace, Offset, StageId};
use headrace_wire::PollingStrategy;

use crate::stages::Published;

/// Chosen by the caller; comes back with the answer, exactly once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// Whose stored offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ConsumerKey {
    /// A plain consumer, by number or by the hash of its name.
    Consumer(u32),
    /// A consumer group of the topic.
    Group(u32),
}

/// What a partition can be asked.
#[derive(Debug)]
pub enum Request {
    /// Append messages. Answered with [`Response::Appended`] when the partition's durability holds.
    Append {
        /// The messages, validated.
        batch: Batch,
    },
    /// Read messages. Answered with [`Response::Polled`], or with [`Response::NotEnough`].
    Poll(Poll),
    /// Ask for a stored offset. Answered with [`Response::Offset`].
    GetOffset {
        /// Whose.
        consumer: ConsumerKey,
    },
    /// Store the offset of the last processed message. Answered with [`Response::Done`].
    StoreOffset {
        /// Whose.
        consumer: ConsumerKey,
        /// Not beyond the last visible message.
        offset: Offset,
    },
    /// Forget a stored offset. Answered with [`Response::Done`].
    DeleteOffset {
        /// Whose.
        consumer: ConsumerKey,
    },
    /// Write what waits in memory. Answered with [`Response::Done`].
    Flush {
        /// Sync it as well.
        fsync: bool,
    },
    /// Remove sealed segments, oldest first, that no stored offset still needs. Answered with [`Response::Done`].
    DeleteSegments {
        /// How many, at most.
        count: u32,
    },
    /// Say how a range of messages may be split into parts of about the same size. Answered with [`Response::Planned`].
    PlanRange(RangeToPlan),
    /// Store messages that nobody sees before they are published. Answered with [`Response::Staged`] when they are
    /// written, and the last ones of a stage when all of it is on the device, whatever the partition promises.
    Stage {
        /// Which stage goes on; none: a new one.
        stage: Option<StageId>,
        /// Microseconds until a new one expires.
        lifetime_micros: u64,
        /// Counted from 0 in each stage. One that was taken before is answered again.
        chunk: u32,
        /// Nothing follows.
        is_last: bool,
        /// The messages, validated; perhaps none.
        batch: Batch,
    },
}

/// Which messages to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Poll {
    /// Where to start.
    pub strategy: PollingStrategy,
    /// Messages wanted, at most.
    pub count: u32,
    /// Whose stored offset `Next` and `auto_commit` mean. Without one, `Next` is `First`.
    pub consumer: Option<ConsumerKey>,
    /// Store the offset of the last message returned before answering.
    pub auto_commit: bool,
    /// With fewer bytes of messages, when more could still come, nothing is returned or stored. 0: answer in any case.
    pub minimum_bytes: u32,
}

/// How far a partition has to come before a poll that found too little is worth repeating.
///
/// Either is enough. Both only grow while a partition lives; a purge and a change of stored offsets make them void.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Level {
    /// Compare with [`Partition::visible_end`](crate::Partition::visible_end).
    pub end: Offset,
    /// Compare with [`Partition::visible_bytes`](crate::Partition::visible_bytes).
    pub bytes: u64,
}

/// The answer to a [`Request`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Response {
    /// The messages are stored as durably as the partition promises.
    Appended {
        /// Offset of the first message; the rest follow without gaps.
        base_offset: Offset,
        /// How many.
        messages_count: u32,
    },
    /// The messages.
    Polled(Polled),
    /// There are fewer messages than the poll asked for at least.
    NotEnough(Level),
    /// The stored offset, if there is one.
    Offset(Option<StoredOffset>),
    /// How a range may be split.
    Planned(RangePlan),
    /// Success without a value.
    Done,
    /// The messages are staged.
    Staged {
        /// The stage.
        stage: StageId,
        /// Messages in it.
        messages: u64,
        /// Their bytes.
        bytes: u64,
    },
}

/// Messages as they lie on disk and go on the wire, back to back, in ascending order of offset.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Polled {
    /// Offset of the last visible message of the partition; 0 when there is none.
    pub current_offset: Offset,
    /// Offset of the last message in `slices`, if there is one.
    pub last_offset: Option<Offset>,
    /// Messages in `slices`.
    pub messages_count: u32,
    /// The bytes; shared with the log, never written to.
    pub slices: Vec<Slice>,
    /// Bytes in `slices`.
    pub size_bytes: u64,
    /// Messages that were removed before they could be read.
    pub gap: Option<Gap>,
}

/// Messages from one offset up to, but without, another one that are not there any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// The offset that was to be read.
    pub from: Offset,
    /// The first one behind it that is left.
    pub to: Offset,
}

/// A stored offset and how far the partition is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredOffset {
    /// Offset of the last visible message of the partition; 0 when there is none.
    pub current: Offset,
    /// Offset of the last message that was processed.
    pub stored: Offset,
}

/// What the partition wants done and what it answers. The host drains both.
#[derive(Debug, Default)]
pub struct Outbox {
    /// Storage operations to execute; each is completed exactly once with `Partition::complete`.
    pub storage: Vec<StorageRequest>,
    /// Answers, in the order in which they became known.
    pub answers: Vec<(Ticket, Result<Response, PartitionError>)>,
    /// Publications that are complete. Each that [`Partition::publish`](crate::Partition::publish) was asked for is told
    /// once.
    pub published: Vec<Published>,
    /// Findings of recovery, each reported once.
    pub notices: Vec<Notice>,
}

/// Why a request was not fulfilled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PartitionError {
    /// Too much is waiting, or no memory is free. Nothing was done; wait and retry.
    #[error("the partition is busy")]
    Busy,
    /// The offset is beyond the last visible message, or there never was one.
    #[error("offset {requested} is beyond the last message")]
    InvalidOffset {
        /// What was asked to be stored.
        requested: Offset,
    },
    /// There is no stored offset to delete.
    #[error("no offset is stored for this consumer")]
    OffsetNotFound,
    /// As many plain consumers as are allowed have stored offsets. Nothing was done.
    #[error("too many consumers have stored offsets")]
    TooManyConsumers,
    /// The batch is not what its count and lengths say. Nothing was appended.
    #[error("the batch is malformed")]
    MalformedBatch,
    /// Messages cannot be read: damaged, or the storage failed. The partition goes on serving others.
    #[error(transparent)]
    Read(ReadError),
    /// The storage failed to remove a file.
    #[error("partition {namespace}: {file} cannot be removed: {source}")]
    Remove {
        /// The partition.
        namespace: Namespace,
        /// The file.
        file: FileName,
        /// What the storage said.
        source: StorageError,
    },
    /// There is no such stage (any more): it has expired, was published or given up, or was not complete at a restart.
    #[error("there is no such stage")]
    StageNotFound,
    /// A chunk does not follow those that are there, or the stage is complete. Nothing was done.
    #[error("chunk {expected} of the stage is expected")]
    StageOutOfOrder {
        /// The chunk that is.
        expected: u32,
    },
    /// A stage takes no more than this. Nothing was done.
    #[error("the stage is too large")]
    StageTooLarge,
    /// The partition's stages are too many, or too large together. Nothing was done.
    #[error("the partition has too much that is staged")]
    StagesExhausted,
    /// The storage failed, and with it the stage.
    #[error("partition {namespace}: {file} cannot be stored: {source}")]
    Stage {
        /// The partition.
        namespace: Namespace,
        /// The file.
        file: FileName,
        /// What the storage said.
        source: StorageError,
    },
    /// The partition failed: since then it only answers polls, or nothing at all.
    #[error("{0}")]
    Failed(Arc<Failure>),
    /// The partition is closing or closed.
    #[error("the partition is closed")]
    Closed,
}

impl From<AppendError> for PartitionError {
    fn from(error: AppendError) -> Self {
        match error {
            AppendError::Busy => Self::Busy,
            AppendError::Malformed => Self::MalformedBatch,
            AppendError::Failed(failure) => Self::Failed(failure),
        }
    }
}

impl From<ReadError> for PartitionError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Busy => Self::Busy,
            error => Self::Read(error),
        }
    }
}
