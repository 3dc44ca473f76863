//! Request ids and partition references.

use headrace_model::Namespace;

/// Id of a request of a gateway shard, repeated in the response. Chosen by that shard and not reused while a response
/// may still arrive, over whichever connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

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
