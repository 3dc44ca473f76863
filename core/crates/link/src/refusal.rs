//! Refusals of partition requests.

use headrace_partition::PartitionError;

/// Reason why a partition request was not executed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The partition does not exist (any more) in the catalog of the owning shard.
    #[error("the partition does not exist")]
    NotFound,
    /// The catalog assigns the partition to another node. The request was not executed.
    #[error("the partition is on another node")]
    Elsewhere,
    /// No node that serves the partition can be reached. The request was not executed.
    #[error("no node that has the partition can be reached")]
    Unavailable,
    /// A member of a consumer group polls a partition that it does not own (any more): the poll returns nothing.
    #[error("the member does not own the partition that it polls")]
    NothingAssigned,
    /// A member of a consumer group changes the offset of a partition that it does not own (any more).
    #[error("the member does not own the partition")]
    NotOwner,
    /// The topic holds as many bytes as its quota allows. Nothing was appended.
    #[error("the topic holds as much as its quota allows")]
    TopicFull,
    /// A poll that may wait ended without enough messages, and returns nothing.
    #[error("there is not enough")]
    NotReady,
    /// The partition refused the request.
    #[error(transparent)]
    Partition(#[from] PartitionError),
}
