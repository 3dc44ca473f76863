"""The composition root: a metadata replica, the control plane and a partition node in one process."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, NoReturn

import headrace_core
from headrace_chassis.background import background
from headrace_chassis.certificates import Certificates
from headrace_chassis.errors import StartRefused
from headrace_chassis.grpc.server import Served
from headrace_chassis.lifecycle import Lifecycle
from headrace_embedded import catalog_identity, data_directory, pipelines
from headrace_embedded.cluster_state import OwnClusterState
from headrace_embedded.commit_horizon import pass_horizon
from headrace_embedded.config import EmbeddedConfig
from headrace_embedded.errors import EmbeddedError, RootCredentialsError, ShardEnded
from headrace_embedded.reads import DirectReads
from headrace_embedded.root_user import RootCredentials, ensure_root_user
from headrace_gateway.access.passwords import Passwords
from headrace_gateway.access.revocations import RevocationsFile
from headrace_gateway.config import WELL_KNOWN_PASSWORD
from headrace_gateway.control.control_plane import ControlPlane, GatewayIdentity, Metadata
from headrace_gateway.control.topic_defaults import TopicDefaults
from headrace_gateway.listeners.startup import taken
from headrace_gateway.observability.recent_logs import RecentLogs
from headrace_metadata.config import ClusterSettings, ReplicaTlsSettings
from headrace_metadata.errors import MetadataError
from headrace_metadata.metrics import ReplicaCollector
from headrace_metadata.native import ReplicaDescription
from headrace_metadata.replica import Replica
from headrace_node import Horizon, Node, NodeError, Recovery, ShardEvents, native_document
from headrace_node.edge import Edge
from headrace_node.errors import ShardEnded as ShardOfNodeEnded
from headrace_partition_node.errors import PartitionNodeError
from headrace_settings import Address, Loaded, Secret, listed, to_toml

# An embedded server has one gateway: members of any other gateway are left from an earlier run.
_GATEWAY_NAME = "embedded"


@dataclass(frozen=True, slots=True)
class Running:
    """A server that accepts clients."""

    config: EmbeddedConfig
    """Effective settings, with the addresses actually bound."""
    data_path: Path
    driver: str
    driver_reason: str
    """Reason why the driver is not io_uring; empty if it is."""
    shards_count: int
    failures: tuple[tuple[str, str], ...]
    """Partitions that could not be opened, with the reason."""
    root: RootCredentials | None
    """Credentials of the root user, if this start created it."""
    _edge: Edge[headrace_core.Node]
    _certificates: Sequence[Certificates]
    """Certificates of the listeners that are not native."""
    _whole_batches: Served | None
    _replica: Replica
    _life: Lifecycle

    @property
    def version(self) -> str:
        """Version of this release."""
        return version("headrace")

    @property
    def tcp_address(self) -> str:
        """``ip:port`` of the binary protocol, as actually bound; empty if not served."""
        return str(self.config.tcp.address) if self.config.tcp.enabled else ""

    @property
    def grpc_address(self) -> str:
        """``ip:port`` of gRPC, as actually bound; empty if not served."""
        return str(self.config.grpc.address) if self.config.grpc.enabled else ""

    @property
    def pipelines_address(self) -> str:
        """``ip:port`` for raw batches, as actually bound; empty if not served."""
        return str(self.config.pipelines.address) if self.config.pipelines.enabled else ""

    @property
    def websocket_address(self) -> str:
        """``ip:port`` of the binary protocol over WebSocket, as actually bound; empty if not served."""
        return str(self.config.websocket.address) if self.config.websocket.enabled else ""

    @property
    def http_url(self) -> str:
        """URL of the HTTP API, as actually bound; empty if not served."""
        http = self.config.http
        return f"http{'s' if http.tls.enabled else ''}://{http.address}" if http.enabled else ""

    @property
    def quic_address(self) -> str:
        """``ip:port`` (UDP) of the binary protocol over QUIC, as actually bound; empty if not served."""
        return str(self.config.quic.address) if self.config.quic.enabled else ""

    def listener_statistics(self) -> dict[str, Any]:
        """Return the counters of each encrypted listener: connections, handshakes, failures by reason, bytes."""
        return self._edge.statistics()

    async def reload_certificates(self) -> None:
        """Check for new certificates now; the result is logged."""
        await self._edge.reload_certificates()
        for certificates in self._certificates:
            await certificates.look()
        if self._whole_batches is not None:
            await self._whole_batches.reload_certificates()

    async def until(self, stop: asyncio.Event) -> None:
        """Wait until ``stop`` is set.

        Raises:
            EmbeddedError: A component failed in a way that the process should not survive.
        """
        try:
            await self._life.until(stop.wait())
        except MetadataError as error:
            raise EmbeddedError(f"the metadata replica stopped: {error}") from error


@asynccontextmanager
async def running(
    loaded: Loaded[EmbeddedConfig],
    *,
    fresh: bool = False,
    default_root_credentials: bool = False,
    on_recovery: Callable[[Recovery], None] = lambda _: None,
    on_root: Callable[[RootCredentials], None] = lambda _: None,
) -> AsyncIterator[Running]:
    """Run the server for the duration of an ``async with`` block; clients can connect from its beginning.

    Args:
        loaded: The configuration and its origins.
        fresh: Remove the contents of the data directory first.
        default_root_credentials: Give a new root user the well-known name and password, unless others are configured.
        on_recovery: Called some times per second with the number of partitions that still recover.
        on_root: Called with the credentials of the root user if this start creates it. The start may still fail, and
            the next one no longer knows a generated password.

    Raises:
        EmbeddedError: The server cannot start.
    """
    config = loaded.config
    logs = RecentLogs(config.http.console.log_records)
    life = Lifecycle()
    async with AsyncExitStack() as stack:
        stack.enter_context(logs.kept())
        loaded.log_warnings()
        try:
            data_path = stack.enter_context(data_directory.opened(config.system.path, fresh=fresh))
            data_directory.check_metadata(data_path)
            replica = await stack.enter_async_context(await Replica.open(native_replica(config, data_path)))
            await stack.enter_async_context(life.essential(replica.wait_stopped(), "replica"))
            await replica.wait_recovered()
            catalog = await stack.enter_async_context(
                catalog_identity.checked(replica, data_path, is_durable=config.system.state.enforce_fsync)
            )
            hashing = Passwords(config.login.hashing_threads, remembered_seconds=config.login.remembered_for.seconds)
            passwords = await stack.enter_async_context(hashing)
            gateway_id = secrets.randbits(64)
            listeners = await stack.enter_async_context(taken(config, headrace_core.Edge))
            # The ticket key is not shared: tickets are valid for the lifetime of the process.
            front = replace(
                listeners.front(gateway_id),
                cluster_name=config.cluster.name,
                node_name=config.cluster.node_name,
                cluster_secret=Secret(secrets.token_urlsafe(32)),
            )
            native = headrace_core.Node(native_document(listeners.config, front, data_path))
            native.identify_catalog(catalog)
            plane = _control_plane(config, data_path, replica, passwords, gateway_id)
            node = Node(native, plane.control.handle)
            node.publish_snapshot(replica.state.subscribe(node.publish_update, node.publish_snapshot))
            events = ShardEvents(native, listeners.edge)
            # Log the events of the shutdown, after the node has stopped.
            stack.callback(events.log)
            await stack.enter_async_context(node)
            await stack.enter_async_context(life.essential(_watched(events), "shard-events"))
            # Created late, since most starts that fail should leave no user behind. Those after this have `on_root`.
            if default_root_credentials:
                _refuse_beyond_loopback(config)
            root = await ensure_root_user(
                replica, passwords, config.root, use_default=default_root_credentials, on_created=on_root
            )
            await stack.enter_async_context(plane.working())
            passing = pass_horizon(replica, node.stages_count, Horizon(native.pass_stage_horizon))
            await stack.enter_async_context(background(passing, "stage-horizon"))

            def recovering(recovery: Recovery) -> None:
                # Without this check, partitions of a failed shard would appear to recover forever.
                life.check()
                on_recovery(recovery)

            await node.listen(recovering)
            whole_batches = await stack.enter_async_context(
                pipelines.opened(
                    config.pipelines,
                    front,
                    replica.state,
                    node.open_session,
                    native.issuer_may,
                    certificate_check_seconds=config.edge.certificate_check_interval.seconds,
                )
            )
            pipelines_address = whole_batches.address if whole_batches is not None else None
            cluster = OwnClusterState(
                replica,
                node,
                cluster_name=config.cluster.name,
                node_name=config.cluster.node_name,
                release=version("headrace"),
            )
            opened = listeners.opened(
                native,
                node,
                plane,
                topics=pipelines.OwnTopics(replica.state, _advertised(config, pipelines_address)),
                logs=logs,
                settings=lambda bound: listed(bound, origins=loaded.origins),
                cluster=cluster.read,
                release=version("headrace"),
                collectors=(ReplicaCollector(replica.status),),
            )
            listener = await stack.enter_async_context(opened)
        except (
            MetadataError,
            NodeError,
            PartitionNodeError,
            StartRefused,
            headrace_core.CoreError,
            OSError,
        ) as error:
            raise EmbeddedError(str(error)) from error
        bound = _bound(listener.config, pipelines_address)
        data_directory.write_current_config(data_path, to_toml(bound, origins=loaded.origins))
        yield Running(
            config=bound,
            data_path=data_path,
            driver=node.driver,
            driver_reason=node.driver_reason,
            shards_count=node.shards_count,
            failures=tuple(node.failures()),
            root=root,
            _edge=listeners.edge,
            _certificates=listener.certificates,
            _whole_batches=whole_batches,
            _replica=replica,
            _life=life,
        )


def _advertised(config: EmbeddedConfig, address: Address | None) -> str:
    """Return the address for raw batches; empty if not served."""
    return config.pipelines.advertised or str(address) if address is not None else ""


def _bound(config: EmbeddedConfig, address: Address | None) -> EmbeddedConfig:
    if address is None:
        return config
    return config.model_copy(update={"pipelines": config.pipelines.model_copy(update={"address": address})})


async def _watched(events: ShardEvents) -> NoReturn:
    try:
        await events.watch()
    except ShardOfNodeEnded as error:
        raise ShardEnded(str(error)) from error


def _control_plane(
    config: EmbeddedConfig, data_path: Path, replica: Replica, passwords: Passwords, gateway_id: int
) -> ControlPlane:
    topic, segment = config.system.topic, config.system.segment
    reads = DirectReads(replica.state)
    try:
        revocations = RevocationsFile.open(data_path / data_directory.HTTP / "revoked_tokens")
    except ValueError as error:
        raise EmbeddedError(str(error)) from error
    return ControlPlane(
        config,
        TopicDefaults(
            message_expiry_micros=topic.message_expiry.micros,
            max_size_bytes=topic.max_size.bytes,
            segment_size_bytes=segment.size.bytes,
            durability=topic.durability,
        ),
        Metadata(
            proposer=replica,
            credentials=reads,
            transactions=reads,
            accounts=replica.state,
            streams=replica.state,
            members=replica.state,
            revocations=revocations,
        ),
        passwords,
        GatewayIdentity(
            gateway_id=gateway_id, gateway_name=_GATEWAY_NAME, data_directory=data_path, settings=to_toml(config)
        ),
    )


def native_replica(config: EmbeddedConfig, data_path: Path) -> headrace_core.MetadataReplica:
    """Return a single replica: a quorum of one, without peers."""
    description = ReplicaDescription(
        directory=data_path / data_directory.METADATA,
        cluster=ClusterSettings(),
        state=config.system.state,
        tls=ReplicaTlsSettings(),
    )
    return headrace_core.MetadataReplica(description.document())


def _refuse_beyond_loopback(config: EmbeddedConfig) -> None:
    try:
        config.check_root_password(WELL_KNOWN_PASSWORD)
    except ValueError as error:
        raise RootCredentialsError(str(error)) from error
