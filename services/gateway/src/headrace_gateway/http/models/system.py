"""Server, connections, cluster, diagnostics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from headrace_core import Cluster, Connection, Stats
from headrace_gateway.json_api.numbers import Body, ByteSize, Checked, Micros
from headrace_gateway.ports import GroupPath

SizesQuery = Annotated[
    Literal["text", "bytes"], Meta(description="Representation of sizes: text with units, or plain numbers of bytes.")
]


class SizesOnly(Checked):
    """Format of sizes."""

    sizes: SizesQuery = "text"


class MetricsQuery(Checked):
    """Level of detail."""

    detail: Annotated[Literal["none", "partitions"], Meta(description="Additional contents: the lag by partition.")] = (
        "none"
    )


class CacheMetrics(msgspec.Struct):
    """Cache use of one partition."""

    hits: int
    misses: int
    hit_ratio: float


class StatsAnswer(msgspec.Struct, kw_only=True):
    """Statistics of the server, its process and its machine."""

    process_id: int
    cpu_usage: float
    total_cpu_usage: float
    memory_usage: ByteSize
    total_memory: ByteSize
    available_memory: ByteSize
    run_time: int
    start_time: Micros
    read_bytes: ByteSize
    written_bytes: ByteSize
    messages_size_bytes: ByteSize
    streams_count: int
    topics_count: int
    partitions_count: int
    segments_count: int
    messages_count: int
    clients_count: int
    consumer_groups_count: int
    hostname: str
    os_name: str
    os_version: str
    kernel_version: str
    iggy_server_version: str
    iggy_server_semver: int | None
    cache_metrics: dict[str, CacheMetrics]
    threads_count: int
    free_disk_space: ByteSize
    total_disk_space: ByteSize


class StatsSampleAnswer(msgspec.Struct, kw_only=True):
    """Statistics at one time."""

    timestamp: Micros
    messages_count: int
    messages_size_bytes: int
    cpu_usage: Annotated[float, Meta(description="Percent of one core.")]
    total_cpu_usage: Annotated[float, Meta(description="Percent of all cores of the machine.")]
    memory_usage: Annotated[int, Meta(description="Bytes.")]


class StatsHistoryAnswer(msgspec.Struct, kw_only=True):
    """Statistics of the last hour."""

    interval_seconds: Annotated[int, Meta(description="Time between the samples.")]
    samples: list[StatsSampleAnswer]


class GroupMembership(msgspec.Struct):
    """A group of which a connection is a member."""

    stream_id: int
    topic_id: int
    group_id: int
    member: Annotated[int | None, Meta(description="Id of the connection as a member of the group.")]


class ClientAnswer(msgspec.Struct, kw_only=True):
    """One connection."""

    client_id: int
    user_id: int | None
    address: str
    transport: Literal["tcp", "quic", "http", "ws"]
    consumer_groups_count: int


class ClientDetails(ClientAnswer, kw_only=True):
    """One connection with its groups."""

    consumer_groups: list[GroupMembership]


class Endpoints(msgspec.Struct):
    """Ports of a node; 0: the node does not listen."""

    tcp: int
    quic: int
    http: int
    websocket: int


class ClusterNode(msgspec.Struct, kw_only=True):
    """One node."""

    name: str
    ip: str
    endpoints: Endpoints
    role: Literal["leader", "follower"]
    status: Literal["healthy", "starting", "stopping", "unreachable", "maintenance", "unknown"]


class ClusterAnswer(msgspec.Struct):
    """The nodes of the cluster."""

    name: str
    nodes: list[ClusterNode]


class SnapshotBody(Body):
    """Contents and compression of the archive."""

    compression: Literal["Stored", "Deflated", "Bzip2", "Zstd", "Lzma", "Xz"]
    snapshot_types: list[
        Literal["FilesystemOverview", "ProcessList", "ResourceUsage", "Test", "ServerLogs", "ServerConfig", "All"]
    ]


def client(connection: Connection) -> ClientAnswer:
    """Return a connection of a listing."""
    return ClientAnswer(
        client_id=connection.client_id,
        user_id=connection.user_id,
        address=connection.address,
        transport=connection.transport,
        consumer_groups_count=connection.groups_count,
    )


def client_details(connection: Connection, member_ids: Mapping[GroupPath, int]) -> ClientDetails:
    """Return a single connection, with its ids as a member."""
    return ClientDetails(
        client_id=connection.client_id,
        user_id=connection.user_id,
        address=connection.address,
        transport=connection.transport,
        consumer_groups_count=connection.groups_count,
        consumer_groups=[GroupMembership(*group, member_ids.get(group)) for group in connection.groups],
    )


def cluster(nodes: Cluster) -> ClusterAnswer:
    """Return the cluster."""
    return ClusterAnswer(
        name=nodes.name,
        nodes=[
            ClusterNode(
                name=node.name,
                ip=node.ip,
                endpoints=Endpoints(node.tcp_port, node.quic_port, node.http_port, node.websocket_port),
                role=node.role,
                status=node.status,
            )
            for node in nodes.nodes
        ],
    )


def cache_metrics(stats: Stats) -> dict[str, CacheMetrics]:
    """Return the metrics by stream, topic and partition."""
    return {
        f"{entry.stream_id}-{entry.topic_id}-{entry.partition_id}": CacheMetrics(
            entry.hits, entry.misses, entry.hit_ratio
        )
        for entry in stats.cache_metrics
    }
