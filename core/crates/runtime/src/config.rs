//! Settings of a node: what the shards of one process share.

use std::{fmt, net::SocketAddr, path::PathBuf};

use headrace_model::limits;
use headrace_partition::IndexCaching;
use headrace_shard::{Hosting, LinksConfig, WebSocketConfig, proxy::Network};
use headrace_ticket::Key;

/// A text that is never printed: its `Debug` output is redacted.
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
    /// Data directory; `streams/` is created in it.
    pub data_path: PathBuf,
    /// Address of the TCP listener of the binary protocol; `None`: no listener. Port 0 picks a free one.
    pub tcp_address: Option<SocketAddr>,
    /// Address of the WebSocket listener of the binary protocol; `None`: no listener. Port 0 picks a free one.
    pub websocket_address: Option<SocketAddr>,
    /// Networks of load balancers, each as address and prefix length: connections from these addresses begin with a
    /// header of the PROXY protocol, version 2.
    pub proxies: Vec<Network>,
    /// Maximum size of one frame from a WebSocket client.
    pub websocket_frame_bytes_max: u64,
    /// Maximum size of one message from a WebSocket client.
    pub websocket_message_bytes_max: u64,
    /// Time within which a WebSocket client must request the upgrade before it is disconnected.
    pub websocket_handshake_timeout_micros: u64,
    /// Origins of the pages that may connect over WebSocket; any, if the first is `*`.
    pub websocket_allowed_origins: Vec<String>,
    /// Address of the binary protocol that is advertised to clients; `None`: the address of the listener.
    pub tcp_advertised_address: Option<SocketAddr>,
    /// CPU allocation: `all`, a number, `a..b`, `numa:...`: see [`crate::cpus`].
    pub cpu_allocation: String,
    /// I/O driver: `auto`, `uring` or `poll`.
    pub driver: String,
    /// Default durability of topics that set none: `memory`, `os` or `fsync`, the guarantee that an acknowledgement
    /// gives.
    pub durability: String,
    /// Budget of the buffer pool.
    pub memory_pool_bytes: u64,
    /// Time after which unused large buffers are returned to the operating system.
    pub memory_pool_idle_micros: u64,
    /// Size at which a segment is sealed.
    pub segment_size_bytes: u64,
    /// Index caching: `all`, `open_segment` or `none`.
    pub index_caching: String,
    /// Number of pending messages that triggers a write with durability `memory`.
    pub flush_messages: u32,
    /// Number of pending bytes that triggers a write with durability `memory`.
    pub flush_bytes: u64,
    /// Age of the oldest pending message that triggers a write with durability `memory`.
    pub flush_interval_micros: u64,
    /// Interval of background syncs with durability `os`; 0: never.
    pub sync_interval_micros: u64,
    /// Number of unsynced bytes that triggers a background sync with durability `os`; 0: never.
    pub sync_bytes: u64,
    /// Size of the cache of recent messages that one partition keeps in memory for its consumers.
    pub tail_cache_bytes: u64,
    /// Maximum number of plain consumers (outside groups) with a stored offset in one partition.
    pub consumers_max: u32,
    /// Time for which messages that were read from a file and had valid checksums are not verified again; 0: verify on
    /// every read.
    pub verified_micros: u64,
    /// Maximum size of the messages of one poll response.
    pub poll_size_bytes_max: u32,
    /// Maximum number of connections of the whole node.
    pub connections_max: usize,
    /// Maximum payload of one `SendMessages` request.
    pub send_payload_bytes_max: u32,
    /// Heartbeat interval. Clients silent for 1.2 times this are disconnected; 0: never.
    pub heartbeat_interval_micros: u64,
    /// Time of silence after which a client that has asked for its membership leaves its groups.
    pub member_silence_micros_max: u64,
    /// Time after which a connection without a login is closed; 0: never.
    pub login_timeout_micros: u64,
    /// Maximum time that a request waits for messages, whatever time it asks for.
    pub wait_micros_max: u64,
    /// Maximum number of partitions that all connections together wait for and watch.
    pub waited_partitions_max: usize,
    /// Secret shared by the services of a cluster: the key of their tickets is derived from it and the cluster's name.
    /// Empty: no cluster.
    pub cluster_secret: Secret,
    /// Second secret whose tickets are also accepted, for the time of a secret's rotation. Empty: none.
    pub cluster_accepted_secret: Secret,
    /// Maximum lifetime of tickets that users request.
    pub ticket_lifetime_micros_max: u64,
    /// Time that unsent requests wait for a node that cannot be reached.
    pub link_timeout_micros: u64,
    /// Time without any received byte, while answers are due, after which a link is closed.
    pub link_silence_micros_max: u64,
    /// Maximum number of bytes in flight on one link.
    pub link_in_flight_bytes_max: u64,
    /// Timeout for connecting to another node.
    pub link_connect_timeout_micros: u64,
    /// Interval in microseconds between two retention runs; 0: nothing is removed.
    pub cleaner_interval_micros: u64,
    /// True if retention keeps messages that the slowest consumer or group has not read.
    pub cleaner_keeps_unread: bool,
    /// Number of bytes per second that the scrub reads; 0: files are not read again.
    pub scrub_bytes_per_second: u64,
    /// Time from the beginning of a pass of the scrub to that of the next one.
    pub scrub_interval_micros: u64,
    /// True if requests that carry a trace context produce trace records.
    pub tracing: bool,
    /// Identifier of this run of the process among all gateways, for memberships in consumer groups.
    pub gateway_id: u64,
    /// Name of the cluster that is reported to clients.
    pub cluster_name: String,
    /// Name of this node that is reported to clients, and under which it is registered as a partition node.
    pub node_name: String,
    /// Hosted partitions: `everything`, `placed` (partitions that the catalog assigns to the node of this name) or
    /// `nothing`.
    pub hosting: String,
    /// Port of the QUIC listener that is reported to clients; 0: not listening.
    pub quic_port: u16,
    /// Port of the HTTP listener that is reported to clients; 0: not listening.
    pub http_port: u16,
    /// Port of a WebSocket listener outside this process that is reported to clients; 0: none.
    pub websocket_port: u16,
    /// Version that is reported to clients of the binary protocol, `major.minor.patch`.
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
            websocket_allowed_origins: Vec::new(),
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
            member_silence_micros_max: 30_000_000,
            login_timeout_micros: 10_000_000,
            wait_micros_max: 60_000_000,
            waited_partitions_max: 131_072,
            cluster_secret: Secret::default(),
            cluster_accepted_secret: Secret::default(),
            ticket_lifetime_micros_max: 86_400_000_000,
            link_timeout_micros: links.unsent_timeout_micros,
            link_silence_micros_max: links.silence_timeout_micros,
            link_in_flight_bytes_max: links.in_flight_bytes_max,
            link_connect_timeout_micros: 3_000_000,
            cleaner_interval_micros: 60_000_000,
            cleaner_keeps_unread: false,
            scrub_bytes_per_second: 4 << 20,
            scrub_interval_micros: 7 * 86_400_000_000,
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
            unsent_timeout_micros: self.link_timeout_micros,
            silence_timeout_micros: self.link_silence_micros_max,
            in_flight_bytes_max: self.link_in_flight_bytes_max,
        }
    }
}

/// An invalid setting.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{setting}: {problem}")]
pub struct InvalidSetting {
    /// Field of [`NodeConfig`].
    pub setting: &'static str,
    /// Description of the problem and of the values allowed.
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
