"""The gateway process: listeners of a cluster whose partitions and metadata service are remote."""

from __future__ import annotations

import asyncio
import logging
import secrets
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from headrace_chassis.certificates import Certificates
from headrace_chassis.cluster_secrets import metrics_authorizations
from headrace_chassis.lifecycle import Lifecycle
from headrace_gateway.access.passwords import Passwords
from headrace_gateway.access.root_user import create_root_user
from headrace_gateway.catalog.follower import Catalog
from headrace_gateway.catalog.refresh import CatchingUp
from headrace_gateway.control.control_plane import ControlPlane, GatewayIdentity, Metadata
from headrace_gateway.control.topic_defaults import TopicDefaults
from headrace_gateway.http.admission.supervision import Supervision
from headrace_gateway.listeners.startup import Listeners, taken
from headrace_gateway.observability.recent_logs import RecentLogs
from headrace_gateway.service.cluster_state import RemoteClusterState
from headrace_gateway.service.config import PREFIX, GatewayServiceConfig
from headrace_gateway.service.metrics import ClusterCollector, NodesCollector
from headrace_gateway.service.nodes import NodeConditions
from headrace_gateway.service.remote_metadata import (
    ClusterRevocations,
    RemoteCredentials,
    RemoteNewest,
    RemoteProposer,
    RemoteTransactions,
)
from headrace_metadata_client import CatalogWatch, Connections, SessionPool, connected
from headrace_node import Front, Node, ShardEvents, native_document
from headrace_node.edge import NativeEdge
from headrace_node.native import NO_SECRET, Links
from headrace_proto.cluster_token import login_key
from headrace_settings import Loaded, listed, to_toml

RELEASE: Final = version("headrace")

# Maximum age of the catalog for readiness. The catalog is confirmed every few seconds; beyond this age other gateways
# may know more.
_AGE_SECONDS_MAX: Final = 15.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeFactory:
    """Constructors of native objects, each from its configuration document."""

    node: Callable[[str, Any], Any]
    """The second argument is the edge, which connects to other nodes."""
    edge: Callable[[str], NativeEdge[Any]]


class Readiness:
    """Readiness of this gateway for clients, and of the partition nodes that it can reach."""

    def __init__(self, life: Lifecycle) -> None:
        self._life = life
        self.catalog: Catalog | None = None
        self.nodes: NodeConditions | None = None

    def unready(self) -> str | None:
        """Return the reason why clients should use another gateway; None: ready."""
        if self._life.state != "running" or self.catalog is None:
            return f"the gateway is {self._life.state}"
        age_seconds = self.catalog.age_seconds
        if age_seconds > _AGE_SECONDS_MAX:
            return f"no contact with the metadata service for {age_seconds:.0f} s"
        return None

    def absences(self) -> str | None:
        """Return a description of unreachable nodes, without their names; None: all reachable."""
        if self.nodes is None or not (absent := len(self.nodes.absent())):
            return None
        partitions = sum(len(found.partition_ids) for found in self.nodes.unavailable())
        return f"{absent} of {len(self.nodes.all())} partition nodes are not reached, with {partitions} partitions"


@dataclass(frozen=True, slots=True)
class RunningGateway:
    """A gateway that accepts clients."""

    config: GatewayServiceConfig
    """Settings with the addresses actually bound."""
    driver: str
    shards_count: int
    _life: Lifecycle
    _certificates: Sequence[Certificates]
    _listeners: Listeners[GatewayServiceConfig, Any]
    _connections: Connections

    async def until(self, stop: asyncio.Event) -> None:
        """Wait until ``stop`` is set; then drain for the configured time.

        Raises:
            ShardEnded: A shard has ended.
            MetadataClientError: The metadata service does not accept this gateway.
        """
        await self._life.until(stop.wait())
        self._life.drain()
        await asyncio.sleep(self.config.gateway.drain_time.seconds)

    async def reload_certificates(self) -> None:
        """Check for new certificates now; the result is logged."""
        await self._listeners.edge.reload_certificates()
        await self._connections.renew()
        for certificates in self._certificates:
            await certificates.look()

    def log_addresses(self) -> None:
        """Write to the log where this gateway is reached."""
        _log.info("gateway %s serves %s", self.config.gateway.known_as, _addresses(self.config))


