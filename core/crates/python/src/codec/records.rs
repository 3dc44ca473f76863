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
    stream_id: u32,
    topic_id: u32,
    partition_id: u32,
    hits: u64,
    misses: u64,
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
    process_id: u32,
    cpu_usage_percent: f32,
    total_cpu_usage_percent: f32,
    memory_usage_bytes: u64,
    total_memory_bytes: u64,
    available_memory_bytes: u64,
    run_time_micros: u64,
    start_time_micros: u64,
    read_bytes: u64,
    written_bytes: u64,
    messages_size_bytes: u64,
    streams_count: u32,
    topics_count: u32,
    partitions_count: u32,
    segments_count: u32,
    messages_count: u64,
    clients_count: u32,
    consumer_groups_count: u32,
    hostname: String,
    os_name: String,
    os_version: String,
    kernel_version: String,
    server_version: String,
    server_semver: u32,
    cache_metrics: Vec<CacheMetrics>,
    threads_count: u32,
    free_disk_space_bytes: u64,
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
    name: String,
    ip: String,
    tcp_port: u16,
    quic_port: u16,
    http_port: u16,
    websocket_port: u16,
    role: &'static str,
    status: &'static str,
}

/// The nodes of a cluster.
#[pyclass(frozen, get_all, module = "headrace_core")]
pub(super) struct Cluster {
    name: String,
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
    client_id: u32,
    user_id: Option<u32>,
    transport: &'static str,
    address: String,
    groups_count: u32,
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
    id: u32,
    created_at_micros: u64,
    status: &'static str,
    username: String,
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
    name: String,
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
    partition_id: u32,
    current_offset: u64,
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
    id: u32,
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
    id: u32,
    name: String,
    partitions_count: u32,
    members_count: u32,
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
