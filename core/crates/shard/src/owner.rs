//! Where partitions belong.

use headrace_catalog::{Catalog, Node};
use headrace_model::{Namespace, NodeId, ShardId, owner_shard};

use crate::config::{Hosting, ShardConfig};

/// Who has a partition, as the catalogue at hand has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    /// This shard.
    Here,
    /// Another shard of this process.
    Shard(ShardId),
    /// A shard of another node.
    Remote {
        /// The node.
        node: NodeId,
        /// The shard there, if the node has as many as it has registered with.
        shard: ShardId,
    },
    /// Nobody that is known.
    Nowhere,
}

impl Owner {
    /// The shard of this process at which connections of `home` are as near to the partition as they can get.
    pub(crate) fn shard_for(self, home: ShardId) -> ShardId {
        match self {
            Self::Shard(shard) => shard,
            Self::Here | Self::Remote { .. } | Self::Nowhere => home,
        }
    }
}

impl ShardConfig {
    /// Who has a partition. It need not exist.
    #[inline]
    pub(crate) fn owner(&self, catalog: &Catalog, namespace: Namespace) -> Owner {
        if self.hosting == Hosting::Everything {
            return self.local_owner(namespace);
        }
        self.placed_owner(catalog, namespace)
    }

    fn placed_owner(&self, catalog: &Catalog, namespace: Namespace) -> Owner {
        let Some(holder) = catalog.holder(namespace) else {
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

    /// Whether a partition belongs to this process, to whichever of its shards.
    #[inline]
    pub(crate) fn hosts(&self, catalog: &Catalog, namespace: Namespace) -> bool {
        self.hosting == Hosting::Everything
            || catalog
                .holder(namespace)
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
