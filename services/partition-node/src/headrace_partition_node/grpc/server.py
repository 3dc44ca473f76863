"""The gRPC server: the service, health and reflection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from grpc import aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from headrace_node.grpc.certificates import Certificates
from headrace_node.grpc.unauthenticated import UnauthenticatedCalls, UnauthenticatedInterceptor
from headrace_partition_node.errors import ListenError
from headrace_partition_node.grpc.errors import refuse
from headrace_partition_node.grpc.service import SERVICE, PartitionService
from headrace_settings import Address

_GRACE_SECONDS: Final = 2.0
_CALLS_BESIDE: Final = 2
_KEEPALIVE_MS: Final = 20_000
_HANDSHAKE_MS: Final = 10_000
_IDLE_MS: Final = 300_000
_LOOKAHEAD_BYTES: Final = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of the server."""

    connections_max: int
    calls_max: int
    request_bytes_max: int
    """Maximum size of one request."""


class Served:
    """A running server."""

    def __init__(
        self,
        server: aio.Server,
        healths: health.aio.HealthServicer,
        address: Address,
        certificates: Certificates | None,
    ) -> None:
        self._server = server
        self._healths = healths
        self._certificates = certificates
        self.address: Final = address
        """Address actually bound."""

    async def ready(self) -> None:
        """Report the service as serving."""
        for name in ("", SERVICE.full_name):
            await self._healths.set(name, health_pb2.HealthCheckResponse.SERVING)

    async def reload_certificates(self) -> None:
        """Check for a new certificate now; the result is logged."""
        if self._certificates is not None:
            await self._certificates.look()

    async def stop(self) -> None:
        """Report the service as not serving, refuse further calls, and drain those in progress for a short time."""
        await self._healths.enter_graceful_shutdown()
        await self._server.stop(_GRACE_SECONDS)


@asynccontextmanager
async def serving(
    service: PartitionService, address: Address, certificates: Certificates | None, limits: Limits
) -> AsyncIterator[Served]:
    """Serve for the duration of an ``async with`` block.

    Args:
        service: Handler of the calls.
        address: Address to listen on.
        certificates: Server certificates; None: no TLS.
        limits: Limits of the server.

    Raises:
        ListenError: The address cannot be bound, or the certificate cannot be used.
    """
    options: Sequence[tuple[str, Any]] = (
        # A second process on the same port would silently take half of the calls.
        ("grpc.so_reuseport", 0),
        ("grpc.max_allowed_incoming_connections", limits.connections_max),
        ("grpc.server_handshake_timeout_ms", _HANDSHAKE_MS),
        ("grpc.max_connection_idle_ms", _IDLE_MS),
        ("grpc.max_receive_message_length", limits.request_bytes_max),
        ("grpc.max_concurrent_streams", limits.calls_max),
        # The size of poll responses is limited at the read.
        ("grpc.max_send_message_length", -1),
        # Detects silent peers.
        ("grpc.keepalive_time_ms", _KEEPALIVE_MS),
        ("grpc.keepalive_timeout_ms", _KEEPALIVE_MS),
        ("grpc.http2.max_pings_without_data", 0),
        # Keep the flow-control window fixed: this bounds what is buffered of a request that is not being received yet.
        ("grpc.http2.bdp_probe", 0),
        ("grpc.http2.lookahead_bytes", _LOOKAHEAD_BYTES),
    )
    # Calls without a ticket, and health checks, are answered at once: they take no slot of the call limit.
    interceptors = (
        UnauthenticatedInterceptor(UnauthenticatedCalls(), (health.SERVICE_NAME, reflection.SERVICE_NAME), refuse),
    )
    server = aio.server(
        interceptors=interceptors, options=options, maximum_concurrent_rpcs=_CALLS_BESIDE * limits.calls_max
    )
    server.add_generic_rpc_handlers((service.handlers(),))
    healths = health.aio.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(healths, server)
    reflection.enable_server_reflection((SERVICE.full_name, health.SERVICE_NAME, reflection.SERVICE_NAME), server)
    await healths.set("", health_pb2.HealthCheckResponse.NOT_SERVING)
    await healths.set(SERVICE.full_name, health_pb2.HealthCheckResponse.NOT_SERVING)
    bound = await asyncio.to_thread(_bind, server, address, certificates)
    await server.start()
    served = Served(server, healths, bound, certificates)
    try:
        yield served
    finally:
        await served.stop()


def _bind(server: aio.Server, address: Address, certificates: Certificates | None) -> Address:
    try:
        if certificates is None:
            port = server.add_insecure_port(str(address))
        else:
            port = server.add_secure_port(str(address), certificates.credentials())
    except (RuntimeError, OSError, ValueError) as error:
        raise ListenError(f"gRPC cannot be served on {address}: {error}") from error
    if port == 0:
        raise ListenError(f"gRPC cannot be served on {address}: the address cannot be bound")
    return address.with_port(port)
