"""The composition root: a metadata replica, the control plane and a partition node in one process."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import headrace_core
from headrace.embedded import data_folder
from headrace.embedded.config import EmbeddedConfig
from headrace.embedded.errors import EmbeddedError
from headrace.embedded.root_user import RootCredentials, ensure_root_user
from headrace.embedded.shard_events import ShardEvents
from headrace.embedded.traces import recorded
from headrace_gateway.control import Control
from headrace_gateway.diagnostics import Diagnostics
from headrace_gateway.edge import Edge, edge_document
from headrace_gateway.grpc.certificates import CertificateError, Certificates
from headrace_gateway.grpc.server import ListenError, serving
from headrace_gateway.host_statistics import Host
from headrace_gateway.http import server as http
from headrace_gateway.login_limits import LoginLimits
from headrace_gateway.logins import Logins
from headrace_gateway.memberships import MembershipLimits, Memberships
from headrace_gateway.observability.node_metrics import NodeCollector
from headrace_gateway.observability.tracing import Tracing
from headrace_gateway.passwords import Passwords
from headrace_gateway.ports import wall_clock_micros
from headrace_gateway.recent_logs import RecentLogs
from headrace_gateway.revocations import Revocations
from headrace_gateway.sessions import Sessions
from headrace_gateway.token_cleaner import TokenCleaner
from headrace_gateway.tokens import Tokens
from headrace_gateway.topic_defaults import TopicDefaults
from headrace_metadata.config import ClusterSettings, TlsSettings
from headrace_metadata.errors import MetadataError
from headrace_metadata.metrics import ReplicaCollector
from headrace_metadata.native import ReplicaDescription
from headrace_metadata.replica import Replica
from headrace_partition_node import Front, Node, NodeError, Recovery, native_document
from headrace_settings import Address, Duration, Loaded, listed, to_toml

Outcome = TypeVar("Outcome")

# An embedded server has one gateway: whoever else claims to have members is an earlier run of it.
_GATEWAY_NAME = "embedded"


@dataclass(frozen=True, slots=True)
class Running:
    """A server that accepts clients."""

    config: EmbeddedConfig
    """Effective, with the addresses really bound."""
    data_path: Path
    driver: str
    driver_reason: str
    """Why the driver is not io_uring; empty when it is."""
    shards_count: int
    failures: tuple[tuple[str, str], ...]
    """Partitions that could not be opened, and why."""
    root: RootCredentials | None
    """Of the root user that this start created, if it did."""
    _edge: Edge[headrace_core.Node]
    _certificates: Certificates | None
    """Of the doors that are not native."""
    _replica: Replica
    _watch: asyncio.Task[NoReturn]
    """Logs what the shards tell; ends when one of them has."""

    @property
    def version(self) -> str:
        """Of this release."""
        return version("headrace")

    @property
    def tcp_address(self) -> str:
        """``ip:port`` of the classic binary protocol, really bound; empty when it is not served."""
        return str(self.config.tcp.address) if self.config.tcp.enabled else ""

    @property
    def grpc_address(self) -> str:
        """``ip:port`` of gRPC, really bound; empty when it is not served."""
        return str(self.config.grpc.address) if self.config.grpc.enabled else ""

    @property
    def websocket_address(self) -> str:
        """``ip:port`` of the same over WebSocket, really bound; empty when it is not served."""
        return str(self.config.websocket.address) if self.config.websocket.enabled else ""

    @property
    def http_url(self) -> str:
        """Where the HTTP interface is, really bound; empty when it is not served."""
        http = self.config.http
        return f"http{'s' if http.tls.enabled else ''}://{http.address}" if http.enabled else ""

    @property
    def quic_address(self) -> str:
        """``ip:port`` (UDP) of the same over QUIC, really bound; empty when it is not served."""
        return str(self.config.quic.address) if self.config.quic.enabled else ""

    def door_statistics(self) -> dict[str, Any]:
        """Per encrypted door its counters: connections, handshakes, failures by reason, bytes."""
        return self._edge.statistics()

    async def reload_certificates(self) -> None:
        """Look for new certificates now; what comes of it is logged."""
        await self._edge.reload_certificates()
        if self._certificates is not None:
            await self._certificates.look()

    async def until(self, stop: asyncio.Event) -> None:
        """Wait until somebody sets ``stop``.

        Raises:
            EmbeddedError: A part failed in a way that the process should not survive.
        """
        stopping = asyncio.ensure_future(stop.wait())
        failing = asyncio.ensure_future(self._replica.wait_stopped())
        try:
            await asyncio.wait({stopping, failing, self._watch}, return_when=asyncio.FIRST_COMPLETED)
            if failing.done():
                failing.result()
            if self._watch.done():
                self._watch.result()
        except MetadataError as error:
            raise EmbeddedError(f"the metadata replica stopped: {error}") from error
        finally:
            stopping.cancel()
            failing.cancel()


@asynccontextmanager
async def running(
    loaded: Loaded[EmbeddedConfig],
    *,
    fresh: bool = False,
    default_root_credentials: bool = False,
    on_recovery: Callable[[Recovery], None] = lambda _: None,
) -> AsyncIterator[Running]:
    """Run the server for the length of an ``async with`` block; clients can connect from its beginning on.

    Args:
        loaded: The configuration and its origins.
        fresh: Remove everything in the data folder first.
        default_root_credentials: A new root user has the well-known name and password, unless some are configured.
        on_recovery: Told some times a second how many partitions still recover.

    Raises:
        EmbeddedError: The server cannot start.
    """
    config = loaded.config
    logs = RecentLogs(config.http.console.log_records)
    async with AsyncExitStack() as stack:
        stack.enter_context(logs.kept())
        try:
            data_path = stack.enter_context(data_folder.opened(config.system.path, fresh=fresh))
            replica = await stack.enter_async_context(await Replica.open(_native_replica(config, data_path)))
            await replica.wait_recovered()
            passwords = await stack.enter_async_context(Passwords(config.login.hashing_threads))
            gateway_id = secrets.randbits(64)
            # Bound before the node starts, which tells clients where it is; served after the node listens.
            listener = stack.enter_context(http.bind(config.http.address)) if config.http.enabled else None
            config = _with_bound_http(config, listener)
            native_edge = headrace_core.Edge(edge_document(config))
            edge = Edge(native_edge)
            # After the node has stopped, whose goodbye goes through the doors.
            stack.push_async_callback(edge.stop)
            native = _native_node(config, data_path, gateway_id, edge)
            memberships = _memberships(config, replica, gateway_id)
            logins = _logins(config, replica, passwords)
            node = Node(native, _control(config, data_path, replica, logins, passwords, memberships).handle)
            node.publish_snapshot(replica.state.subscribe(node.publish_update, node.publish_snapshot))
            events = ShardEvents(native, native_edge)
            # After the node has stopped, for what its end was like.
            stack.callback(events.log)
            await stack.enter_async_context(node)
            watch = await stack.enter_async_context(_background(events.watch(), "shard-events"))
            # Not before everything that may refuse the start: a generated password would be lost unseen.
            root = await ensure_root_user(replica, passwords, config.root, use_default=default_root_credentials)
            await memberships.started()
            await stack.enter_async_context(_background(memberships.run(), "memberships"))
            if config.personal_access_token.cleaner.enabled:
                await stack.enter_async_context(_background(_cleaner(config, replica).run(), "token-cleaner"))

            def recovering(recovery: Recovery) -> None:
                # Partitions of a shard that has ended would recover for ever.
                if watch.done():
                    watch.result()
                on_recovery(recovery)

            await node.listen(recovering)
            tracing = await stack.enter_async_context(recorded(config.tracing, native.take_traces, process=os.getpid()))
            sessions = await stack.enter_async_context(Sessions(node.open_session))
            tokens = _tokens(config, data_path, replica)
            certificates = await _certificates(config, stack)
            bound = await _doors(config, stack, certificates, sessions, logins, tokens, tracing)
            if listener is not None:
                door = http.serving(
                    config.http,
                    config.push,
                    listener,
                    sessions=sessions,
                    logins=logins,
                    tokens=tokens,
                    metadata=replica.state,
                    logs=logs,
                    settings=lambda: listed(bound, origins=loaded.origins),
                    collectors=(
                        NodeCollector(lambda: node.statistics() | {"doors": edge.statistics()}),
                        ReplicaCollector(replica.status),
                    ),
                    tracing=tracing,
                )
                await stack.enter_async_context(door)
            await edge.open(native)
            stack.callback(edge.close_doors)
        except (
            MetadataError,
            NodeError,
            ListenError,
            CertificateError,
            http.HttpStartError,
            headrace_core.CoreError,
            OSError,
        ) as error:
            raise EmbeddedError(str(error)) from error
        bound = _with_bound_addresses(bound, node, edge)
        data_folder.write_current_config(data_path, to_toml(bound, origins=loaded.origins))
        yield Running(
            config=bound,
            data_path=data_path,
            driver=node.driver,
            driver_reason=node.driver_reason,
            shards_count=node.shards_count,
            failures=tuple(node.failures()),
            root=root,
            _edge=edge,
            _certificates=certificates,
            _replica=replica,
            _watch=watch,
        )


async def _certificates(config: EmbeddedConfig, stack: AsyncExitStack) -> Certificates | None:
    if not (config.grpc.enabled and config.grpc.tls.enabled):
        return None
    certificates = Certificates(config.grpc.tls, lambda: datetime.now(UTC))
    looking = certificates.run(config.edge.certificate_check_interval.seconds)
    await stack.enter_async_context(_background(looking, "grpc-certificates"))
    return certificates


async def _doors(
    config: EmbeddedConfig,
    stack: AsyncExitStack,
    certificates: Certificates | None,
    sessions: Sessions,
    logins: Logins,
    tokens: Tokens,
    tracing: Tracing | None,
) -> EmbeddedConfig:
    """Open the doors that are not native; returns the configuration with the addresses really bound."""
    if not config.grpc.enabled:
        return config
    grpc = await stack.enter_async_context(
        serving(
            config.grpc,
            certificates=certificates,
            sessions=sessions,
            logins=logins,
            tokens=tokens,
            tracing=tracing,
        )
    )
    return config.model_copy(update={"grpc": config.grpc.model_copy(update={"address": grpc})})


def _cleaner(config: EmbeddedConfig, replica: Replica) -> TokenCleaner:
    interval = config.personal_access_token.cleaner.interval
    return TokenCleaner(proposer=replica, metadata=replica.state, interval_seconds=interval.seconds)


def _logins(config: EmbeddedConfig, replica: Replica, passwords: Passwords) -> Logins:
    limits = _login_limits(config)
    return Logins(metadata=replica.state, passwords=passwords, limits=limits, clock=wall_clock_micros)


def _login_limits(config: EmbeddedConfig) -> LoginLimits:
    return LoginLimits(failures_max=config.login.failures_max, interval_micros=config.login.failures_interval.micros)


def _tokens(config: EmbeddedConfig, data_path: Path, replica: Replica) -> Tokens:
    try:
        revocations = Revocations.open(data_path / data_folder.HTTP / "revoked_tokens")
    except ValueError as error:
        raise EmbeddedError(str(error)) from error
    return Tokens(config.http.jwt, metadata=replica.state, revocations=revocations)


def _memberships(config: EmbeddedConfig, replica: Replica, gateway_id: int) -> Memberships:
    limits = config.consumer_group
    return Memberships(
        proposer=replica,
        reader=replica.state,
        gateway_id=gateway_id,
        gateway_name=_GATEWAY_NAME,
        limits=MembershipLimits(
            revocation_micros=limits.rebalancing_timeout.micros,
            gateway_micros=limits.gateway_timeout.micros,
            check_seconds=limits.rebalancing_check_interval.seconds,
        ),
    )


def _control(
    config: EmbeddedConfig,
    data_path: Path,
    replica: Replica,
    logins: Logins,
    passwords: Passwords,
    memberships: Memberships,
) -> Control:
    host = Host(data_path)
    return Control(
        proposer=replica,
        metadata=replica.state,
        logins=logins,
        passwords=passwords,
        password_limits=_login_limits(config),
        memberships=memberships,
        topic_defaults=TopicDefaults(
            message_expiry_micros=config.system.topic.message_expiry.micros,
            max_size_bytes=config.system.topic.max_size.bytes,
            segment_size_bytes=config.system.segment.size.bytes,
            durability=config.system.topic.durability,
        ),
        tokens_per_user_max=config.personal_access_token.max_tokens_per_user,
        host=host,
        diagnostics=Diagnostics(host=host, data_folder=data_path, log_folder=None, configuration=to_toml(config)),
    )


def _native_replica(config: EmbeddedConfig, data_path: Path) -> headrace_core.MetadataReplica:
    """A replica that is alone: a quorum of one, which no peer has to be asked for."""
    description = ReplicaDescription(
        folder=data_path / data_folder.METADATA, cluster=ClusterSettings(), state=config.system.state, tls=TlsSettings()
    )
    return headrace_core.MetadataReplica(description.document())


def _native_node(
    config: EmbeddedConfig, data_path: Path, gateway_id: int, edge: Edge[headrace_core.Node]
) -> headrace_core.Node:
    # A port on which everything is encrypted is the edge's; the node tells clients where it is.
    encrypted = {name: Address.parse(address) for name, address in edge.addresses.items()}
    front = Front(
        tcp_address=config.tcp.address if config.tcp.enabled and "tcp" not in encrypted else None,
        websocket_address=(
            config.websocket.address if config.websocket.enabled and "websocket" not in encrypted else None
        ),
        websocket_frame_size_max=config.websocket.max_frame_size,
        websocket_message_size_max=config.websocket.max_message_size,
        websocket_handshake_timeout=config.websocket.handshake_timeout,
        encrypted=encrypted,
        connections_max=config.tcp.max_connections,
        request_size_max=config.tcp.max_request_size,
        response_size_max=config.tcp.max_response_size,
        heartbeat_interval=config.heartbeat.interval if config.heartbeat.enabled else Duration(0),
        wait_max=config.wait.max_time,
        waited_partitions_max=config.wait.max_partitions,
        gateway_id=gateway_id,
        tracing=config.tracing.enabled,
        http_port=config.http.address.port if config.http.enabled else 0,
    )
    return headrace_core.Node(native_document(config, front, data_path))


@asynccontextmanager
async def _background(work: Coroutine[None, None, Outcome], name: str) -> AsyncIterator[asyncio.Task[Outcome]]:
    task = asyncio.create_task(work, name=name)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait({task})


def _with_bound_http(config: EmbeddedConfig, listener: socket.socket | None) -> EmbeddedConfig:
    if listener is None:
        return config
    address = config.http.address.with_port(listener.getsockname()[1])
    return config.model_copy(update={"http": config.http.model_copy(update={"address": address})})


def _with_bound_addresses(config: EmbeddedConfig, node: Node, edge: Edge[headrace_core.Node]) -> EmbeddedConfig:
    bound = {"tcp": node.tcp_address, "websocket": node.websocket_address} | edge.addresses
    sections = {
        name: getattr(config, name).model_copy(update={"address": Address.parse(address)})
        for name, address in bound.items()
        if address
    }
    return config.model_copy(update=sections)
