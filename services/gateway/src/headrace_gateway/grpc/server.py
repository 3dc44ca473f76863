"""The gRPC server: the services, health and reflection."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from types import ModuleType
from typing import Any, Final

from google.protobuf.descriptor import ServiceDescriptor

from headrace_chassis.certificates import Certificates
from headrace_chassis.grpc import server as grpc
from headrace_chassis.grpc.places import Places
from headrace_chassis.grpc.unauthenticated import UnauthenticatedCalls, UnauthenticatedInterceptor
from headrace_gateway.access.logins import Logins
from headrace_gateway.access.proxies import Proxies
from headrace_gateway.access.tokens import Tokens
from headrace_gateway.config import GrpcConfig
from headrace_gateway.grpc.authentication import Bearers
from headrace_gateway.grpc.calls import Calls
from headrace_gateway.grpc.errors import refuse
from headrace_gateway.grpc.memory import Memory
from headrace_gateway.grpc.services.accounts import Accounts
from headrace_gateway.grpc.services.catalog import Catalog
from headrace_gateway.grpc.services.login import Login
from headrace_gateway.grpc.services.messages import Messages
from headrace_gateway.grpc.services.pipelines import Pipelines
from headrace_gateway.grpc.services.subscriptions import Subscriptions
from headrace_gateway.grpc.services.system import System
from headrace_gateway.grpc.streams import Streams
from headrace_gateway.observability.grpc_calls import ObservedCalls
from headrace_gateway.ports import Topics
from headrace_node.connections.sessions import Sessions
from headrace_node.tracing import Tracing
from headrace_proto.gateway.v1 import (
    accounts_pb2,
    catalog_pb2,
    login_pb2,
    messages_pb2,
    pipelines_pb2,
    subscriptions_pb2,
    system_pb2,
)
from headrace_settings import Address

_PUBLIC: Final = {"Login": {"Login", "LoginWithAccessToken"}}
_LOOKAHEAD_BYTES: Final = 256 * 1024
# Allowance for calls that arrived but were not authenticated yet: in total, and for one connection among all others.
_UNKNOWN_CALLS: Final = 2048
_CALLS_OF_A_CONNECTION_MIN: Final = 256


@asynccontextmanager
async def serving(
    config: GrpcConfig,
    *,
    certificates: Certificates | None,
    sessions: Sessions,
    logins: Logins,
    tokens: Tokens,
    topics: Topics,
    proxies: Proxies,
    tracing: Tracing | None = None,
) -> AsyncIterator[Address]:
    """Serve for the duration of an ``async with`` block; yield the address actually bound.

    Args:
        config: Settings.
        certificates: Server certificates; None: no TLS.
        sessions: Sessions that execute commands.
        logins: Checks passwords and access tokens.
        tokens: Issues and checks login tokens.
        topics: Index of topics and their placement.
        proxies: Trusted proxies, which forward the address of their clients.
        tracing: Creates spans of calls, if enabled.

    Raises:
        ListenError: The address cannot be bound.
    """
    keepalive_ms = config.keepalive_interval.micros // 1000
    options: Sequence[tuple[str, Any]] = (
        ("grpc.server_handshake_timeout_ms", config.handshake_timeout.micros // 1000),
        ("grpc.max_connection_idle_ms", config.idle_timeout.micros // 1000),
        ("grpc.max_receive_message_length", config.max_request_size.bytes),
        ("grpc.max_concurrent_streams", max(_CALLS_OF_A_CONNECTION_MIN, config.max_calls // 2)),
        # A consumer whose machine has died must not keep its partitions.
        ("grpc.keepalive_time_ms", keepalive_ms),
        ("grpc.keepalive_timeout_ms", keepalive_ms),
        # Use the same timeout for the library's other pings.
        ("grpc.http2.ping_timeout_ms", keepalive_ms),
        # Send pings even if no data was sent since the last ping.
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.http2.min_ping_interval_without_data_ms", keepalive_ms // 2),
        # Keep the flow-control window fixed: this bounds what is buffered of a request that is not being received yet.
        ("grpc.http2.bdp_probe", 0),
        ("grpc.http2.lookahead_bytes", _LOOKAHEAD_BYTES),
        # The size of poll responses is limited at the read.
        ("grpc.max_send_message_length", -1),
    )
    memory = Memory(config.max_memory.bytes)
    unauthenticated, places = UnauthenticatedCalls(), Places(config.max_connections, "grpc.max_connections")
    calls = Calls(
        sessions,
        Bearers(logins, tokens),
        memory,
        unauthenticated,
        places,
        proxies,
        request_bytes_max=config.max_request_size.bytes,
        count_max=config.max_calls,
    )
    streams = Streams(sessions, count_max=config.max_streams)
    handlers = {
        service.full_name: calls.handler_of(service, methods, _PUBLIC.get(service.name, ()))
        for service, methods in (
            (_service(catalog_pb2), Catalog()),
            (_service(accounts_pb2), Accounts()),
            (_service(messages_pb2), Messages(streams)),
            (_service(pipelines_pb2), Pipelines(streams, topics)),
            (_service(subscriptions_pb2), Subscriptions(streams, memory)),
            (_service(system_pb2), System()),
            (_service(login_pb2), Login(logins, tokens)),
        )
    }
    names = list(handlers)
    library = UnauthenticatedInterceptor(unauthenticated, grpc.PUBLIC_SERVICES, refuse, calls.starts)
    interceptors = (library, ObservedCalls(tracing))
    # Calls are limited after authentication; until then the library limits them with this allowance on top.
    count_max = config.max_calls + _UNKNOWN_CALLS
    async with grpc.serving(
        config.address,
        lambda server: server.add_generic_rpc_handlers(tuple(handlers.values())),
        names=names,
        certificates=certificates,
        interceptors=interceptors,
        options=options,
        calls_max=count_max,
        places=places,
    ) as served:
        await served.report(is_ready=True)
        try:
            yield served.address
        finally:
            await served.drain()
            streams.close()


def _service(file: ModuleType) -> ServiceDescriptor:
    """Return the only service of a ``.proto`` file."""
    services: Collection[ServiceDescriptor] = file.DESCRIPTOR.services_by_name.values()
    (service,) = services
    return service
