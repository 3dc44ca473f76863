"""The gRPC server of the process: the service, health, reflection; encryption and the shared secret."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final

from google.protobuf.descriptor import ServiceDescriptor
from grpc import aio

from headrace_chassis import certificates
from headrace_chassis.background import background
from headrace_chassis.grpc import server as grpc
from headrace_chassis.grpc.server import Served
from headrace_metadata.authentication import SharedSecretInterceptor
from headrace_metadata.config import ClusterSettings, ReplicaTlsSettings
from headrace_metadata.replica import Replica
from headrace_metadata.traced_calls import TracedCalls
from headrace_node.tracing import Tracing
from headrace_proto.metadata.v1 import service_pb2
from headrace_proto.metadata.v1.service_pb2_grpc import MetadataServicer, add_MetadataServicer_to_server
from headrace_settings import Address

_SERVICE: Final[ServiceDescriptor] = service_pb2.DESCRIPTOR.services_by_name["Metadata"]
# Each gateway and each node has one connection, with a few calls at a time.
_CALLS_MAX: Final = 16_384
_CONNECTIONS_MAX: Final = 4096
_STREAMS_MAX: Final = 1024
_HANDSHAKE_MS: Final = 10_000
_IDLE_MS: Final = 300_000
_LOOKAHEAD_BYTES: Final = 1024 * 1024
_OPTIONS: Final[Sequence[tuple[str, Any]]] = (
    # A whole catalog is one message.
    ("grpc.max_send_message_length", 256 * 1024 * 1024),
    ("grpc.max_receive_message_length", 16 * 1024 * 1024),
    ("grpc.max_allowed_incoming_connections", _CONNECTIONS_MAX),
    ("grpc.max_concurrent_streams", _STREAMS_MAX),
    ("grpc.server_handshake_timeout_ms", _HANDSHAKE_MS),
    ("grpc.max_connection_idle_ms", _IDLE_MS),
    # Keep the flow-control window fixed: this bounds what is buffered of a request that is not received, because its
    # caller has no secret.
    ("grpc.http2.bdp_probe", 0),
    ("grpc.http2.lookahead_bytes", _LOOKAHEAD_BYTES),
)


@asynccontextmanager
async def serving(
    service: MetadataServicer,
    replica: Replica,
    address: Address,
    cluster: ClusterSettings,
    tls: ReplicaTlsSettings,
    tracing: Tracing | None = None,
) -> AsyncIterator[Served]:
    """Serve for the duration of an ``async with`` block.

    Args:
        service: Service that answers the calls.
        replica: Its replica.
        address: Address to listen on.
        cluster: Settings of the cluster, with the accepted secrets.
        tls: TLS settings.
        tracing: Creates spans of calls, if enabled.

    Raises:
        ListenError: The address cannot be bound.
        CertificateError: A TLS file cannot be read or used.
    """
    interceptors: list[aio.ServerInterceptor] = []
    if cluster.secrets:
        interceptors.append(SharedSecretInterceptor(cluster.secrets, cluster.name))
    if tracing is not None:
        interceptors.append(TracedCalls(tracing))
    async with AsyncExitStack() as stack:
        interval_seconds = tls.certificate_check_interval.seconds
        # Callers authenticate with the token; no client certificates are requested.
        files = tls.certificate_files("tls")
        certificate = await stack.enter_async_context(certificates.watched(files, interval_seconds))
        served = await stack.enter_async_context(
            grpc.serving(
                address,
                lambda server: add_MetadataServicer_to_server(service, server),
                names=(_SERVICE.full_name,),
                certificates=certificate,
                interceptors=interceptors,
                options=_OPTIONS,
                calls_max=_CALLS_MAX,
            )
        )
        roles: asyncio.Queue[str] = asyncio.Queue()
        replica.on_role(roles.put_nowait)
        await stack.enter_async_context(background(_report_health(served, roles), "metadata-health"))
        yield served


async def _report_health(served: Served, roles: asyncio.Queue[str]) -> None:
    """Report the service as ready while this replica is a backup or the primary: it answers or redirects."""
    while True:
        role = await roles.get()
        await served.report(is_ready=role in {"primary", "backup"})
