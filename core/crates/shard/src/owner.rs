//! Owners of partitions.

use headrace_catalog::{Catalog, Node};
use headrace_model::{Namespace, NodeId, ShardId, owner_shard};

use crate::config::{Hosting, ShardConfig};

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

impl ShardConfig {
    /// Return the owner of a partition, which need not exist.
    #[inline]
    pub(crate) fn owner(&self, catalog: &Catalog, namespace: Namespace) -> Owner {
        if self.hosting == Hosting::Everything {
            return self.local_owner(namespace);
        }
        self.placed_owner(catalog, namespace)
    }

    fn placed_owner(&self, catalog: &Catalog, namespace: Namespace) -> Owner {
        let Some(holder) = catalog.leader(namespace) else {
            return Owner::Nowhere;
        };
        if self.is_node(holder) {
            return self.local_owner(namespace);
        }
        let shards = u16::try_from(holder.shards).unwrap_or(u16::MAX);
        let Ok(shards) = shards.try_into() else {
            return Owner::Nowhere;
        };
        Owner::Remote {
            node: holder.id,
            shard: owner_shard(namespace, shards),
        }
    }

    /// Return whether a partition belongs to any shard of this process.
    #[inline]
    pub(crate) fn hosts(&self, catalog: &Catalog, namespace: Namespace) -> bool {
        self.hosting == Hosting::Everything
            || catalog
                .leader(namespace)
                .is_some_and(|holder| self.is_node(holder))
    }

    fn local_owner(&self, namespace: Namespace) -> Owner {
        match owner_shard(namespace, self.shards) {
            shard if shard == self.shard => Owner::Here,
            shard => Owner::Shard(shard),
        }
    }

    fn is_node(&self, node: &Node) -> bool {
        matches!(&self.hosting, Hosting::Placed { node: name } if **name == *node.name)
    }
}
