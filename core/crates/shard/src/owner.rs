//! Owners of partitions.

use headrace_model::{NodeId, ShardId};

/// Owner of a partition according to the current catalog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    /// Owned by this shard.
    Here,
    /// Owned by another shard of this process.
    Shard(ShardId),
    /// Owned by a shard of another node.
    Remote {
        /// Owning node.
        node: NodeId,
        /// Shard of the node, if the node has as many as it has registered with.
        shard: ShardId,
    },
    /// No known owner.
    Nowhere,
}

impl Owner {
    /// Return the shard of this process that is nearest to the partition, for connections that are on `home`.
    pub(crate) fn shard_for(self, home: ShardId) -> ShardId {
        match self {
            Self::Shard(shard) => shard,
            Self::Here | Self::Remote { .. } | Self::Nowhere => home,
        }
    }
}
