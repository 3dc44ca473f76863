"""The gRPC server: the service, health and reflection."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from headrace_chassis.certificates import Certificates
from headrace_chassis.grpc import server as grpc
from headrace_chassis.grpc.server import Served
from headrace_chassis.grpc.unauthenticated import UnauthenticatedCalls, UnauthenticatedInterceptor
from headrace_partition_node.grpc.errors import refuse
from headrace_partition_node.grpc.service import SERVICE, PartitionService
from headrace_settings import Address

_CALLS_BESIDE: Final = 2
_KEEPALIVE_MS: Final = 20_000
_HANDSHAKE_MS: Final = 10_000
_IDLE_MS: Final = 300_000
_LOOKAHEAD_BYTES: Final = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of the server."""

    calls_max: int
    request_bytes_max: int
    """Maximum size of one request."""


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
        ListenError: The address cannot be bound.
    """
    options: Sequence[tuple[str, Any]] = (
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
    library = UnauthenticatedInterceptor(UnauthenticatedCalls(), grpc.PUBLIC_SERVICES, refuse, service.starts)
    async with grpc.serving(
        address,
        lambda server: server.add_generic_rpc_handlers((service.handlers(),)),
        names=(SERVICE.full_name,),
        certificates=certificates,
        interceptors=(library,),
        options=options,
        calls_max=_CALLS_BESIDE * limits.calls_max,
        places=service.places,
    ) as served:
        yield served
