//! Partition nodes, and placement of partitions on them.

use std::sync::Arc;

use headrace_model::{Namespace, NodeId, PartitionId, StreamId, Timestamp, TopicId};
use headrace_proto::catalog::v1;

use crate::{ApplyError, Catalog};

/// A partition node: a process that holds replicas of partitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Id, never reused.
    pub id: NodeId,
    /// Name, the same in every run of the process.
    pub name: Arc<str>,
    /// Incarnation: distinguishes the runs of the process.
    pub incarnation: u64,
    /// `host:port` of the binary protocol (Iggy 0.8).
    pub binary_address: Arc<str>,
    /// `host:port` of gRPC.
    pub grpc_address: Arc<str>,
    /// Number of shards: the node's capacity.
    pub shards: u32,
    /// Time at which the id was assigned.
    pub registered_at: Timestamp,
    /// True if the node renews its lease.
    pub is_live: bool,
    /// True if the node gets no new partitions.
    pub is_draining: bool,
}

/// Placement of a topic's partitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicPlacement {
    /// Stream of the topic.
    pub stream_id: StreamId,
    /// The topic.
    pub topic_id: TopicId,
    partitions: Vec<PartitionPlacement>,
}

/// Placement of one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionPlacement {
    /// Nodes with a replica; the first is the preferred primary.
    pub nodes: Vec<NodeId>,
    /// Nodes that keep their replica until the others are complete, ascending.
    pub leaving: Vec<NodeId>,
    /// Placement epoch: grows with every change, never reused.
    pub epoch: u64,
    /// True if an operator has chosen the nodes.
    pub is_pinned: bool,
    /// Leader: the node that serves the partition.
    pub leader: Option<NodeId>,
}

impl Node {
    pub(crate) fn from_record(record: &v1::Node) -> Result<Self, ApplyError> {
        let id = NodeId(record.id);
        let is_live = match record.status() {
            v1::NodeStatus::Live => true,
            v1::NodeStatus::Silent => false,
            v1::NodeStatus::Unspecified => {
                return Err(ApplyError::InvalidNode {
                    node_id: id,
                    reason: "its status is not known",
                });
            }
        };
        Ok(Self {
            id,
            name: Arc::from(record.name.as_str()),
            incarnation: record.incarnation,
            binary_address: Arc::from(record.binary_address.as_str()),
            grpc_address: Arc::from(record.grpc_address.as_str()),
            shards: record.shards,
            registered_at: Timestamp(record.registered_at_micros),
            is_live,
            is_draining: record.is_draining,
        })
    }

    pub(crate) fn to_record(&self) -> v1::Node {
        v1::Node {
            id: self.id.0,
            name: self.name.to_string(),
            incarnation: self.incarnation,
            binary_address: self.binary_address.to_string(),
            grpc_address: self.grpc_address.to_string(),
            shards: self.shards,
            registered_at_micros: self.registered_at.0,
            status: if self.is_live {
                v1::NodeStatus::Live
            } else {
                v1::NodeStatus::Silent
            }
            .into(),
            is_draining: self.is_draining,
        }
    }
}

impl Catalog {
    /// Find the leader of a partition: other nodes may be incomplete until the placement is complete.
    ///
    /// `None` if the partition has no placement, or its leader is not a known node.
    pub fn leader(&self, namespace: Namespace) -> Option<&Arc<Node>> {
        let placement = self
            .placement_of(namespace.stream(), namespace.topic())?
            .partition(namespace.partition())?;
        self.node(placement.leader?)
    }

    pub(crate) fn put_node(&mut self, record: &v1::Node) -> Result<(), ApplyError> {
        let node = Node::from_record(record)?;
        Arc::make_mut(&mut self.nodes).insert(node.id, Arc::new(node));
        Ok(())
    }

    pub(crate) fn remove_node(&mut self, id: NodeId) {
        // Look up before `make_mut`: an unchanged map must stay shared.
        if self.nodes.contains_key(&id) {
            Arc::make_mut(&mut self.nodes).remove(&id);
        }
    }

    pub(crate) fn put_placement(&mut self, record: &v1::TopicPlacement) -> Result<(), ApplyError> {
        let placement = TopicPlacement::from_record(record);
        let (stream_id, topic_id) = (placement.stream_id, placement.topic_id);
        self.stream_by_id(stream_id)
            .and_then(|stream| stream.topic_by_id(topic_id))
            .ok_or(ApplyError::UnknownTopic {
                stream_id,
                topic_id,
            })?;
        Arc::make_mut(&mut self.placements).insert((stream_id, topic_id), Arc::new(placement));
        Ok(())
    }

    pub(crate) fn remove_placements(&mut self, of: &impl Fn(StreamId, TopicId) -> bool) {
        if self.placements.keys().any(|topic| of(topic.0, topic.1)) {
            Arc::make_mut(&mut self.placements).retain(|topic, _| !of(topic.0, topic.1));
        }
    }
}

impl TopicPlacement {
    pub(crate) fn from_record(record: &v1::TopicPlacement) -> Self {
        let partitions = record.partitions.iter().map(|partition| {
            let ids = |ids: &[u32]| ids.iter().copied().map(NodeId).collect();
            PartitionPlacement {
                nodes: ids(&partition.node_ids),
                leaving: ids(&partition.leaving_node_ids),
                epoch: partition.epoch,
                is_pinned: partition.is_pinned,
                leader: (partition.holder_node_id > 0).then_some(NodeId(partition.holder_node_id)),
            }
        });
        Self {
            stream_id: StreamId(record.stream_id),
            topic_id: TopicId(record.topic_id),
            partitions: partitions.collect(),
        }
    }

    pub(crate) fn to_record(&self) -> v1::TopicPlacement {
        let partitions = self.partitions.iter().map(|partition| {
            let ids = |ids: &[NodeId]| ids.iter().map(|id| id.0).collect();
            v1::PartitionPlacement {
                node_ids: ids(&partition.nodes),
                leaving_node_ids: ids(&partition.leaving),
                epoch: partition.epoch,
                is_pinned: partition.is_pinned,
                holder_node_id: partition.leader.map_or(0, |holder| holder.0),
            }
        });
        v1::TopicPlacement {
            stream_id: self.stream_id.0,
            topic_id: self.topic_id.0,
            partitions: partitions.collect(),
        }
    }

    /// Placement of a partition.
    pub fn partition(&self, id: PartitionId) -> Option<&PartitionPlacement> {
        self.partitions.get(usize::try_from(id.0).ok()?)
    }
}
