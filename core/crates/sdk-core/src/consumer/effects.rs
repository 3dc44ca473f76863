//! Effects of a consumer, for its caller.

use bytes::Bytes;

use crate::{Failure, Request};

/// Messages of one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// The partition.
    pub partition: u32,
    /// Position that the batch was read for; older than that of the partition after a seek.
    pub epoch: u32,
    /// Answer that the messages came in, from the header of polled messages on.
    pub polled: Bytes,
    /// Messages, back to back.
    pub messages: Bytes,
    /// Number of messages.
    pub messages_count: u32,
    /// Offset of the first message.
    pub first_offset: u64,
    /// Offset after the last message.
    pub next_offset: u64,
    /// Offset after the partition's last message when the batch was read.
    pub partition_end: u64,
}

/// Report of a consumer. Reports are in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    /// Messages.
    Batch(Batch),
    /// The consumer reads these partitions from now on.
    Assigned(Vec<u32>),
    /// The consumer is to give these partitions up: no more of their messages follow. Storing the offset of their last
    /// message lets them move at once. They have moved already if that was stored before.
    Revoked(Vec<u32>),
    /// Partitions that were taken away, because the connection broke or the time for giving them up has passed.
    /// Offsets of theirs can no longer be stored.
    Lost(Vec<u32>),
    /// Messages from the first offset up to, but without, the second were removed before they could be read.
    Gap {
        /// The partition.
        partition: u32,
        /// First removed offset.
        from: u64,
        /// First offset after them.
        to: u64,
    },
    /// The partition was purged, or is a new one under the same name: reading continues at its beginning, or after what
    /// other members have processed of it since.
    Reset {
        /// The partition.
        partition: u32,
    },
    /// The server has refused requests of the consumer for half a minute: there may be messages that it cannot read. It
    /// continues to try, and this is repeated each half minute.
    Refused(Failure),
    /// The consumer has ended.
    Failed(Failure),
}

/// Identity of a request on the data session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataToken<C> {
    /// Creation of the group.
    CreateGroup,
    /// Joining the group.
    Join,
    /// Query of the member's partitions.
    Membership,
    /// Query of the topic's partitions.
    Topic,
    /// Query of a stored offset.
    StoredOffset {
        /// The partition.
        partition: u32,
        /// Epoch of the partition.
        epoch: u32,
    },
    /// Reading of messages.
    Read {
        /// The partition.
        partition: u32,
        /// Epoch of the partition.
        epoch: u32,
    },
    /// Storing of an offset.
    Commit(C),
    /// Leaving the group.
    Leave,
}

/// Identity of a request on the watch session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchToken {
    /// Adding partitions.
    Add,
    /// Adding partitions with the openings of their logs.
    AddNamingOpenings,
    /// Removing partitions.
    Remove,
}

/// Task for the caller of a consumer. Tasks are in order.
#[derive(Debug)]
pub enum ConsumerEffect<C> {
    /// Submit a request to the data session.
    Data {
        /// The request.
        request: Request,
        /// Identity of the request, for the answer.
        token: DataToken<C>,
    },
    /// Submit a request to the watch session.
    Watch {
        /// The request.
        request: Request,
        /// Identity of the request, for the answer.
        token: WatchToken,
    },
    /// Hand this out.
    Item(Item),
    /// A commit has ended.
    Committed {
        /// Token of the commit.
        token: C,
        /// Outcome of the commit.
        outcome: Result<(), Failure>,
    },
    /// The consumer has left.
    Left,
}
