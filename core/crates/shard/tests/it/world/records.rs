//! Records of the catalog.

use std::num::NonZeroU16;

use headrace_model::{Namespace, PartitionId, StreamId, TopicId, owner_shard};
use headrace_proto::catalog::v1::{self as records, delta::Change};

use super::{SHARDS, World};

/// A user without permissions, in worlds with a gateway.
pub const WITHOUT_RIGHTS: u32 = 1;

pub fn partition(id: u32) -> Namespace {
    Namespace::new(StreamId(0), TopicId(0), PartitionId(id)).expect("fits")
}

/// Return the shard that owns a partition, of two.
pub fn owner_of(id: u32) -> u16 {
    owner_shard(partition(id), NonZeroU16::new(SHARDS).unwrap()).0
}

/// The first of eight partitions that a shard owns.
pub fn partition_of(shard: u16) -> u32 {
    (0..8)
        .find(|id| owner_of(*id) == shard)
        .expect("one of them")
}

/// An active user with these permissions in every stream.
pub fn user(id: u32, username: &str, global: Option<records::GlobalPermissions>) -> Change {
    Change::UserPut(records::User {
        id,
        username: username.into(),
        created_at_micros: 1,
        status: records::UserStatus::Active.into(),
        password_version: 1,
        permissions: global.map(|global| records::Permissions {
            global: Some(global),
            streams: Vec::new(),
        }),
        ..Default::default()
    })
}

/// Place every partition on the node given at its index.
pub fn placed(nodes: &[u32]) -> Change {
    let partitions = nodes.iter().map(|node| records::PartitionPlacement {
        node_ids: vec![*node],
        holder_node_id: *node,
        ..Default::default()
    });
    Change::TopicPlacementPut(records::TopicPlacement {
        partitions: partitions.collect(),
        ..Default::default()
    })
}

impl World {
    /// A running node. A model has one shard.
    pub fn node_record(&self, id: u32, incarnation: u64) -> Change {
        let shards = if self.nodes.is_empty() { SHARDS } else { 1 };
        Change::NodePut(records::Node {
            id,
            name: format!("n{id}"),
            incarnation,
            binary_address: format!("node-{id}"),
            grpc_address: String::new(),
            shards: shards.into(),
            registered_at_micros: 1,
            status: records::NodeStatus::Live.into(),
            is_draining: false,
        })
    }

    /// Catalog changes that create stream 0 `s` and topic 0 `t`.
    pub fn stream_and_topic(partitions: u32) -> Vec<Change> {
        let stream = records::Stream {
            id: 0,
            name: "s".into(),
            created_at_micros: 2,
            incarnation: 2,
        };
        vec![
            Change::StreamPut(stream),
            Change::TopicPut(Self::topic(partitions, 3, 0)),
        ]
    }

    /// Catalog record of the topic.
    pub fn topic(partitions: u32, incarnation: u64, purge_epoch: u64) -> records::Topic {
        records::Topic {
            stream_id: 0,
            id: 0,
            name: "t".into(),
            created_at_micros: 3,
            incarnation,
            compression: records::CompressionAlgorithm::None.into(),
            message_expiry_micros: u64::MAX,
            max_size_bytes: u64::MAX,
            replication_factor: 1,
            durability: 0,
            purge_epoch,
            partitions: (0..partitions)
                .map(|id| records::Partition {
                    id,
                    created_at_micros: 3,
                    incarnation,
                })
                .collect(),
            ..Default::default()
        }
    }
}
