//! A shard's settings.

use std::{num::NonZeroU16, sync::Arc};

use headrace_model::ShardId;
use headrace_partition::PartitionConfig;
use headrace_ticket::Key;
use headrace_websocket::Limits;

use crate::links::LinksConfig;

/// Which partitions the shards of a process have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hosting {
    /// All that exist: the process is a whole server.
    Everything,
    /// Those that the catalogue places on one node.
    Placed {
        /// The name under which this process is registered.
        node: Arc<str>,
    },
    /// None: they are on other nodes, all of them.
    Nothing,
}

/// What a shard must know from the start.
#[derive(Debug, Clone)]
pub struct ShardConfig {
    /// This shard.
    pub shard: ShardId,
    /// All shards of the process.
    pub shards: NonZeroU16,
    /// Which partitions belong to them.
    pub hosting: Hosting,
    /// How the nodes are reached that have the others.
    pub links: LinksConfig,
    /// What signs tickets of the cluster, and tells them from others; `None`: there are none.
    pub ticket_key: Option<Key>,
    /// Longest life of a ticket that a user asks for; it is cut short.
    pub ticket_seconds_max: u64,
    /// Template for the partitions: everything but what the catalogue says.
    pub partition: PartitionConfig,
    /// Connections of this shard; one more is refused.
    pub connections_max: usize,
    /// Payload of a `SendMessages` request; a larger one is skipped and refused.
    pub send_payload_bytes_max: usize,
    /// What clients on a WebSocket may send.
    pub websocket: WebSocketConfig,
    /// A client whose last ping is older than 1.2 times this is taken out of the registry and of its groups; `None`: never.
    pub heartbeat_interval_micros: Option<u64>,
    /// A connection on which nobody has logged in for so long is closed; `None`: never.
    pub login_timeout_micros: Option<u64>,
    /// Longest wait of a `WaitMessages` request; a longer one is cut short.
    pub wait_micros_max: u64,
    /// Partitions that this shard's connections may wait for and watch in all; what goes beyond is refused.
    pub waited_partitions_max: usize,
    /// This run of the process, among all gateways: with a connection's number it names a member of a consumer group.
    pub gateway: u64,
    /// What `GetClusterMetadata` answers.
    pub cluster: ClusterView,
    /// How topics' retention is carried out.
    pub retention: RetentionConfig,
    /// Whether requests that carry the context of a trace leave one.
    pub tracing: bool,
    /// What `GetStats` reports as the server's version, and its three parts.
    pub version: (u32, u32, u32),
}

/// How the retention of topics is carried out (LOG-6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetentionConfig {
    /// Microseconds between two looks at the topics; `None`: nothing is removed.
    pub interval_micros: Option<u64>,
    /// Messages stay that the consumer or group furthest behind has not read.
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

/// What clients on a WebSocket may send, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WebSocketConfig {
    /// Frames and messages above these close the connection. Requests may be larger: they may span messages.
    pub limits: Limits,
    /// Request for the upgrade, its header fields included.
    pub handshake_bytes_max: usize,
    /// A connection that has not asked for the upgrade after so long is closed.
    pub handshake_timeout_micros: u64,
}

impl Default for WebSocketConfig {
    fn default() -> Self {
        Self {
            limits: Limits {
                frame_bytes_max: 16 << 20,
                message_bytes_max: 64 << 20,
            },
            // One less would fit into what a stranger's connection keeps.
            handshake_bytes_max: 7 << 10,
            handshake_timeout_micros: 10_000_000,
        }
    }
}

/// The nodes that clients may connect to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterView {
    /// The cluster's name.
    pub name: String,
    /// At least one; this node first.
    pub nodes: Vec<NodeView>,
}

/// One node, with the ports really bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeView {
    /// The node's name.
    pub name: String,
    /// Host part of its binary address, IPv6 without brackets.
    pub ip: String,
    /// Binary protocol over TCP.
    pub tcp_port: u16,
    /// Binary protocol over QUIC.
    pub quic_port: u16,
    /// HTTP.
    pub http_port: u16,
    /// Binary protocol over WebSocket.
    pub websocket_port: u16,
}
