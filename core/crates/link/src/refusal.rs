//! Why there is no answer.

use headrace_partition::PartitionError;

/// Why a partition request was not fulfilled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The catalogue of the owning shard does not know the partition (any more).
    #[error("the partition does not exist")]
    NotFound,
    /// The catalogue places the partition on another node. Nothing was done.
    #[error("the partition is on another node")]
    Elsewhere,
    /// There is no node that has the partition. Nothing was done.
    #[error("no node that has the partition can be reached")]
    Unavailable,
    /// A member of a consumer group polls what it does not own (any more): it gets nothing.
    #[error("the member does not own the partition that it polls")]
    NothingAssigned,
    /// A member of a consumer group changes the offset of a partition that it does not own (any more).
    #[error("the member does not own the partition")]
    NotOwner,
    /// A poll that wanted to wait does not wait any more, and was given nothing.
    #[error("there is not enough")]
    NotReady,
    /// The partition says no.
    #[error(transparent)]
    Partition(#[from] PartitionError),
}
