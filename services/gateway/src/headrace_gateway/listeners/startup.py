"""Listeners of one process, native and Python: bound before the node starts, served once the node listens."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from prometheus_client.registry import Collector

from headrace_chassis.certificates import CertificateFiles, Certificates, watched
from headrace_gateway.access.proxies import Proxies
from headrace_gateway.config import GatewayConfig
from headrace_gateway.control.control_plane import ControlPlane
from headrace_gateway.grpc import server as grpc
from headrace_gateway.http import server as http
from headrace_gateway.http.admission.supervision import UNSUPERVISED, Supervision
from headrace_gateway.listeners.edge_document import edge_document
from headrace_gateway.observability.cluster_state import ReadClusterState
from headrace_gateway.observability.recent_logs import RecentLogs
from headrace_gateway.ports import Topics
from headrace_node import Front, NativeNode, Node
from headrace_node.connections.sessions import Sessions
from headrace_node.edge import Edge, NativeEdge
from headrace_node.metrics import NodeCollector
from headrace_node.tracing import recorded
from headrace_settings import Address, Duration, ShownSetting

ConfigT = TypeVar("ConfigT", bound=GatewayConfig)


NativeT = TypeVar("NativeT", bound=NativeNode)


@dataclass(frozen=True, slots=True)
class Opened(Generic[ConfigT]):
    """Listeners that accept clients."""

    config: ConfigT
    """Settings with the addresses actually bound."""
    certificates: Sequence[Certificates]
    """Certificates of the listeners that are not native."""


class Listeners(Generic[ConfigT, NativeT]):
    """All listeners of a process."""

    def __init__(self, config: ConfigT, edge: Edge[NativeT], listener: socket.socket | None) -> None:
        """Use `taken` instead."""
        self.config = config
        self.edge = edge
        self._listener = listener

    def front(self, gateway_id: int) -> Front:
        """Return the description of the listeners for the native node: its own and those of the edge."""
        config = self.config
        # Encrypted ports belong to the edge; the node reports their addresses to clients.
        encrypted = {name: Address.parse(address) for name, address in self.edge.addresses.items()}
        return Front(
            tcp_address=config.tcp.address if config.tcp.enabled and "tcp" not in encrypted else None,
            websocket_address=(
                config.websocket.address if config.websocket.enabled and "websocket" not in encrypted else None
            ),
            websocket_frame_size_max=config.websocket.max_frame_size,
            websocket_message_size_max=config.websocket.max_message_size,
            websocket_handshake_timeout=config.websocket.handshake_timeout,
            websocket_allowed_origins=config.websocket.allowed_origins,
            encrypted=encrypted,
            connections_max=config.tcp.max_connections,
            login_timeout=config.tcp.login_timeout,
            proxies=config.proxy.networks,
            request_size_max=config.tcp.max_request_size,
            response_size_max=config.tcp.max_response_size,
            heartbeat_interval=config.heartbeat.interval if config.heartbeat.enabled else Duration(0),
            member_timeout=config.consumer_group.member_timeout,
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
        cluster: ReadClusterState,
        release: str,
        collectors: Sequence[Collector] = (),
        named: Sequence[Collector] = (),
        supervision: Supervision = UNSUPERVISED,
    ) -> AsyncIterator[Opened[ConfigT]]:
        """Accept clients for the duration of an ``async with`` block; the node is already listening.

        Args:
            native: The native node.
            node: The same node on the event loop.
            plane: Control plane, which answers requests that the node does not.
            topics: Index of topics and their placement.
            logs: Recent log records.
            settings: Lists the effective settings.
            cluster: Returns the state of the cluster.
            release: Version of the server.
            collectors: Metrics of other parts of the process.
            named: Metrics with names, only for those who may read the server.
            supervision: Access for supervisors that are not users.

        Raises:
            ListenError: The gRPC address cannot be bound.
            CertificateError: A certificate is invalid.
        """
        config = self.config
        async with AsyncExitStack() as stack:
            tracing = await stack.enter_async_context(
                recorded(config.tracing, native.take_traces, release=release, sample_ratio=config.tracing.sample_ratio)
            )
            proxies = Proxies(config.proxy)
            sessions = await stack.enter_async_context(Sessions(node.open_session))
            certificates = await stack.enter_async_context(
                watched(_certificate_files(config), config.edge.certificate_check_interval.seconds)
            )
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
            encrypted: Certificates | None = None
            if self._listener is not None:
                encrypted = await stack.enter_async_context(
                    watched(_http_files(config), config.http.tls.reload_interval.seconds)
                )
                served = http.serving(
                    config.http,
                    config.push,
                    self._listener,
                    certificates=encrypted,
                    sessions=sessions,
                    logins=plane.logins,
                    tokens=plane.tokens,
                    logs=logs,
                    settings=lambda: settings(bound),
                    cluster=cluster,
                    member_ids=plane.memberships.member_ids,
                    collectors=(
                        NodeCollector(lambda: node.statistics() | {"listeners": self.edge.statistics()}),
                        *collectors,
                    ),
                    named=named,
                    tracing=tracing,
                    supervision=supervision,
                    proxies=proxies,
                )
                await stack.enter_async_context(served)
            await self.edge.open(native)
            stack.callback(self.edge.close_listeners)
            yield Opened(bound, [shown for shown in (certificates, encrypted) if shown is not None])


def _http_files(config: GatewayConfig) -> CertificateFiles | None:
    tls = config.http.tls
    return tls.certificate_files("http.tls") if tls.enabled else None


def _certificate_files(config: GatewayConfig) -> CertificateFiles | None:
    tls = config.grpc.tls
    if not (config.grpc.enabled and tls.enabled):
        return None

    def path(name: str | None) -> Path | None:
        return Path(name) if name is not None else None

    return CertificateFiles(
        section="grpc.tls",
        chain=path(tls.cert_file),
        key=path(tls.key_file),
        client_authorities=path(tls.client_ca_file) if tls.client_certificates == "required" else None,
        self_signed=tls.self_signed,
    )


@asynccontextmanager
async def taken(
    config: ConfigT, make_edge: Callable[[str], NativeEdge[NativeT]], links: Mapping[str, Any] | None = None
) -> AsyncIterator[Listeners[ConfigT, NativeT]]:
    """Bind the listeners that the node does not bind itself, for the duration of an ``async with`` block.

    The block encloses the lifetime of the node because the node's last replies are sent through these listeners.

    Args:
        config: Settings.
        make_edge: `headrace_core.Edge`.
        links: Encryption of connections to partition nodes; None: unencrypted.

    Raises:
        ListenError: The HTTP address is in use by another process.
        Exception: Start errors of the native edge.
    """
    async with AsyncExitStack() as stack:
        # Bound before the node starts because the node reports the address to clients; served after the node listens.
        listener = stack.enter_context(http.bind(config.http.address)) if config.http.enabled else None
        if listener is not None:
            address = config.http.address.with_port(listener.getsockname()[1])
            config = config.model_copy(update={"http": config.http.model_copy(update={"address": address})})
        native = make_edge(edge_document(config, links))
        edge = Edge(native)
        stack.push_async_callback(edge.stop)
        yield Listeners(config, edge, listener)


def _with_bound_addresses(config: ConfigT, node: Node, encrypted: dict[str, str]) -> ConfigT:
    bound = {"tcp": node.tcp_address, "websocket": node.websocket_address} | encrypted
    sections = {
        name: getattr(config, name).model_copy(update={"address": Address.parse(address)})
        for name, address in bound.items()
        if address
    }
    return config.model_copy(update=sections)
