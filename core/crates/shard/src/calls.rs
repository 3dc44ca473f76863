//! Calls of partitions and their answers, and the mail that carries them between shards.

use std::num::NonZeroU32;

use headrace_link::{EndWait, Membership, Refusal, WatchedState, WhenReady};
use headrace_model::{Namespace, NodeId, ShardId};
use headrace_partition::{Poll, Request, Response};

/// A connection of this shard. The host chooses the key and never reuses it after the connection closes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionKey {
    /// Index into the host's connection table.
    pub index: u32,
    /// Distinguishes successive connections at the same index.
    pub generation: u32,
}

/// An outgoing connection to another node. The shard chooses the number and never reuses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkNumber(pub u32);

/// Sequence number of a request on its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sequence(pub u64);

/// One request of one connection of one shard: the destination of the response, and the identity behind the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin {
    /// Shard that owns the connection.
    pub shard: ShardId,
    /// Connection that sent the request.
    pub connection: ConnectionKey,
    /// Sequence number of the request on its connection.
    pub sequence: Sequence,
    /// Set when the connection asks as a member of a consumer group.
    pub member: Option<Membership>,
    /// Number of the traced request within the shard; `None` if the request is not traced.
    pub trace: Option<NonZeroU32>,
}

/// A call of a partition: the same envelope from the connection that asks to the partition that executes it, on this
/// shard, on another one, or at the other end of a link.
#[derive(Debug, Clone, Copy)]
pub struct PartitionCall<R = Request> {
    /// Destination of the answer, and the identity behind the call.
    pub origin: Origin,
    /// Partition that is called.
    pub namespace: Namespace,
    /// Operation on the partition.
    pub request: R,
}

/// A poll that may wait at its partition.
#[derive(Debug, Clone, Copy)]
pub struct WaitingPoll {
    /// Poll parameters, including the minimum to wait for.
    pub poll: Poll,
    /// Action once the minimum is available.
    pub when_ready: WhenReady,
}

/// Answer to a call of a partition.
#[derive(Debug)]
pub struct PartitionAnswer {
    /// Call that is answered.
    pub origin: Origin,
    /// Partition that answers.
    pub namespace: Namespace,
    /// Outcome of the call.
    pub result: Result<Response, Refusal>,
}

/// A message from one shard to another.
#[derive(Debug)]
pub enum Mail {
    /// A call of a partition that the receiver owns.
    Call(PartitionCall),
    /// An answer to a call.
    Answer(PartitionAnswer),
    /// A poll that may wait at a partition that the receiver owns.
    Wait(PartitionCall<WaitingPoll>),
    /// End a waiting poll.
    StopWaiting {
        /// Request of the poll.
        origin: Origin,
        /// Partition that is polled.
        namespace: Namespace,
        /// Way in which the poll ends.
        stop: EndWait,
    },
    /// Notification that a waiting poll would now find enough messages.
    MessagesAvailable {
        /// Request of the poll.
        origin: Origin,
        /// Partition that is polled.
        namespace: Namespace,
    },
    /// Request a single notification once a partition that the receiver owns differs from the view last seen.
    Watch {
        /// Partition to watch.
        namespace: Namespace,
        /// Shard to notify.
        shard: ShardId,
        /// View last seen; `None` if there is none yet.
        seen: Option<WatchedState>,
    },
    /// Cancel a watch.
    Unwatch {
        /// Watched partition.
        namespace: Namespace,
        /// Shard that requested the notification.
        shard: ShardId,
    },
    /// Notification that a watched partition has changed.
    ViewChanged {
        /// Watched partition.
        namespace: Namespace,
        /// Current view of the partition.
        view: WatchedState,
    },
    /// Memory is short: release a part of the caches of this shard.
    Reclaim {
        /// Number of bytes requested from all shards together.
        bytes: u64,
        /// Number of bytes in the caches of all shards.
        held_bytes: u64,
    },
    /// Notification that memory is available for a receiver that waits on this shard.
    MemoryAvailable,
}

/// One shard of one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Peer {
    pub(crate) node: NodeId,
    pub(crate) shard: ShardId,
}
