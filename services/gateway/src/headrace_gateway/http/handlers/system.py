"""Server, connections, cluster, diagnostics."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

import msgspec
from aiohttp import web

import headrace_core as core
from headrace_gateway.http.call import Call
from headrace_gateway.http.lists import page
from headrace_gateway.http.models.catalog import Page
from headrace_gateway.http.models.cluster import ClusterStateAnswer, cluster_state
from headrace_gateway.http.models.logs import SettingAnswer
from headrace_gateway.http.models.system import (
    ClientAnswer,
    ClientDetails,
    ClusterAnswer,
    SizesOnly,
    SnapshotBody,
    StatsAnswer,
    StatsHistoryAnswer,
    StatsSampleAnswer,
    cache_metrics,
    client,
    client_details,
    cluster,
)
from headrace_gateway.http.routes import Nothing, Raw, Routes, text_answer
from headrace_gateway.json_api.errors import Missing, Rejected
from headrace_gateway.observability.statistics_history import INTERVAL_SECONDS, StatisticsSample

routes = Routes()

_TEXT: Final = Raw("text/plain", {"type": "string"})
_ARCHIVE: Final = Raw("application/zip", {"type": "string", "format": "binary"})
_COMPRESSIONS: Final = {"Stored": 1, "Deflated": 2, "Bzip2": 3, "Zstd": 4, "Lzma": 5, "Xz": 6}
_KINDS: Final = {
    "FilesystemOverview": 1,
    "ProcessList": 2,
    "ResourceUsage": 3,
    "Test": 4,
    "ServerLogs": 5,
    "ServerConfig": 6,
    "All": 100,
}


@routes.add("GET", "/", tag="system", answer=_TEXT, is_public=True)
async def root(call: Call[Nothing, Nothing]) -> web.Response:
    """Name of the API; a browser, which asks for `text/html`, gets the console."""
    # Existing clients and probes expect this text.
    return call.services.console.page(call.request) or text_answer("Iggy API")


@routes.add("GET", "/health", tag="system", answer=_TEXT, errors=(503,), is_public=True)
async def get_health(call: Call[Nothing, Nothing]) -> web.Response:
    """Readiness of this gateway, for load balancers. Needs no login.

    If partition nodes are unreachable, the answer contains their number and the number of their partitions: other
    gateways cannot reach them either. Their names are in the metrics and in each topic.
    """
    unready = call.services.supervision.unready()
    if unready is not None:
        raise Rejected(503, f"Not ready: {unready}.")
    absences = call.services.supervision.absences()
    return text_answer("ready" if absences is None else f"ready; {absences}")


@routes.add("GET", "/live", tag="system", answer=_TEXT, is_public=True)
async def get_liveness(call: Call[Nothing, Nothing]) -> web.Response:  # noqa: ARG001 - it is answered: that is all
    """Liveness of the process: for supervisors that restart it."""
    return text_answer("live")


@routes.add("GET", "/ping", tag="system", answer=_TEXT, is_public=True)
async def ping(call: Call[Nothing, Nothing]) -> web.Response:  # noqa: ARG001 - the same for everybody
    """Answer, to show that the server is alive."""
    return text_answer("pong")


@routes.add("GET", "/stats", tag="system", query=SizesOnly, answer=StatsAnswer, errors=(403,))
async def get_stats(call: Call[SizesOnly, Nothing]) -> StatsAnswer:
    """Statistics of the server, its process and its machine."""
    stats = core.decode_stats(await call.ask(core.encode_get_stats()))
    size = call.size
    return StatsAnswer(
        process_id=stats.process_id,
        cpu_usage=stats.cpu_usage_percent,
        total_cpu_usage=stats.total_cpu_usage_percent,
        memory_usage=size(stats.memory_usage_bytes),
        total_memory=size(stats.total_memory_bytes),
        available_memory=size(stats.available_memory_bytes),
        run_time=stats.run_time_micros,
        start_time=stats.start_time_micros,
        read_bytes=size(stats.read_bytes),
        written_bytes=size(stats.written_bytes),
        messages_size_bytes=size(stats.messages_size_bytes),
        streams_count=stats.streams_count,
        topics_count=stats.topics_count,
        partitions_count=stats.partitions_count,
        segments_count=stats.segments_count,
        messages_count=stats.messages_count,
        clients_count=stats.clients_count,
        consumer_groups_count=stats.consumer_groups_count,
        hostname=stats.hostname,
        os_name=stats.os_name,
        os_version=stats.os_version,
        kernel_version=stats.kernel_version,
        iggy_server_version=stats.server_version,
        iggy_server_semver=stats.server_semver or None,
        cache_metrics=cache_metrics(stats),
        threads_count=stats.threads_count,
        free_disk_space=size(stats.free_disk_space_bytes),
        total_disk_space=size(stats.total_disk_space_bytes),
    )


@routes.add("GET", "/stats/history", tag="system", answer=StatsHistoryAnswer, errors=(403,))
async def get_stats_history(call: Call[Nothing, Nothing]) -> StatsHistoryAnswer:
    """Statistics of the last hour, oldest first, the last ones of now.

    Samples are kept in memory, so they begin with the start of the process.
    """
    # The same command as for the statistics, and so the same permission.
    stats = core.decode_stats(await call.ask(core.encode_get_stats()))
    now = StatisticsSample.of(stats, call.services.clock())
    samples = [*call.services.history.samples, now]
    return StatsHistoryAnswer(
        interval_seconds=INTERVAL_SECONDS,
        samples=[msgspec.convert(sample, StatsSampleAnswer, from_attributes=True) for sample in samples],
    )


@routes.add("GET", "/cluster/metadata", tag="system", answer=ClusterAnswer)
async def get_cluster_metadata(call: Call[Nothing, Nothing]) -> ClusterAnswer:
    """The nodes of the cluster."""
    return cluster(core.decode_cluster(await call.ask(core.encode_get_cluster_metadata())))


@routes.add("GET", "/clients", tag="system", query=Page, answer=list[ClientAnswer], errors=(403,), has_etag=True)
async def get_clients(call: Call[Page, Nothing]) -> web.Response:
    """The connections of clients. Callers of this API have none."""
    connections = core.decode_connections(await call.ask(core.encode_get_clients()))
    answers = sorted((client(connection) for connection in connections), key=lambda found: found.client_id)
    return page(call, answers, lambda found: found.client_id)


@routes.add("GET", "/clients/{client_id}", tag="system", answer=ClientDetails, errors=(400, 403, 404))
async def get_client(call: Call[Nothing, Nothing]) -> ClientDetails:
    """One connection with the consumer groups that it is a member of."""
    client_id = call.number("client_id")
    connection = core.decode_connection(await call.ask(core.encode_get_client(client_id=client_id)))
    if connection is None:
        raise Missing
    return client_details(connection, call.services.member_ids(client_id))


@routes.add("DELETE", "/clients/{client_id}", tag="system", success=204, errors=(400, 403, 404))
async def disconnect_client(call: Call[Nothing, Nothing]) -> None:
    """Close the connection of a client, even during a request. Needs the permission to manage the server."""
    await call.ask(core.encode_disconnect_client(client_id=call.number("client_id")))


@routes.add("POST", "/snapshot", tag="system", body=SnapshotBody, answer=_ARCHIVE, errors=(403,))
async def get_snapshot(call: Call[Nothing, SnapshotBody]) -> web.Response:
    """An archive for support: state of the machine and the process.

    `All` cannot be combined and excludes the test. The archive contains no secrets. Needs the permission to read the
    server.
    """
    compression = _COMPRESSIONS[call.body.compression]
    kinds = list(dict.fromkeys(_KINDS[kind] for kind in call.body.snapshot_types))
    archive = await call.ask(core.encode_get_snapshot(compression=compression, kinds=kinds))
    name = f"iggy_snapshot_{_stamp(call.services.clock())}.zip"
    return web.Response(
        body=archive,
        content_type="application/zip",
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )


def _stamp(micros: int) -> str:
    return datetime.fromtimestamp(micros / 1_000_000, tz=UTC).strftime("%Y%m%d_%H%M%S")


@routes.add("GET", "/cluster", tag="system", answer=ClusterStateAnswer, errors=(403,))
async def get_cluster(call: Call[Nothing, Nothing]) -> ClusterStateAnswer:
    """The cluster as this process sees it: itself, the partition nodes, and the replicas of the metadata service.

    Other gateways are not known here. Needs the permission to read the server.
    """
    await call.may_read_server()
    return cluster_state(await call.services.cluster())


@routes.add("GET", "/settings", tag="system", answer=list[SettingAnswer], errors=(403,), has_etag=True)
async def get_settings(call: Call[Nothing, Nothing]) -> list[SettingAnswer]:
    """The effective settings with their source and meaning, without secrets.

    Needs the permission to read the server.
    """
    await call.may_read_server()
    return [SettingAnswer.of(setting) for setting in call.services.settings()]
