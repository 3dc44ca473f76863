//! Messages from a partition node.

use alloc::vec::Vec;
use core::num::NonZeroU16;

use headrace_model::{Namespace, NodeId};
use headrace_partition::Response;

use crate::{Refusal, RequestId, StatisticsSnapshot, WatchedState};

/// Message from a shard of a node to a shard of a gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToGateway {
    /// The link is open. Sent once, as the first message.
    Welcome {
        /// Version of the node's catalog.
        catalog_version: u64,
        /// Node that responds.
        node: NodeId,
        /// Number of shards of the node.
        shards: NonZeroU16,
    },
    /// Response to a request, or to a poll that waited. Responses arrive in any order.
    Answer {
        /// Id of the request.
        call: RequestId,
        /// Result of the request.
        result: Result<Response, Refusal>,
    },
    /// Enough messages are available for a waiting poll. The partition has removed the poll.
    PollReady {
        /// Id of the poll.
        call: RequestId,
    },
    /// Current state of a watched partition. The watch has ended.
    StateChanged {
        /// The partition.
        namespace: Namespace,
        /// State of the partition.
        view: WatchedState,
    },
    /// The node does not serve the partition. The request was not executed.
    WrongNode {
        /// Id of the request.
        call: RequestId,
        /// Catalog version according to which the partition is elsewhere.
        version: u64,
    },
    /// The node does not serve a partition that was to be watched.
    NotWatched {
        /// The partition.
        namespace: Namespace,
        /// Catalog version according to which the partition is elsewhere.
        version: u64,
    },
    /// Statistics of partitions.
    Statistics {
        /// Id of the request.
        call: RequestId,
        /// Statistics of each partition in the scope that the node serves.
        partitions: Vec<StatisticsSnapshot>,
    },
}
