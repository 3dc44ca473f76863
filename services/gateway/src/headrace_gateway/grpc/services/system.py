"""Connected clients and the state of the server."""

from __future__ import annotations

from typing import Final

import headrace_core as core
from headrace_chassis.grpc.status import Refused
from headrace_gateway.grpc.calls import Caller
from headrace_proto.errors import Status
from headrace_proto.gateway import v1

_TRANSPORTS: Final = {
    "tcp": v1.TRANSPORT_TCP,
    "quic": v1.TRANSPORT_QUIC,
    "http": v1.TRANSPORT_HTTP,
    "ws": v1.TRANSPORT_WEBSOCKET,
}


class System:
    """``headrace.gateway.v1.System``."""

    async def list_clients(self, _: v1.ListClientsRequest, caller: Caller) -> v1.ListClientsResponse:
        clients = core.decode_connections(await caller.execute(core.encode_get_clients()))
        return v1.ListClientsResponse(clients=map(_client_summary, clients))

    async def get_client(self, request: v1.GetClientRequest, caller: Caller) -> v1.GetClientResponse:
        payload = await caller.find(core.encode_get_client(client_id=request.client_id))
        client = core.decode_connection(payload)
        if client is None:
            raise Refused(Status.CLIENT_NOT_FOUND)
        groups = [
            v1.ClientConsumerGroup(stream_id=stream, topic_id=topic, group_id=group)
            for stream, topic, group in client.groups
        ]
        return v1.GetClientResponse(client=_client_summary(client), consumer_groups=groups)

    async def disconnect_client(
        self, request: v1.DisconnectClientRequest, caller: Caller
    ) -> v1.DisconnectClientResponse:
        await caller.execute(core.encode_disconnect_client(client_id=request.client_id))
        return v1.DisconnectClientResponse()

    async def get_statistics(self, _: v1.GetStatisticsRequest, caller: Caller) -> v1.GetStatisticsResponse:
        stats = core.decode_stats(await caller.execute(core.encode_get_stats()))
        return v1.GetStatisticsResponse(
            process_id=stats.process_id,
            hostname=stats.hostname,
            version=stats.server_version,
            start_time_micros=stats.start_time_micros,
            run_time_micros=stats.run_time_micros,
            cpu_usage_percent=stats.cpu_usage_percent,
            memory_usage_bytes=stats.memory_usage_bytes,
            messages_size_bytes=stats.messages_size_bytes,
            streams_count=stats.streams_count,
            topics_count=stats.topics_count,
            partitions_count=stats.partitions_count,
            segments_count=stats.segments_count,
            messages_count=stats.messages_count,
            clients_count=stats.clients_count,
            consumer_groups_count=stats.consumer_groups_count,
            free_disk_space_bytes=stats.free_disk_space_bytes,
            total_disk_space_bytes=stats.total_disk_space_bytes,
        )

    async def get_cluster_metadata(
        self, _: v1.GetClusterMetadataRequest, caller: Caller
    ) -> v1.GetClusterMetadataResponse:
        cluster = core.decode_cluster(await caller.execute(core.encode_get_cluster_metadata()))
        nodes = [
            v1.ClusterNode(
                name=node.name,
                ip=node.ip,
                tcp_port=node.tcp_port,
                quic_port=node.quic_port,
                http_port=node.http_port,
                websocket_port=node.websocket_port,
                is_leader=node.role == "leader",
                is_healthy=node.status == "healthy",
            )
            for node in cluster.nodes
        ]
        return v1.GetClusterMetadataResponse(name=cluster.name, nodes=nodes)


def _client_summary(client: core.Connection) -> v1.ClientSummary:
    return v1.ClientSummary(
        id=client.client_id,
        user_id=client.user_id,
        address=client.address,
        transport=_TRANSPORTS[client.transport],
        consumer_groups_count=client.groups_count,
    )
