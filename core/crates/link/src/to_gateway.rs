//! What a partition node says.

use alloc::vec::Vec;
use core::num::NonZeroU16;

use headrace_model::{Namespace, NodeId};
use headrace_partition::Response;

use crate::{Call, Figures, Refusal, View};

/// From a node's shard to a gateway's shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToGateway {
    /// The link is open. The first that is said, and said once.
    Welcome {
        /// The version of the node's catalogue.
        catalog_version: u64,
        /// Who answers.
        node: NodeId,
        /// How many shards it has.
        shards: NonZeroU16,
    },
    /// The answer to a request, or to a poll that waited. Answers come in any order.
    Answer {
        /// The request.
        call: Call,
        /// The outcome.
        result: Result<Response, Refusal>,
    },
    /// A poll that waits will find enough now; the partition has forgotten it.
    Told {
        /// The poll.
        call: Call,
    },
    /// How a partition is now that was watched. It is not watched any more.
    Seen {
        /// The partition.
        namespace: Namespace,
        /// How it is.
        view: View,
    },
    /// Nothing was done, because this is not where the partition is.
    NotHere {
        /// The request.
        call: Call,
        /// The version of the catalogue that says so.
        version: u64,
    },
    /// The same of a partition that was to be watched.
    NotWatched {
        /// The partition.
        namespace: Namespace,
        /// The version of the catalogue that says so.
        version: u64,
    },
    /// Figures of partitions.
    Statistics {
        /// The request.
        call: Call,
        /// Of each partition that was asked for and is held by the node.
        figures: Vec<Figures>,
    },
}
