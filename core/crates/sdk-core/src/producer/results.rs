//! Results of a producer.

use std::time::Duration;

use headrace_wire::batch::PushError;
use headrace_wire::response::Appended;

use crate::Failure;

/// Reason why a message is not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PushRefused {
    /// The buffer is full: wait until something is settled.
    #[error("the producer's buffer is full")]
    BufferFull,
    /// The topic has no such partition.
    #[error("the topic has {partitions_count} partitions, and no partition {partition}")]
    NoPartition {
        /// The partition.
        partition: u32,
        /// Number of partitions; their ids start at 0.
        partitions_count: u32,
    },
    /// The message exceeds a limit of every server.
    #[error("{0}")]
    TooBig(PushError),
    /// The producer is closed.
    #[error("the producer is closed")]
    Closed,
}

/// Place of a stored batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stored {
    /// The partition.
    pub partition: u32,
    /// Offset of its first message; `None` if the server does not report offsets.
    pub base_offset: Option<u64>,
}

impl Stored {
    /// Place from the answer to a batch that was sent to `partition`.
    pub fn from_answer(payload: &[u8], partition: u32) -> Self {
        match Appended::decode(payload) {
            Ok(appended) => Self {
                partition: appended.partition_id,
                base_offset: Some(appended.base_offset),
            },
            // A server that does not report offsets answers without a payload.
            Err(_) => Self {
                partition,
                base_offset: None,
            },
        }
    }
}

/// Reason why a batch is not acknowledged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SendFailure {
    /// The request failed.
    #[error("{0}")]
    Request(Failure),
    /// The time for deliveries has passed before it could be sent; it is not stored.
    #[error("not delivered within {} s; the last problem: {problem}", .after.as_secs_f64())]
    Undelivered {
        /// Time that was allowed.
        after: Duration,
        /// Last problem.
        problem: String,
    },
    /// Refused for the moment, while later messages of its partition are stored already, or may be: sending it again
    /// could change the order. It is not stored.
    #[error("refused for the moment ({problem}), while later messages of its partition were sent")]
    Overtaken {
        /// Reason of the refusal.
        problem: String,
    },
}

impl SendFailure {
    /// Return whether the batch is certainly not stored.
    pub fn is_certainly_not_stored(&self) -> bool {
        match self {
            Self::Request(failure) => failure.is_certainly_not_executed(),
            Self::Undelivered { .. } | Self::Overtaken { .. } => true,
        }
    }
}

/// A batch with its final result.
#[derive(Debug)]
pub struct Settled<H> {
    /// Handle of the batch.
    pub handle: H,
    /// Number of messages.
    pub messages_count: u32,
    /// Bytes of the messages, headers included.
    pub bytes: usize,
    /// Time of its first message.
    pub began_at: Duration,
    /// The result.
    pub result: Result<Stored, SendFailure>,
}
