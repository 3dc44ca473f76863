//! Contents of responses other than streams, topics and messages, as read-only records.

use headrace_client::{Group, StoredOffset};

use headrace_wire::{
    NodeRole, NodeStatus, Transport, UserStatus,
    response::{
        CacheMetrics as WireCacheMetrics, ClientDetails, ClientHeader, ClusterMetadata,
        ConsumerOffsetInfo, GroupDetails, GroupHeader, GroupMember as WireMember,
        Stats as WireStats, TokenInfo, UserDetails, UserHeader,
    },
};
use pyo3::prelude::*;

use super::permissions::Permissions;
use crate::readable::readable;

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Stats>()?;
    module.add_class::<CacheMetrics>()?;
    module.add_class::<Cluster>()?;
    module.add_class::<ClusterNode>()?;
    module.add_class::<Connection>()?;
    module.add_class::<User>()?;
    module.add_class::<AccessToken>()?;
    module.add_class::<ConsumerOffset>()?;
    module.add_class::<ConsumerGroup>()?;
    module.add_class::<GroupMember>()
}

readable!(CacheMetrics: stream_id, topic_id, partition_id, hits, misses);
readable!(Stats: hostname, server_version, streams_count, topics_count, partitions_count, messages_count, clients_count);
readable!(Cluster: name, nodes);
readable!(ClusterNode: name, ip, tcp_port, role, status);
readable!(Connection: client_id, user_id, transport, address, groups_count);
readable!(User: id, username, status);
readable!(AccessToken: name, expires_at_micros);
readable!(ConsumerOffset: partition_id, current_offset, stored_offset);
readable!(ConsumerGroup: id, name, partitions_count, members_count);
readable!(GroupMember: id, partitions);

/// Cache use of one partition.
#[pyclass(frozen, get_all, module = "headrace_core")]
#[derive(Clone)]
pub(super) struct CacheMetrics {
    /// Id of the stream.
    stream_id: u32,
    /// Id of the topic within the stream.
    topic_id: u32,
    /// Id of the partition within the topic.
    partition_id: u32,
    /// Number of reads answered from the cache.
    hits: u64,
    /// Number of reads that went to the disk.
    misses: u64,
    /// Ratio of hits to reads, 0 to 1.
    hit_ratio: f32,
}

impl From<WireCacheMetrics> for CacheMetrics {
    fn from(metrics: WireCacheMetrics) -> Self {
        Self {
            stream_id: metrics.stream_id,
            topic_id: metrics.topic_id,
            partition_id: metrics.partition_id,
            hits: metrics.hits,
            misses: metrics.misses,
            hit_ratio: metrics.hit_ratio,
        }
    }
}

/// Statistics of a server.
#[pyclass(frozen, get_all, module = "headrace_core")]
pub(crate) struct Stats {
    /// Process id of the server.
    process_id: u32,
    /// CPU usage of the process in percent.
    cpu_usage_percent: f32,
    /// CPU usage of the machine in percent.
    total_cpu_usage_percent: f32,
    /// Memory of the process in bytes.
    memory_usage_bytes: u64,
    /// Total memory of the machine in bytes.
    total_memory_bytes: u64,
    /// Available memory of the machine in bytes.
    available_memory_bytes: u64,
    /// Microseconds since the server started.
    run_time_micros: u64,
    /// Time of the start, in microseconds since the Unix epoch.
    start_time_micros: u64,
    /// Number of bytes that the process has read from disks.
    read_bytes: u64,
    /// Number of bytes that the process has written to disks.
    written_bytes: u64,
    /// Size of all messages in bytes, headers included.
    messages_size_bytes: u64,
    /// Number of streams.
    streams_count: u32,
    /// Number of topics in all streams.
    topics_count: u32,
    /// Number of partitions of all topics.
    partitions_count: u32,
    /// Number of segments of all partitions.
    segments_count: u32,
    /// Number of messages in all partitions.
    messages_count: u64,
    /// Number of connections.
    clients_count: u32,
    /// Number of consumer groups of all topics.
    consumer_groups_count: u32,
    /// Host name of the machine.
    hostname: String,
    /// Name of the operating system.
    os_name: String,
    /// Version of the operating system.
    os_version: String,
    /// Version of the kernel.
    kernel_version: String,
    /// Version of the server as text.
    server_version: String,
    /// Version of the server as a number, of which 1.2.3 is 1002003; 0: unknown.
    server_semver: u32,
    /// Cache use by partition, if the server reports any.
    cache_metrics: Vec<CacheMetrics>,
    /// Number of threads of the process.
    threads_count: u32,
    /// Free bytes on the disk with the data directory.
    free_disk_space_bytes: u64,
    /// Size in bytes of the disk with the data directory.
    total_disk_space_bytes: u64,
}

