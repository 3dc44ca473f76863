//! Settings of a node: what the shards of one process share.

use std::{fmt, net::SocketAddr, path::PathBuf};

use headrace_model::limits;
use headrace_partition::IndexCaching;
use headrace_shard::{Hosting, LinksConfig, WebSocketConfig, proxy::Network};
use headrace_ticket::Key;

/// A text that is never printed.
#[derive(Clone, Default, serde::Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("***")
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

/// Settings as the embedding process gives them. Sizes are bytes, times microseconds; names follow the
/// settings reference of the product.
#[derive(Debug, Clone, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NodeConfig {
    /// Data folder; `streams/` is created in it.
    pub data_path: PathBuf,
    /// Where the binary protocol listens; `None`: nowhere. Port 0 picks a free one.
    pub tcp_address: Option<SocketAddr>,
    /// Where the binary protocol in WebSocket messages listens; `None`: nowhere. Port 0 picks a free one.
    pub websocket_address: Option<SocketAddr>,
    /// Balancers, each a network and how many of its bits count: connections from there begin with a header of the PROXY
    /// protocol, version 2.
    pub proxies: Vec<Network>,
    /// What one frame of a WebSocket client carries at most.
    pub websocket_frame_bytes_max: u64,
    /// What one message of a WebSocket client carries at most.
    pub websocket_message_bytes_max: u64,
    /// A WebSocket client that has not asked for the upgrade after so long is disconnected.
    pub websocket_handshake_timeout_micros: u64,
    /// Where clients are told to find the binary protocol; `None`: where it listens.
    pub tcp_advertised_address: Option<SocketAddr>,
    /// `all`, a number, `a..b`, `numa:...`: see [`crate::cpus`].
    pub cpu_allocation: String,
    /// `auto`, `uring` or `poll`.
    pub driver: String,
    /// `memory`, `os` or `fsync`: what an acknowledgement promises where the topic does not say.
    pub durability: String,
    /// Budget of the buffer pool.
    pub memory_pool_bytes: u64,
    /// Large buffers that nobody has needed for so long go back to the system.
    pub memory_pool_idle_micros: u64,
    /// Size at which a segment is sealed.
    pub segment_size_bytes: u64,
    /// `all`, `open_segment` or `none`.
    pub index_caching: String,
    /// With durability `memory`: write when so many messages wait,
    pub flush_messages: u32,
    /// or so many bytes,
    pub flush_bytes: u64,
    /// or for so long.
    pub flush_interval_micros: u64,
    /// With durability `os`: sync in the background after so long; 0: never.
    pub sync_interval_micros: u64,
    /// With durability `os`: sync in the background after so many bytes; 0: never.
    pub sync_bytes: u64,
    /// Recent messages that one partition keeps in memory for its consumers.
    pub tail_cache_bytes: u64,
    /// Plain consumers that may have a stored offset in one partition.
    pub consumers_max: u32,
    /// Messages that were read from a file and found undamaged are not verified again for so long; 0: with every read.
    pub verified_micros: u64,
    /// Messages of one poll response at most.
    pub poll_size_bytes_max: u32,
    /// Connections of the whole node at most.
    pub connections_max: usize,
    /// Payload of one `SendMessages` request at most.
    pub send_payload_bytes_max: u32,
    /// Clients silent for 1.2 times this are disconnected; 0: never.
    pub heartbeat_interval_micros: u64,
    /// A connection on which nobody has logged in for so long is closed; 0: never.
    pub login_timeout_micros: u64,
    /// Requests that wait for messages are answered after this, whatever they ask for.
    pub wait_micros_max: u64,
    /// Partitions that connections wait for and watch at most, all together.
    pub waited_partitions_max: usize,
    /// What the services of a cluster share: with the cluster's name it makes the key of their tickets. Empty: there is
    /// no cluster.
    pub cluster_secret: Secret,
    /// Another one, whose tickets are accepted while it is changed. Empty: there is none.
    pub cluster_accepted_secret: Secret,
    /// Tickets that users ask for are valid for this long at most.
    pub ticket_lifetime_micros_max: u64,
    /// What was not sent waits so long for a node that cannot be reached.
    pub link_patience_micros: u64,
    /// A link on which answers are due and nothing is heard for so long is given up.
    pub link_silence_micros_max: u64,
    /// What may be on its way over one link.
    pub link_in_flight_bytes_max: u64,
    /// A connection to another node that is not there after so long is given up.
    pub link_connect_timeout_micros: u64,
    /// Microseconds between two looks at what topics' retention wants removed; 0: nothing is removed.
    pub cleaner_interval_micros: u64,
    /// Retention waits for the consumer or group furthest behind.
    pub cleaner_keeps_unread: bool,
    /// Whether requests that carry the context of a trace leave one.
    pub tracing: bool,
    /// This run of the process among all gateways, for memberships in consumer groups.
    pub gateway_id: u64,
    /// Name of the cluster that clients see.
    pub cluster_name: String,
    /// Name of this node that clients see, and under which it is registered as a partition node.
    pub node_name: String,
    /// `everything`, `placed` (what the catalogue places on the node of this name) or `nothing`.
    pub hosting: String,
    /// Ports of the other listeners, as clients see them; 0: not listening.
    pub quic_port: u16,
    /// HTTP.
    pub http_port: u16,
    /// WebSocket, where something else listens for this node.
    pub websocket_port: u16,
    /// Version that clients of the classic protocol see, `major.minor.patch`.
    pub protocol_version: (u32, u32, u32),
}