@asynccontextmanager
async def running(loaded: Loaded[GatewayServiceConfig], factory: NativeFactory) -> AsyncIterator[RunningGateway]:
    """Run a gateway for the duration of an ``async with`` block; startup waits for the metadata service.

    Raises:
        NodeError: The shards cannot start.
        MetadataClientError: The metadata service does not accept this gateway.
        RootUserError: The root user cannot be created from the settings.
        StartRefused: A listener cannot be opened.
        OSError: A file or an address cannot be used.
    """
    config = loaded.config
    logs = RecentLogs(config.http.console.log_records)
    life = Lifecycle()
    readiness = Readiness(life)
    async with AsyncExitStack() as stack:
        stack.enter_context(logs.kept())
        if config.audit.enabled and config.audit.directory is None:
            _log.warning("the audit trail will be deleted when this gateway stops: set audit.directory to keep it")
        # The shards store nothing, but require a directory.
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headrace-gateway-")))
        connections = await stack.enter_async_context(connected(config.cluster.target))
        sessions = SessionPool(connections)
        stack.push_async_callback(sessions.close)
        hashing = Passwords(config.login.hashing_threads, remembered_seconds=config.login.remembered_for.seconds)
        passwords = await stack.enter_async_context(hashing)
        catalog = readiness.catalog = Catalog(CatalogWatch(connections))
        listeners = await stack.enter_async_context(taken(config, factory.edge, _encrypted_links(config)))
        gateway_id = secrets.randbits(64)
        document = native_document(config.shards, _front(config, listeners.front(gateway_id)), directory)
        native = factory.node(document, listeners.edge.native)
        metadata = _metadata(connections, sessions, catalog)
        plane = _control_plane(config, metadata, passwords, gateway_id, directory)
        node = Node(native, plane.control.handle)
        await stack.enter_async_context(life.essential(catalog.follow(node), "catalog"))
        await life.until(catalog.begun())
        events = ShardEvents(native, listeners.edge)
        # Log the events of the shutdown, after the node has stopped.
        stack.callback(events.log)
        stack.push_async_callback(plane.members_left)
        await stack.enter_async_context(node)
        await stack.enter_async_context(life.essential(events.watch(), "shard-events"))
        await _ensure_root_user(config, metadata, passwords)
        await stack.enter_async_context(plane.working())
        await node.listen()
        nodes = readiness.nodes = NodeConditions(catalog, node.contacts)
        cluster = RemoteClusterState(
            catalog,
            connections,
            nodes,
            cluster_name=config.cluster.name,
            gateway_name=config.gateway.known_as,
            release=RELEASE,
            unready=readiness.unready,
        )
        opened = listeners.opened(
            native,
            node,
            plane,
            topics=catalog.view,
            logs=logs,
            settings=lambda bound: listed(bound, origins=loaded.origins, prefix=PREFIX),
            cluster=cluster.read,
            release=RELEASE,
            collectors=(ClusterCollector(catalog, sessions, readiness.unready),),
            named=(NodesCollector(nodes),),
            supervision=_supervision(config, readiness),
        )
        listener = await stack.enter_async_context(opened)
        with life.running():
            yield RunningGateway(
                config=listener.config,
                driver=node.driver,
                shards_count=node.shards_count,
                _life=life,
                _certificates=listener.certificates,
                _listeners=listeners,
                _connections=connections,
            )


def _front(config: GatewayServiceConfig, front: Front) -> Front:
    cluster, links = config.cluster, config.links
    return replace(
        front,
        hosting="nothing",
        cluster_name=cluster.name,
        node_name=config.gateway.name or front.node_name,
        cluster_secret=cluster.secret or NO_SECRET,
        cluster_accepted_secret=cluster.accepted_secret or NO_SECRET,
        tcp_advertised=config.gateway.advertised_address or front.tcp_advertised,
        links=Links(
            connect_timeout=links.connect_timeout,
            unsent_timeout=links.unsent_timeout,
            silence_max=links.max_silence,
            in_flight_max=links.max_in_flight,
        ),
    )


def _encrypted_links(config: GatewayServiceConfig) -> dict[str, str | None] | None:
    tls = config.links.tls
    if not tls.enabled:
        return None
    return {
        "authority_file": tls.authority or config.cluster.authority,
        "cert_file": tls.cert_file,
        "key_file": tls.key_file,
        "server_name": tls.server_name,
    }


def _metadata(connections: Connections, sessions: SessionPool, catalog: Catalog) -> Metadata:
    proposer = RemoteProposer(sessions, catalog)
    view = catalog.view
    return Metadata(
        proposer=proposer,
        credentials=RemoteCredentials(connections, catalog),
        transactions=RemoteTransactions(connections),
        accounts=view,
        streams=view,
        members=view,
        revocations=ClusterRevocations(proposer, catalog),
        reach=catalog.reach,
        catch_up=CatchingUp(RemoteNewest(connections, catalog).reach).catch_up,
    )


def _control_plane(
    config: GatewayServiceConfig, metadata: Metadata, passwords: Passwords, gateway_id: int, directory: Path
) -> ControlPlane:
    cluster, topic = config.cluster, config.system.topic
    return ControlPlane(
        config,
        TopicDefaults(
            message_expiry_micros=topic.message_expiry.micros,
            max_size_bytes=topic.max_size.bytes,
            segment_size_bytes=config.system.segment.size.bytes,
            durability=topic.durability,
        ),
        metadata,
        passwords,
        GatewayIdentity(
            gateway_id=gateway_id,
            gateway_name=config.gateway.known_as,
            data_directory=directory,
            settings=to_toml(config),
        ),
        login_keys=[login_key(secret, cluster.name) for secret in cluster.secrets],
    )


async def _ensure_root_user(config: GatewayServiceConfig, metadata: Metadata, passwords: Passwords) -> None:
    root = config.root
    if root.username is None or root.password is None:
        return
    created = await create_root_user(
        proposer=metadata.proposer,
        credentials=metadata.credentials,
        passwords=passwords,
        username=root.username,
        password=root.password.reveal(),
    )
    if created:
        _log.info("the root user %s of the cluster was created", root.username)


def _supervision(config: GatewayServiceConfig, readiness: Readiness) -> Supervision:
    cluster = config.cluster
    return Supervision(
        unready=readiness.unready,
        absences=readiness.absences,
        metrics_authorizations=metrics_authorizations(cluster.secrets, cluster.name),
    )


def _addresses(config: GatewayServiceConfig) -> str:
    listeners = (
        ("tcp", config.tcp.enabled, config.tcp.address),
        ("websocket", config.websocket.enabled, config.websocket.address),
        ("http", config.http.enabled, config.http.address),
        ("grpc", config.grpc.enabled, config.grpc.address),
        ("quic", config.quic.enabled, config.quic.address),
    )
    return ", ".join(f"{name} {address}" for name, is_enabled, address in listeners if is_enabled)