impl From<WireStats<'_>> for Stats {
    fn from(stats: WireStats<'_>) -> Self {
        Self {
            process_id: stats.process_id,
            cpu_usage_percent: stats.cpu_usage,
            total_cpu_usage_percent: stats.total_cpu_usage,
            memory_usage_bytes: stats.memory_usage,
            total_memory_bytes: stats.total_memory,
            available_memory_bytes: stats.available_memory,
            run_time_micros: stats.run_time,
            start_time_micros: stats.start_time,
            read_bytes: stats.read_bytes,
            written_bytes: stats.written_bytes,
            messages_size_bytes: stats.messages_size_bytes,
            streams_count: stats.streams_count,
            topics_count: stats.topics_count,
            partitions_count: stats.partitions_count,
            segments_count: stats.segments_count,
            messages_count: stats.messages_count,
            clients_count: stats.clients_count,
            consumer_groups_count: stats.consumer_groups_count,
            hostname: stats.hostname.to_owned(),
            os_name: stats.os_name.to_owned(),
            os_version: stats.os_version.to_owned(),
            kernel_version: stats.kernel_version.to_owned(),
            server_version: stats.server_version.to_owned(),
            server_semver: stats.server_semver,
            cache_metrics: stats.cache_metrics.into_iter().map(Into::into).collect(),
            threads_count: stats.threads_count,
            free_disk_space_bytes: stats.free_disk_space,
            total_disk_space_bytes: stats.total_disk_space,
        }
    }
}

/// One node of a cluster.
#[pyclass(frozen, get_all, module = "headrace_core")]
#[derive(Clone)]
pub(super) struct ClusterNode {
    /// Name of the node.
    name: String,
    /// IP address of the node; IPv6 without brackets.
    ip: String,
    /// Port for TCP.
    tcp_port: u16,
    /// Port for QUIC.
    quic_port: u16,
    /// Port for HTTP.
    http_port: u16,
    /// Port for WebSocket.
    websocket_port: u16,
    /// Role of the node: `leader`, to which clients should connect, or `follower`.
    role: &'static str,
    /// State of the node: `healthy`, `starting`, `stopping`, `unreachable`, `maintenance` or `unknown`.
    status: &'static str,
}

/// The nodes of a cluster.
#[pyclass(frozen, get_all, module = "headrace_core")]
pub(super) struct Cluster {
    /// Name of the cluster.
    name: String,
    /// Nodes of the cluster, the responding node first.
    nodes: Vec<ClusterNode>,
}

impl From<ClusterMetadata<'_>> for Cluster {
    fn from(metadata: ClusterMetadata<'_>) -> Self {
        let nodes = metadata.nodes.into_iter().map(|node| ClusterNode {
            name: node.name.to_owned(),
            ip: node.ip.to_owned(),
            tcp_port: node.tcp_port,
            quic_port: node.quic_port,
            http_port: node.http_port,
            websocket_port: node.websocket_port,
            role: match node.role {
                NodeRole::Leader => "leader",
                NodeRole::Follower => "follower",
            },
            status: match node.status {
                NodeStatus::Healthy => "healthy",
                NodeStatus::Starting => "starting",
                NodeStatus::Stopping => "stopping",
                NodeStatus::Unreachable => "unreachable",
                NodeStatus::Maintenance => "maintenance",
                NodeStatus::Unknown => "unknown",
            },
        });
        Self {
            name: metadata.name.to_owned(),
            nodes: nodes.collect(),
        }
    }
}

/// One connection of a client.
#[pyclass(frozen, get_all, module = "headrace_core")]
pub(super) struct Connection {
    /// Id of the connection.
    client_id: u32,
    /// User who is logged in; None: not logged in.
    user_id: Option<u32>,
    /// Transport of the connection: `tcp`, `quic`, `http` or `ws`.
    transport: &'static str,
    /// Address of the peer (`ip:port`).
    address: String,
    /// Number of groups of which the connection is a member.
    groups_count: u32,
    /// Ids of stream, topic and group of these memberships; empty in listings.
    groups: Vec<(u32, u32, u32)>,
}

impl From<ClientHeader<'_>> for Connection {
    fn from(header: ClientHeader<'_>) -> Self {
        Self {
            client_id: header.client_id,
            user_id: header.user_id,
            transport: match header.transport {
                Transport::Tcp => "tcp",
                Transport::Quic => "quic",
                Transport::Http => "http",
                Transport::WebSocket => "ws",
            },
            address: header.address.to_owned(),
            groups_count: header.groups_count,
            groups: Vec::new(),
        }
    }
}

