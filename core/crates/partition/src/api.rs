//! Requests, responses and errors of a partition.

use alloc::sync::Arc;
use alloc::vec::Vec;

use headrace_buffer::Slice;
use headrace_log::storage::{FileName, StorageError, StorageRequest};
use headrace_log::{AppendError, Batch, Failure, Notice, RangePlan, RangeToPlan, ReadError};
use headrace_model::{Namespace, Offset, StageId, UserId};
use headrace_wire::{CommandCode, PollingStrategy};

/// Request id, chosen by the caller and returned with the response, exactly once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// Consumer or group that a stored offset is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ConsumerKey {
    /// A plain consumer, by number or by the hash of its name.
    Consumer(u32),
    /// A consumer group of the topic.
    Group(u32),
}

/// User who changes the stored offset of a plain consumer. The offset belongs to the user who made it; others change it
/// only if they manage the topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Committer {
    /// The user.
    pub user: UserId,
    /// True if the user may manage the topic, and so change the offsets of others.
    pub manages: bool,
}

/// Request to a partition.
#[derive(Debug)]
pub enum Request {
    /// Append messages. Answered with [`Response::Appended`] once the messages are as durable as configured.
    Append {
        /// Validated messages.
        batch: Batch,
    },
    /// Read messages. Answered with [`Response::Polled`], or with [`Response::NotEnough`].
    Poll(Poll),
    /// Get a stored offset. Answered with [`Response::Offset`].
    GetOffset {
        /// Consumer or group.
        consumer: ConsumerKey,
    },
    /// Store the offset of the last processed message. Answered with [`Response::Done`].
    StoreOffset {
        /// Consumer or group.
        consumer: ConsumerKey,
        /// Offset to store; must not be beyond the last visible message.
        offset: Offset,
        /// User of a plain consumer. None changes any offset and owns none: a service, or a gateway of an earlier version.
        by: Option<Committer>,
    },
    /// Delete a stored offset. Answered with [`Response::Done`].
    DeleteOffset {
        /// Consumer or group.
        consumer: ConsumerKey,
        /// User, as in [`Request::StoreOffset`].
        by: Option<Committer>,
    },
    /// Write all messages queued in memory. Answered with [`Response::Done`].
    Flush {
        /// Sync it as well.
        fsync: bool,
    },
    /// Remove sealed segments that no stored offset still needs, oldest first. Answered with [`Response::Done`].
    DeleteSegments {
        /// Maximum number of segments.
        count: u32,
    },
    /// Plan how to split a range of messages into parts of similar size. Answered with [`Response::Planned`].
    PlanRange(RangeToPlan),
    /// Stage messages that are invisible until their transaction is published. Answered with [`Response::Staged`] once
    /// they are written; the last chunk of a stage once the whole stage is on the device, regardless of the partition's
    /// durability.
    Stage {
        /// Stage to continue. None begins a new stage.
        stage: Option<StageId>,
        /// Microseconds until a new stage expires.
        lifetime_micros: u64,
        /// Chunk number, counted from 0 in each stage. A repeated chunk is answered again.
        chunk: u32,
        /// True for the last chunk of the stage.
        is_last: bool,
        /// Validated messages; may be empty.
        batch: Batch,
    },
}

macro_rules! commands {
    ({ $($request:ident = $command:ident,)+ }) => {
        impl Request {
            /// Command that becomes this request. Polls that wait are those of `PollMessages`.
            pub const fn command(&self) -> CommandCode {
                match self {
                    $(Self::$request { .. } => CommandCode::$command,)+
                }
            }
        }
    };
}

headrace_wire::partition_requests! { commands }

/// Selection of messages to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Poll {
    /// Start of the read.
    pub strategy: PollingStrategy,
    /// Maximum number of messages.
    pub count: u32,
    /// Consumer or group of the stored offset that `Next` and `auto_commit` use. Without one, `Next` means `First`.
    pub consumer: Option<ConsumerKey>,
    /// Store the offset of the last message returned before answering.
    pub auto_commit: bool,
    /// User who stores it, as in [`Request::StoreOffset`].
    pub by: Option<Committer>,
    /// Minimum size of the messages in bytes. Below it, nothing is returned or stored if more messages may come. 0
    /// disables it.
    pub minimum_bytes: u32,
    /// Maximum size of the messages in bytes. A first message that is larger is refused with
    /// [`ReadError::TooLarge`], which names its size. [`Poll::UNLIMITED`] leaves the limit to the configuration.
    pub bytes_max: u32,
}

impl Poll {
    /// Maximum size of a poll without a limit of its own, which returns one message at least.
    pub const UNLIMITED: u32 = u32::MAX;
}

/// Progress that a partition has to make before a poll that found too few messages is worth repeating.
///
/// Either of the two values suffices. Both only grow while the partition is open; a purge and a change of stored offsets
/// invalidate them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Level {
    /// Value to compare with [`Partition::visible_end`](crate::Partition::visible_end).
    pub end: Offset,
    /// Value to compare with [`Partition::visible_bytes`](crate::Partition::visible_bytes).
    pub bytes: u64,
}

