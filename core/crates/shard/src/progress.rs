//! Progress of a shard's startup and shutdown, as the host sees it.

use crate::hosting::Troubles;

/// Progress of opening the partitions of a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Number of partitions owned.
    pub partitions: usize,
    /// Number of partitions that still recover.
    pub recovering: usize,
    /// Number of staged batches of transactions, complete or not.
    pub stages: usize,
    /// Bytes of the staged batches' files.
    pub staged_bytes: u64,
    /// Partitions that need an operator.
    pub troubles: Troubles,
}