impl From<ClientDetails<'_>> for Connection {
    fn from(details: ClientDetails<'_>) -> Self {
        let groups = details.groups.iter();
        Self {
            groups: groups
                .map(|group| (group.stream_id, group.topic_id, group.group_id))
                .collect(),
            ..details.client.into()
        }
    }
}

/// A user.
#[pyclass(frozen, get_all, module = "headrace_core")]
pub(super) struct User {
    /// Id of the user; 0 is root.
    id: u32,
    /// Time of the creation, in microseconds since the Unix epoch.
    created_at_micros: u64,
    /// State of the user: `active`, or `inactive`, who may not log in.
    status: &'static str,
    /// Name of the user.
    username: String,
    /// Permissions of the user; None in listings, and for a user without any.
    permissions: Option<Permissions>,
}

impl From<UserHeader<'_>> for User {
    fn from(header: UserHeader<'_>) -> Self {
        Self {
            id: header.id,
            created_at_micros: header.created_at,
            status: match header.status {
                UserStatus::Active => "active",
                UserStatus::Inactive => "inactive",
            },
            username: header.username.to_owned(),
            permissions: None,
        }
    }
}

impl From<UserDetails<'_>> for User {
    fn from(details: UserDetails<'_>) -> Self {
        Self {
            permissions: details.permissions.map(Permissions::from),
            ..details.user.into()
        }
    }
}

/// An access token without its secret.
#[pyclass(frozen, get_all, module = "headrace_core")]
pub(super) struct AccessToken {
    /// Name of the token.
    name: String,
    /// Time of the expiry, in microseconds since the Unix epoch; None: never.
    expires_at_micros: Option<u64>,
}

impl From<TokenInfo<'_>> for AccessToken {
    fn from(info: TokenInfo<'_>) -> Self {
        Self {
            name: info.name.to_owned(),
            expires_at_micros: Some(info.expiry_at).filter(|&micros| micros != 0),
        }
    }
}

/// A stored offset.
#[pyclass(frozen, get_all, module = "headrace_core")]
pub(crate) struct ConsumerOffset {
    /// Id of the partition within the topic.
    partition_id: u32,
    /// Offset of the last message of the partition; 0 also when there is none.
    current_offset: u64,
    /// Offset of the last message that the consumer has processed.
    stored_offset: u64,
}

impl From<ConsumerOffsetInfo> for ConsumerOffset {
    fn from(info: ConsumerOffsetInfo) -> Self {
        Self {
            partition_id: info.partition_id,
            current_offset: info.current_offset,
            stored_offset: info.stored_offset,
        }
    }
}

impl From<StoredOffset> for ConsumerOffset {
    fn from(offset: StoredOffset) -> Self {
        Self {
            partition_id: offset.partition_id.0,
            current_offset: offset.current.0,
            stored_offset: offset.stored.0,
        }
    }
}

/// A member of a consumer group.
#[pyclass(frozen, get_all, module = "headrace_core")]
#[derive(Clone)]
pub(crate) struct GroupMember {
    /// Id within the group, unrelated to the id of the connection.
    id: u32,
    /// Ids of the partitions that are assigned to the member.
    partitions: Vec<u32>,
}

impl From<WireMember> for GroupMember {
    fn from(member: WireMember) -> Self {
        Self {
            id: member.id,
            partitions: member.partitions,
        }
    }
}

/// A consumer group.
#[pyclass(frozen, get_all, module = "headrace_core")]
pub(crate) struct ConsumerGroup {
    /// Id of the group within the topic.
    id: u32,
    /// Name of the group.
    name: String,
    /// Number of partitions of the topic.
    partitions_count: u32,
    /// Number of connections that are members now.
    members_count: u32,
    /// Members of the group; empty in listings.
    members: Vec<GroupMember>,
}

impl From<GroupHeader<'_>> for ConsumerGroup {
    fn from(header: GroupHeader<'_>) -> Self {
        Self {
            id: header.id,
            name: header.name.to_owned(),
            partitions_count: header.partitions_count,
            members_count: header.members_count,
            members: Vec::new(),
        }
    }
}

impl From<GroupDetails<'_>> for ConsumerGroup {
    fn from(details: GroupDetails<'_>) -> Self {
        let members = details.members.into_iter();
        Self {
            members: members.map(GroupMember::from).collect(),
            ..details.group.into()
        }
    }
}

impl From<Group> for ConsumerGroup {
    fn from(group: Group) -> Self {
        let members = group.members.into_iter();
        Self {
            id: group.id.0,
            name: group.name,
            partitions_count: group.partitions_count,
            members_count: group.members_count,
            members: members.map(GroupMember::from).collect(),
        }
    }
}
