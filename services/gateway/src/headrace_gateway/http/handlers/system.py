"""Server, connections, cluster, diagnostics."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from aiohttp import web

import headrace_core as core
from headrace_gateway.http.call import Call
from headrace_gateway.http.errors import Missing, Rejected
from headrace_gateway.http.lists import page
from headrace_gateway.http.models.catalogue import Page
from headrace_gateway.http.models.system import (
    ClientAnswer,
    ClientDetails,
    ClusterAnswer,
    SizesOnly,
    SnapshotBody,
    StatsAnswer,
    cache_metrics,
    client,
    client_details,
    cluster,
)
from headrace_gateway.http.routes import Nothing, Raw, Routes, text_answer

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
    """Say what this is; a browser, which asks for `text/html`, is given the console."""
    # The words are what existing clients and probes know.
    return call.door.console.page(call.request) or text_answer("Iggy API")


@routes.add("GET", "/health", tag="system", answer=_TEXT, errors=(503,), is_public=True)
async def get_health(call: Call[Nothing, Nothing]) -> web.Response:
    """Whether clients should come here: for balancers, in front of several gateways. No matter of a login.

    Where partition nodes are silent the answer says how many, and how many partitions are on them: other gateways reach
    them no better. Their names are in the metrics, and with each topic.
    """
    unready = call.door.supervision.unready()
    if unready is not None:
        raise Rejected(503, f"Clients should go elsewhere: {unready}.")
    absences = call.door.supervision.absences()
    return text_answer("ready" if absences is None else f"ready; {absences}")


@routes.add("GET", "/live", tag="system", answer=_TEXT, is_public=True)
async def get_liveness(call: Call[Nothing, Nothing]) -> web.Response:  # noqa: ARG001 - it is answered: that is all
    """Whether the process answers at all: for whoever would start it anew."""
    return text_answer("live")


@routes.add("GET", "/ping", tag="system", answer=_TEXT, is_public=True)
async def ping(call: Call[Nothing, Nothing]) -> web.Response:  # noqa: ARG001 - the same for everybody
    """Answer, to show that somebody is there."""
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


@routes.add("GET", "/cluster/metadata", tag="system", answer=ClusterAnswer)
async def get_cluster_metadata(call: Call[Nothing, Nothing]) -> ClusterAnswer:
    """The nodes of the cluster."""
    return cluster(core.decode_cluster(await call.ask(core.encode_get_cluster_metadata())))


@routes.add("GET", "/clients", tag="system", query=Page, answer=list[ClientAnswer], errors=(403,), has_etag=True)
async def get_clients(call: Call[Page, Nothing]) -> web.Response:
    """The connections of clients. Callers of this interface have none."""
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
    return client_details(connection)


@routes.add("DELETE", "/clients/{client_id}", tag="system", success=204, errors=(400, 403, 404))
async def disconnect_client(call: Call[Nothing, Nothing]) -> None:
    """End the connection of a client, whatever it has under way. Needs the right to manage the server."""
    await call.ask(core.encode_disconnect_client(client_id=call.number("client_id")))


@routes.add("POST", "/snapshot", tag="system", body=SnapshotBody, answer=_ARCHIVE, errors=(403,))
async def get_snapshot(call: Call[Nothing, SnapshotBody]) -> web.Response:
    """An archive for support: what the machine and the process look like from the inside.

    `All` stands alone, and leaves the test out. Secrets are not in it. Needs the right to read the server.
    """
    compression = _COMPRESSIONS[call.body.compression]
    kinds = list(dict.fromkeys(_KINDS[kind] for kind in call.body.snapshot_types))
    archive = await call.ask(core.encode_get_snapshot(compression=compression, kinds=kinds))
    name = f"iggy_snapshot_{_stamp(call.door.clock())}.zip"
    return web.Response(
        body=archive,
        content_type="application/zip",
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )


def _stamp(micros: int) -> str:
    return datetime.fromtimestamp(micros / 1_000_000, tz=UTC).strftime("%Y%m%d_%H%M%S")
