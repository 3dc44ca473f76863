//! Request ids, partition references, and the head of requests that has both.

use headrace_model::Namespace;

use crate::{Membership, TraceContext};

/// Id of a request of a gateway shard, repeated in the response. Chosen by that shard and not reused while a response
/// may still arrive, over whichever connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// Head of a request: its id, its partition, and the identity behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallHeader {
    /// Request id.
    pub call: RequestId,
    /// The partition.
    pub place: PartitionRef,
    /// Membership, if the request is on behalf of a member of a consumer group.
    pub member: Option<Membership>,
    /// Parent span, if the request is traced. Waiting polls are not.
    pub trace: Option<TraceContext>,
}

/// Reference to a log generation of a partition, as known to the requester.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PartitionRef {
    /// Stream, topic and partition.
    pub namespace: Namespace,
    /// Incarnation, which distinguishes the partition from another with the same ids.
    pub incarnation: u64,
    /// Purge epoch of the topic as known to the requester. The owner applies these purges before it serves the request.
    pub purge_epoch: u64,
}
