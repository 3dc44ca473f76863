"""The partition node process: the shards with the partitions placed on this node."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, Final, Protocol

from headrace_chassis import admin_http
from headrace_chassis.cluster_secrets import metrics_authorizations
from headrace_chassis.grpc.memory import Pool
from headrace_chassis.grpc.server import Served
from headrace_chassis.lifecycle import Lifecycle
from headrace_chassis.shares import Shares
from headrace_metadata_client import (
    CatalogWatch,
    Connections,
    Reads,
    Session,
    connected,
)
from headrace_node import Front, Horizon, NativeNode, Node, Publications, Recovery, ShardEvents, native_document
from headrace_node.connections.sessions import Sessions
from headrace_node.edge import Edge, NativeEdge
from headrace_node.native import NO_SECRET
from headrace_node.tracing import recorded
from headrace_partition_node import data_directory, directory_check
from headrace_partition_node.catalog_follower import Catalog
from headrace_partition_node.config import PartitionNodeConfig
from headrace_partition_node.data_directory import DataDirectory, HighestVersion
from headrace_partition_node.encryption import edge_document
from headrace_partition_node.grpc import listener
from headrace_partition_node.grpc.tickets import TicketKey, Tickets
from headrace_partition_node.metrics import registry
from headrace_partition_node.notices import Control, Notices
from headrace_partition_node.placements import Placements
from headrace_partition_node.reconciler import Reconciler
from headrace_partition_node.registration import Registration
from headrace_partition_node.this_node import ThisNode
from headrace_settings import Address, Duration, Size

# Partition nodes do not serve WebSocket.
_NO_WEBSOCKET: Final = Size(64 * 1024)

RELEASE: Final = version("headrace")


_log = logging.getLogger(__name__)


class MakeTicketKey(Protocol):
    """Constructor of `headrace_core.TicketKey` or a substitute."""

    def __call__(self, secret: str, cluster: str, *, accepted_secret: str) -> TicketKey:
        """Derive a key."""


@dataclass(frozen=True, slots=True)
class NativeFactory:
    """Constructors of native objects."""

    node: Callable[[str], NativeNode]
    """Creates a node from its configuration document."""
    ticket_key: MakeTicketKey
    """Derives a ticket key from the secret and the name of a cluster."""
    edge: Callable[[str], NativeEdge[Any]]
    """Creates an edge from the document of an encrypted binary listener."""


@dataclass(frozen=True, slots=True)
class RunningNode:
    """A node that serves its partitions."""

    config: PartitionNodeConfig
    node: Node
    node_id: int
    binary_address: str
    """Address actually bound."""
    grpc_address: Address
    """Address actually bound."""
    http_address: Address | None
    """Address actually bound."""
    _life: Lifecycle
    _edge: Edge[Any]
    _grpc: Served
    _connections: Connections

    async def reload_certificates(self) -> None:
        """Check for new certificates now; the result is logged."""
        await self._edge.reload_certificates()
        await self._grpc.reload_certificates()
        await self._connections.renew()

    async def until(self, stop: asyncio.Event) -> None:
        """Wait until ``stop`` is set.

        Raises:
            PartitionNodeError: The cluster has fenced this run of the node.
            NodeError: A shard has ended.
            OSError: The data directory cannot be written.
        """
        await self._life.until(stop.wait())

    def log_addresses(self) -> None:
        """Write to the log where this node is reached."""
        _log.info(
            "node %d (%s) serves on %s, gRPC on %s, with %d shards (%s)",
            self.node_id,
            self.config.node.name,
            self.binary_address,
            self.grpc_address,
            self.node.shards_count,
            self.node.driver,
        )


@asynccontextmanager
async def running(config: PartitionNodeConfig, factory: NativeFactory) -> AsyncIterator[RunningNode]:
    """Run a node for the duration of an ``async with`` block; startup waits for the metadata service.

    Raises:
        PartitionNodeError: The node cannot start.
        NodeError: The shards or the data directory cannot be used.
        MetadataClientError: The metadata service does not accept this node.
        OSError: A file or an address cannot be used.
    """
    life = Lifecycle()
    # Contexts in `outer` end after the shards have stopped, because shards report events until then.
    async with AsyncExitStack() as outer, AsyncExitStack() as inner:
        directory = outer.enter_context(
            data_directory.opened(config.system.path, node_name=config.node.name, cluster_name=config.cluster.name)
        )
        highest_version = outer.enter_context(HighestVersion.opened(directory.path))
        connections = await outer.enter_async_context(connected(config.cluster.target))
        commands = await outer.enter_async_context(_session(connections))
        lease = await outer.enter_async_context(_session(connections))
        edge = Edge(factory.edge(edge_document(config)))
        outer.push_async_callback(edge.stop)
        native = factory.node(_document(config, directory, edge.addresses))
        this = _this_node(config, native, connections, highest_version, commands=commands, lease=lease)
        node = this.node
        pages = admin_http.serving(
            config.http.address,
            health=life.health,
            metrics=registry(
                lambda: this.metrics(is_ready=life.state == "running"),
                lambda: node.statistics() | {"listeners": edge.statistics()},
            ),
            authorizations=metrics_authorizations(config.cluster.secrets, config.cluster.name),
        )
        http_address = await outer.enter_async_context(pages)
        await directory_check.check(
            Reads(connections),
            directory,
            node_name=config.node.name,
            highest_version=highest_version.value,
            is_loss_expected=config.node.expect_loss,
        )
        native.identify_catalog(directory.catalog)
        begun = asyncio.Event()
        following = await outer.enter_async_context(life.essential(this.catalog.follow(begun), "catalog"))
        await life.until(begun.wait())

        events = ShardEvents(native, edge)
        # Log the events of the shutdown, after the node has stopped.
        outer.callback(events.log)
        await inner.enter_async_context(node)
        await inner.enter_async_context(recorded(config.tracing, native.take_traces, release=RELEASE))
        # Stop following the catalog before the shards stop.
        inner.push_async_callback(_ended, following)
        await inner.enter_async_context(life.essential(events.watch(), "shard-events"))
        await inner.enter_async_context(life.essential(this.reconciler.run(), "reconciler"))
        await outer.enter_async_context(life.essential(this.notices.run(), "notices"))
        await outer.enter_async_context(life.essential(this.publications.run(), "publications"))
        sessions = await inner.enter_async_context(Sessions(node.open_session))
        tickets = Tickets(_ticket_key(config, factory), this.placements, native.issuer_may)
        grpc = await inner.enter_async_context(
            listener.opened(
                config.grpc,
                config.tls.certificate_files("tls"),
                certificate_check_seconds=config.edge.certificate_check_interval.seconds,
                sessions=sessions,
                tickets=tickets,
                memory=this.memory,
                calls=this.calls,
                poll_bytes_max=config.binary.max_response_size.bytes,
                node=this,
            )
        )
        await asyncio.to_thread(directory.registering, this.registration.incarnation)
        binary_address = edge.addresses.get("binary", node.tcp_address)
        registered = await this.registration.register(
            binary_address=config.binary.advertised or binary_address,
            grpc_address=config.grpc.advertised or str(grpc.address),
            shards_count=node.shards_count,
        )
        await asyncio.to_thread(directory.registered)
        await outer.enter_async_context(life.essential(this.registration.keep(registered), "lease"))

        def recovering(_recovery: Recovery) -> None:
            # Without this check, partitions of a failed shard would appear to recover forever.
            life.check()

        await node.listen(recovering)
        await edge.open(native)
        inner.callback(edge.close_listeners)
        this.reconciler.look()
        await grpc.report(is_ready=True)
        with life.running():
            yield RunningNode(
                config, node, registered.id, binary_address, grpc.address, http_address, life, edge, grpc, connections
            )


def _this_node(
    config: PartitionNodeConfig,
    native: NativeNode,
    connections: Connections,
    highest_version: HighestVersion,
    *,
    commands: Session,
    lease: Session,
) -> ThisNode:
    notices = Notices(commands)
    publications = Publications(commands.propose)
    horizon = Horizon(native.pass_stage_horizon)
    node = Node(native, Control(notices, publications).handle, stop_timeout_seconds=config.node.stop_timeout.seconds)
    placements = Placements(config.node.name)
    watch = CatalogWatch(connections, version_min=highest_version.value)
    catalog = Catalog(watch, node, placements, highest_version, horizon)
    registration = Registration(
        lease, name=config.node.name, lease_seconds=config.node.lease.seconds, known=catalog.known
    )
    return ThisNode(
        name=config.node.name,
        node=node,
        placements=placements,
        catalog=catalog,
        reconciler=Reconciler(node, placements),
        registration=registration,
        notices=notices,
        publications=publications,
        horizon=horizon,
        proposer=commands,
        memory=Pool(config.grpc.max_memory.bytes),
        calls=Shares(config.grpc.max_calls),
    )


def _document(config: PartitionNodeConfig, directory: DataDirectory, encrypted: Mapping[str, str]) -> str:
    binary = encrypted.get("binary")
    front = Front(
        tcp_address=config.binary.address if binary is None else None,
        websocket_address=None,
        websocket_frame_size_max=_NO_WEBSOCKET,
        websocket_message_size_max=_NO_WEBSOCKET,
        websocket_handshake_timeout=Duration.parse("5 s"),
        encrypted={} if binary is None else {"tcp": Address.parse(binary)},
        connections_max=config.binary.max_connections,
        request_size_max=config.binary.max_request_size,
        response_size_max=config.binary.max_response_size,
        heartbeat_interval=Duration(0),
        # Members join at gateways.
        member_timeout=Duration.parse("1 h"),
        wait_max=Duration.parse("1 min"),
        waited_partitions_max=config.binary.max_waits,
        gateway_id=0,
        hosting="placed",
        cluster_name=config.cluster.name,
        cluster_secret=config.cluster.secret or NO_SECRET,
        cluster_accepted_secret=config.cluster.accepted_secret or NO_SECRET,
        node_name=config.node.name,
        tracing=config.tracing.enabled,
    )
    return native_document(config, front, directory.path)


def _ticket_key(config: PartitionNodeConfig, factory: NativeFactory) -> TicketKey:
    cluster = config.cluster
    # Without a secret all addresses are on loopback, and knowledge of the cluster's name suffices to sign tickets.
    secret, accepted = cluster.secret or NO_SECRET, cluster.accepted_secret or NO_SECRET
    return factory.ticket_key(secret.reveal(), cluster.name, accepted_secret=accepted.reveal())


@asynccontextmanager
async def _session(connections: Connections) -> AsyncIterator[Session]:
    session = Session(connections.stubs, connections.metadata)
    try:
        yield session
    finally:
        await session.close()


async def _ended(task: asyncio.Task[Any]) -> None:
    task.cancel()
    await asyncio.wait({task})
