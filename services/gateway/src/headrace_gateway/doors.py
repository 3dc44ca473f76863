"""The doors of one process, native and not: taken before its node starts, opened when that listens."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from prometheus_client.registry import Collector

from headrace_gateway.config import GatewayConfig
from headrace_gateway.control_plane import ControlPlane
from headrace_gateway.door_config import GrpcTlsConfig
from headrace_gateway.edge_document import edge_document
from headrace_gateway.grpc import server as grpc
from headrace_gateway.http import server as http
from headrace_gateway.http.supervision import UNSUPERVISED, Supervision
from headrace_gateway.ports import Topics
from headrace_gateway.proxies import Proxies
from headrace_gateway.recent_logs import RecentLogs
from headrace_settings import Address, Duration, ShownSetting
from headrace_shards import Front, NativeNode, Node
from headrace_shards.edge import Edge, NativeEdge
from headrace_shards.grpc_certificates import CertificateFiles, Certificates
from headrace_shards.metrics import NodeCollector
from headrace_shards.sessions import Sessions
from headrace_shards.tracing import recorded

ConfigT = TypeVar("ConfigT", bound=GatewayConfig)


class TracedNode(NativeNode, Protocol):
    """`headrace_core.Node`, with what it records of requests."""

    def take_traces(self) -> Sequence[tuple[Any, ...]]:
        """What was recorded since the last call."""


NativeT = TypeVar("NativeT", bound=TracedNode)


@dataclass(frozen=True, slots=True)
class Opened(Generic[ConfigT]):
    """Doors that clients can come in by."""

    config: ConfigT
    """With the addresses really bound."""
    certificates: Certificates | None
    """Of the doors that are not native."""


class Doors(Generic[ConfigT, NativeT]):
    """All doors of a process."""

    def __init__(self, config: ConfigT, edge: Edge[NativeT], listener: socket.socket | None) -> None:
        """Use `taken`."""
        self.config = config
        self.edge = edge
        self._listener = listener

    def front(self, gateway_id: int) -> Front:
        """What the native node is told about its doors and those in front of it."""
        config = self.config
        # A port on which everything is encrypted is the edge's; the node tells clients where it is.
        encrypted = {name: Address.parse(address) for name, address in self.edge.addresses.items()}
        return Front(
            tcp_address=config.tcp.address if config.tcp.enabled and "tcp" not in encrypted else None,
            websocket_address=(
                config.websocket.address if config.websocket.enabled and "websocket" not in encrypted else None
            ),
            websocket_frame_size_max=config.websocket.max_frame_size,
            websocket_message_size_max=config.websocket.max_message_size,
            websocket_handshake_timeout=config.websocket.handshake_timeout,
            encrypted=encrypted,
            connections_max=config.tcp.max_connections,
            login_timeout=config.tcp.login_timeout,
            proxies=config.proxy.networks,
            request_size_max=config.tcp.max_request_size,
            response_size_max=config.tcp.max_response_size,
            heartbeat_interval=config.heartbeat.interval if config.heartbeat.enabled else Duration(0),
            wait_max=config.wait.max_time,
            waited_partitions_max=config.wait.max_partitions,
            ticket_lifetime_max=config.ticket.max_lifetime,
            gateway_id=gateway_id,
            tracing=config.tracing.enabled,
            http_port=config.http.address.port if config.http.enabled else 0,
        )

    @asynccontextmanager
    async def opened(
        self,
        native: NativeT,
        node: Node,
        plane: ControlPlane,
        *,
        topics: Topics,
        logs: RecentLogs,
        settings: Callable[[ConfigT], Sequence[ShownSetting]],
        release: str,
        collectors: Sequence[Collector] = (),
        supervision: Supervision = UNSUPERVISED,
    ) -> AsyncIterator[Opened[ConfigT]]:
        """Let clients in for the length of an ``async with`` block; the node listens already.

        Args:
            native: The native node.
            node: The same on the event loop.
            plane: What answers that the node does not.
            topics: Knows which there are, and where.
            logs: The newest records.
            settings: Lists those in force.
            release: Of the server.
            collectors: Tell about other parts of the process when metrics are asked for.
            supervision: By those who are no users.

        Raises:
            ListenError: gRPC cannot be served where the settings say.
            CertificateError: A certificate of gRPC is not what it should be.
            HttpStartError: A certificate of HTTP is not what it should be.
        """
        config = self.config
        async with AsyncExitStack() as stack:
            tracing = await stack.enter_async_context(
                recorded(config.tracing, native.take_traces, release=release, sample_ratio=config.tracing.sample_ratio)
            )
            proxies = Proxies(config.proxy)
            sessions = await stack.enter_async_context(Sessions(node.open_session))
            certificates = await self._certificates(stack)
            bound = config
            if config.grpc.enabled:
                address = await stack.enter_async_context(
                    grpc.serving(
                        config.grpc,
                        certificates=certificates,
                        sessions=sessions,
                        logins=plane.logins,
                        tokens=plane.tokens,
                        topics=topics,
                        proxies=proxies,
                        tracing=tracing,
                    )
                )
                bound = bound.model_copy(update={"grpc": config.grpc.model_copy(update={"address": address})})
            bound = _with_bound_addresses(bound, node, self.edge.addresses)
            if self._listener is not None:
                door = http.serving(
                    config.http,
                    config.push,
                    self._listener,
                    sessions=sessions,
                    logins=plane.logins,
                    tokens=plane.tokens,
                    logs=logs,
                    settings=lambda: settings(bound),
                    collectors=(
                        NodeCollector(lambda: node.statistics() | {"doors": self.edge.statistics()}),
                        *collectors,
                    ),
                    tracing=tracing,
                    supervision=supervision,
                    proxies=proxies,
                )
                await stack.enter_async_context(door)
            await self.edge.open(native)
            stack.callback(self.edge.close_doors)
            yield Opened(bound, certificates)

    async def _certificates(self, stack: AsyncExitStack) -> Certificates | None:
        config = self.config
        if not (config.grpc.enabled and config.grpc.tls.enabled):
            return None
        certificates = Certificates(_certificate_files(config.grpc.tls), lambda: datetime.now(UTC))
        await stack.enter_async_context(certificates.watched(config.edge.certificate_check_interval.seconds))
        return certificates


def _certificate_files(tls: GrpcTlsConfig) -> CertificateFiles:
    def path(name: str | None) -> Path | None:
        return Path(name) if name is not None else None

    return CertificateFiles(
        door="grpc.tls",
        chain=path(tls.cert_file),
        key=path(tls.key_file),
        client_authorities=path(tls.client_ca_file) if tls.client_certificates == "required" else None,
        self_signed=tls.self_signed,
    )


@asynccontextmanager
async def taken(
    config: ConfigT, make_edge: Callable[[str], NativeEdge[NativeT]], links: Mapping[str, Any] | None = None
) -> AsyncIterator[Doors[ConfigT, NativeT]]:
    """Take the addresses of the doors that the node itself does not bind, for the length of an ``async with`` block.

    It encloses the life of the node: its goodbye goes through the doors.

    Args:
        config: Settings.
        make_edge: `headrace_core.Edge`.
        links: How connections with partition nodes are encrypted; None: they are not.

    Raises:
        HttpStartError: Somebody else has the address of HTTP.
        Exception: What the native edge refuses the start with.
    """
    async with AsyncExitStack() as stack:
        # Bound before the node starts, which tells clients where it is; served after the node listens.
        listener = stack.enter_context(http.bind(config.http.address)) if config.http.enabled else None
        if listener is not None:
            address = config.http.address.with_port(listener.getsockname()[1])
            config = config.model_copy(update={"http": config.http.model_copy(update={"address": address})})
        native = make_edge(edge_document(config, links))
        edge = Edge(native)
        stack.push_async_callback(edge.stop)
        yield Doors(config, edge, listener)


def _with_bound_addresses(config: ConfigT, node: Node, encrypted: dict[str, str]) -> ConfigT:
    bound = {"tcp": node.tcp_address, "websocket": node.websocket_address} | encrypted
    sections = {
        name: getattr(config, name).model_copy(update={"address": Address.parse(address)})
        for name, address in bound.items()
        if address
    }
    return config.model_copy(update=sections)
