//! Configuration of a shard.

use std::{num::NonZeroU16, sync::Arc};

use headrace_catalog::{Catalog, Node};
use headrace_model::{Namespace, ShardId, owner_shard};
use headrace_partition::PartitionConfig;
use headrace_ticket::Key;
use headrace_websocket::{Limits, Origins};

use crate::{owner::Owner, routing::links::LinksConfig};

/// Partitions that the shards of a process host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hosting {
    /// All partitions: the process is a complete server.
    Everything,
    /// Partitions that the catalog places on one node.
    Placed {
        /// Name under which this process is registered.
        node: Arc<str>,
    },
    /// No partitions: all are on other nodes.
    Nothing,
}

/// Settings of a shard that are fixed at startup.
#[derive(Debug, Clone)]
pub struct ShardConfig {
    /// Number of this shard.
    pub shard: ShardId,
    /// Number of shards of the process.
    pub shards: NonZeroU16,
    /// Partitions that these shards host.
    pub hosting: Hosting,
    /// Settings of the links to the nodes that host the other partitions.
    pub links: LinksConfig,
    /// Key that signs and verifies tickets of the cluster; `None` if tickets are disabled.
    pub ticket_key: Option<Key>,
    /// Maximum lifetime of a ticket that a user requests; a longer one is reduced to it.
    pub ticket_seconds_max: u64,
    /// Template for partitions: everything but the catalog's settings.
    pub partition: PartitionConfig,
    /// Maximum number of connections of this shard; further ones are refused.
    pub connections_max: usize,
    /// Maximum payload of a `SendMessages` request; a larger one is skipped and refused.
    pub send_payload_bytes_max: usize,
    /// Limits for WebSocket clients.
    pub websocket: WebSocketConfig,
    /// Heartbeat interval. A client whose last ping is older than 1.2 times this is removed from the registry and from
    /// its groups; `None`: never.
    pub heartbeat_interval_micros: Option<u64>,
    /// Time of silence after which a client that has asked for its membership is removed like those without heartbeats.
    pub member_silence_micros_max: u64,
    /// Time after which a connection without login is closed; `None`: never.
    pub login_timeout_micros: Option<u64>,
    /// Maximum wait of a `WaitMessages` request; a longer one is reduced to it.
    pub wait_micros_max: u64,
    /// Maximum number of partitions that this shard's connections may wait for and watch in total; more are refused.
    pub waited_partitions_max: usize,
    /// Id of this run of the process among all gateways. With the connection number it identifies a group member.
    pub gateway: u64,
    /// Content of `GetClusterMetadata` responses.
    pub cluster: ClusterView,
    /// Enforcement of topic retention.
    pub retention: RetentionConfig,
    /// True if requests that carry a trace context are traced.
    pub tracing: bool,
    /// Version of the server that `GetStats` reports, in its three parts.
    pub version: (u32, u32, u32),
}

/// Enforcement of topic retention (LOG-6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetentionConfig {
    /// Microseconds between two retention runs; `None`: nothing is removed.
    pub interval_micros: Option<u64>,
    /// True to keep messages that the consumer or group furthest behind has not read.
    pub keeps_unread: bool,
}

impl Default for RetentionConfig {
    fn default() -> Self {
        Self {
            interval_micros: Some(60_000_000),
            keeps_unread: false,
        }
    }
}

/// Limits and deadlines for WebSocket clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebSocketConfig {
    /// Limits on frames and messages; exceeding them closes the connection. Requests may be larger, as they may span
    /// messages.
    pub limits: Limits,
    /// Maximum size of the upgrade request, including header fields.
    pub handshake_bytes_max: usize,
    /// Time after which a connection without an upgrade request is closed.
    pub handshake_timeout_micros: u64,
    /// Pages that may connect.
    pub origins: Arc<Origins>,
}

impl Default for WebSocketConfig {
    fn default() -> Self {
        Self {
            limits: Limits {
                frame_bytes_max: 16 << 20,
                message_bytes_max: 64 << 20,
            },
            // Smaller than the receive buffer of an unauthenticated WebSocket connection (8 KiB), which has to hold the
            // request.
            handshake_bytes_max: 7 << 10,
            handshake_timeout_micros: 10_000_000,
            origins: Arc::default(),
        }
    }
}

/// Nodes that clients may connect to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterView {
    /// Name of the cluster.
    pub name: String,
    /// Nodes; at least one, and this node first.
    pub nodes: Vec<NodeView>,
}

/// One node, with the ports that are actually bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeView {
    /// Name of the node.
    pub name: String,
    /// Host part of the binary protocol address; IPv6 without brackets.
    pub ip: String,
    /// Port of the binary protocol over TCP.
    pub tcp_port: u16,
    /// Port of the binary protocol over QUIC.
    pub quic_port: u16,
    /// Port of HTTP.
    pub http_port: u16,
    /// Port of the binary protocol over WebSocket.
    pub websocket_port: u16,
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