impl Default for NodeConfig {
    fn default() -> Self {
        let websocket = WebSocketConfig::default();
        let links = LinksConfig::default();
        Self {
            data_path: PathBuf::from("local_data"),
            tcp_address: Some(SocketAddr::from(([127, 0, 0, 1], 8090))),
            websocket_address: None,
            proxies: Vec::new(),
            websocket_frame_bytes_max: websocket.limits.frame_bytes_max,
            websocket_message_bytes_max: websocket.limits.message_bytes_max,
            websocket_handshake_timeout_micros: websocket.handshake_timeout_micros,
            tcp_advertised_address: None,
            cpu_allocation: "all".into(),
            driver: "auto".into(),
            durability: "os".into(),
            memory_pool_bytes: 4 << 30,
            memory_pool_idle_micros: 10_000_000,
            segment_size_bytes: limits::SEGMENT_SIZE_BYTES_MAX,
            index_caching: "open_segment".into(),
            flush_messages: 1024,
            flush_bytes: 1 << 20,
            flush_interval_micros: 30_000_000,
            sync_interval_micros: 1_000_000,
            sync_bytes: 64 << 20,
            tail_cache_bytes: 16 << 20,
            consumers_max: 100_000,
            verified_micros: 60_000_000,
            poll_size_bytes_max: 16 << 20,
            connections_max: 16_384,
            send_payload_bytes_max: 256 << 20,
            heartbeat_interval_micros: 0,
            login_timeout_micros: 10_000_000,
            wait_micros_max: 60_000_000,
            waited_partitions_max: 131_072,
            cluster_secret: Secret::default(),
            cluster_accepted_secret: Secret::default(),
            ticket_lifetime_micros_max: 86_400_000_000,
            link_patience_micros: links.patience_micros,
            link_silence_micros_max: links.silence_micros_max,
            link_in_flight_bytes_max: links.in_flight_bytes_max,
            link_connect_timeout_micros: 3_000_000,
            cleaner_interval_micros: 60_000_000,
            cleaner_keeps_unread: false,
            tracing: false,
            gateway_id: 0,
            cluster_name: "single-node".into(),
            node_name: "iggy-node".into(),
            hosting: "everything".into(),
            quic_port: 0,
            http_port: 0,
            websocket_port: 0,
            protocol_version: (0, 8, 0),
        }
    }
}

impl NodeConfig {
    pub(crate) fn ticket_key(&self) -> Option<Key> {
        let secret = self.cluster_secret.0.as_bytes();
        let accepted = self.cluster_accepted_secret.0.as_bytes();
        (!secret.is_empty()).then(|| {
            let key = Key::derive(secret, &self.cluster_name);
            if accepted.is_empty() {
                return key;
            }
            key.accepting(accepted, &self.cluster_name)
        })
    }

    pub(crate) fn links(&self) -> LinksConfig {
        LinksConfig {
            patience_micros: self.link_patience_micros,
            silence_micros_max: self.link_silence_micros_max,
            in_flight_bytes_max: self.link_in_flight_bytes_max,
        }
    }
}

/// A setting that a node refuses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{setting}: {problem}")]
pub struct InvalidSetting {
    /// The field of [`NodeConfig`].
    pub setting: &'static str,
    /// What is wrong and what is allowed.
    pub problem: String,
}

pub(crate) fn hosting(hosting: &str, node_name: &str) -> Result<Hosting, InvalidSetting> {
    match hosting {
        "everything" => Ok(Hosting::Everything),
        "placed" if node_name.is_empty() => Err(InvalidSetting {
            setting: "node_name",
            problem: "is needed to know what is placed here".into(),
        }),
        "placed" => Ok(Hosting::Placed {
            node: node_name.into(),
        }),
        "nothing" => Ok(Hosting::Nothing),
        other => Err(InvalidSetting {
            setting: "hosting",
            problem: format!("{other:?} is none of everything, placed and nothing"),
        }),
    }
}

pub(crate) fn index_caching(name: &str) -> Result<IndexCaching, InvalidSetting> {
    match name {
        "all" => Ok(IndexCaching::All),
        "open_segment" => Ok(IndexCaching::OpenSegment),
        "none" => Ok(IndexCaching::None),
        other => Err(InvalidSetting {
            setting: "index_caching",
            problem: format!("{other:?} is none of all, open_segment and none"),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_hosted_is_named() {
        assert_eq!(hosting("everything", ""), Ok(Hosting::Everything));
        assert_eq!(hosting("nothing", ""), Ok(Hosting::Nothing));
        let node = "node-1".into();
        assert_eq!(hosting("placed", "node-1"), Ok(Hosting::Placed { node }));
        let setting = |hosted, name| hosting(hosted, name).expect_err("refused").setting;
        assert_eq!(setting("placed", ""), "node_name");
        assert_eq!(setting("all", "node-1"), "hosting");
    }
}