/// Response to a [`Request`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Response {
    /// The messages are stored as durably as configured.
    Appended {
        /// Offset of the first message; the rest follow without gaps.
        base_offset: Offset,
        /// Number of messages.
        messages_count: u32,
    },
    /// Messages read.
    Polled(Polled),
    /// Fewer messages than the minimum of the poll are available.
    BelowMinimum(Level),
    /// The stored offset, if there is one.
    Offset(Option<StoredOffset>),
    /// Split points of a range.
    Planned(RangePlan),
    /// Success without a value.
    Done,
    /// The messages are staged.
    Staged {
        /// The stage.
        stage: StageId,
        /// Number of messages in the stage.
        messages: u64,
        /// Size of the messages in bytes.
        bytes: u64,
    },
}

/// Messages in their format on disk and on the wire, back to back, in ascending order of offset.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Polled {
    /// Offset of the last visible message of the partition; 0 if there is none.
    pub current_offset: Offset,
    /// Offset of the last message in `slices`, if there is one.
    pub last_offset: Option<Offset>,
    /// Number of messages in `slices`.
    pub messages_count: u32,
    /// Bytes of the messages; shared with the log, never written to.
    pub slices: Vec<Slice>,
    /// Number of bytes in `slices`.
    pub size_bytes: u64,
    /// Messages that were removed before they could be read.
    pub gap: Option<Gap>,
}

/// Range of removed messages, from one offset up to another (exclusive).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// Offset that was to be read.
    pub from: Offset,
    /// First retained offset behind it.
    pub to: Offset,
}

/// A stored offset and the end of the partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredOffset {
    /// Offset of the last visible message of the partition; 0 if there is none.
    pub current: Offset,
    /// Offset of the last processed message.
    pub stored: Offset,
}

/// Storage requests, responses and notices of the partition. The host drains all of them.
#[derive(Debug, Default)]
pub struct Outbox {
    /// Storage operations to execute; each is completed exactly once with `Partition::complete`.
    pub storage: Vec<StorageRequest>,
    /// Responses, in the order in which they became known.
    pub responses: Vec<(RequestId, Result<Response, PartitionError>)>,
    /// Complete publications. Each one passed to [`Partition::publish`](crate::Partition::publish) is reported once.
    pub published: Vec<Published>,
    /// Findings of recovery, each reported once.
    pub notices: Vec<Notice>,
}

/// A complete publication: its messages are on the device and will not be published again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Published {
    /// Number of the publication.
    pub number: u64,
    /// Offset of the first message.
    pub base_offset: Offset,
    /// Number of messages. 0 if a purge followed, or if the publication was complete before the request.
    pub messages_count: u64,
    /// Number of stages named by the publication that are missing or incomplete: their messages are lost.
    pub stages_missing: u32,
}

/// Answer a request.
pub(crate) fn respond(
    out: &mut Outbox,
    request_id: RequestId,
    result: Result<Response, PartitionError>,
) {
    out.responses.push((request_id, result));
}

/// Reason why a request was not fulfilled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PartitionError {
    /// Too much is queued, or no memory is free. The request had no effect; wait and retry.
    #[error("the partition is busy")]
    Busy,
    /// The offset is beyond the last visible message, or no message was ever visible.
    #[error("offset {requested} is beyond the last message")]
    InvalidOffset {
        /// Offset that was to be stored.
        requested: Offset,
    },
    /// No stored offset exists to be deleted.
    #[error("no offset is stored for this consumer")]
    OffsetNotFound,
    /// The maximum number of plain consumers have stored offsets, or the user's half of what others leave. The request
    /// had no effect.
    #[error("too many consumers have stored offsets")]
    TooManyConsumers,
    /// The stored offset belongs to another user. The request had no effect.
    #[error("the stored offset belongs to another user")]
    OffsetOfAnotherUser,
    /// The batch does not match its count and lengths. Nothing was appended.
    #[error("the batch is malformed")]
    MalformedBatch,
    /// Messages cannot be read, because they are damaged or the storage failed. The partition stays in service.
    #[error(transparent)]
    Read(ReadError),
    /// The storage failed to remove a file.
    #[error("partition {namespace}: {file} cannot be removed: {source}")]
    Remove {
        /// The partition.
        namespace: Namespace,
        /// The file.
        file: FileName,
        /// Error of the storage.
        source: StorageError,
    },
    /// The stage does not exist: it expired, was published or aborted, was incomplete at a restart, or never existed.
    #[error("the stage does not exist")]
    StageNotFound,
    /// The chunk does not follow the preceding ones, or the stage is complete. The request had no effect.
    #[error("chunk {expected} of the stage is expected")]
    StageOutOfOrder {
        /// Number of the expected chunk.
        expected: u32,
    },
    /// The stage has reached its maximum size. The request had no effect.
    #[error("the stage is too large")]
    StageTooLarge,
    /// The partition has too many stages, or they are too large together. The request had no effect.
    #[error("the partition has too many staged messages")]
    StagesExhausted,
    /// A file cannot be written or read: a stage, which failed with it, or one that is tried again until it can be.
    #[error("partition {namespace}: {file} cannot be written or read: {source}")]
    Store {
        /// The partition.
        namespace: Namespace,
        /// The file.
        file: FileName,
        /// Error of the storage.
        source: StorageError,
    },
    /// The partition failed: it answers only polls, or no requests at all.
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
