"""Interface of the native module's node, and the document that configures it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, Protocol, TypeAlias

from headrace_node.config import ShardsConfig
from headrace_node.events import EventSource
from headrace_settings import Address, Duration, Secret, Size

Hosting: TypeAlias = Literal["everything", "placed", "nothing"]
"""Hosted partitions: all of them, those that the catalog assigns to the node of this name, or none."""


class NativeNode(EventSource, Protocol):
    """Interface of `headrace_core.Node`: threads, sockets and files of a node. Methods are thread-safe."""

    def identify_catalog(self, identity: str) -> None:
        """Set the identity of the catalogs that will be published, as 32 hexadecimal digits; before `start`."""

    def publish_snapshot(self, snapshot: bytes) -> int:
        """Replace the catalog by an encoded `headrace.catalog.v1.Snapshot`; returns its version."""

    def publish_update(self, update: bytes) -> int:
        """Apply an encoded `headrace.catalog.v1.Update` with the next version; returns that version."""

    def pass_stage_horizon(self, horizon_micros: int) -> None:
        """Report the time of the metadata service up to which the last published catalog has all changes."""

    def start(self) -> dict[str, str]:
        """Bind, start the threads, open the partitions; returns the driver and the bound addresses."""

    def recovery(self) -> tuple[int, int]:
        """Number of partitions, and the number of those that still recover."""

    def failures(self) -> list[tuple[str, str]]:
        """Partitions that closed themselves after a failure: `stream/topic/partition` and the reason."""

    def contacts(self) -> list[tuple[int, int, bool]]:
        """Runs of partition nodes that were tried: id of the node, incarnation, and whether it is reached."""

    def listen(self) -> None:
        """Start to accept connections."""

    def open_session(self, user_id: int, address: str | None = None, interface: int = 0) -> int:
        """Connect to the node, logged in as a user; returns the descriptor of a socket that the caller owns."""

    def issuer_may(self, issuer: tuple[int, int, int], topic: tuple[int, int], read: bool, write: bool) -> bool:
        """Return whether the ticket's issuer still has this access to a topic."""

    def fileno(self) -> int:
        """Descriptor that is readable while control requests wait."""

    def take_requests(self) -> list[tuple[int, bytes]]:
        """Take the waiting requests, oldest first: id and encoded `headrace.control.v1.Request`."""

    def reply(self, request_id: int, reply: bytes) -> None:
        """Answer one request with an encoded `headrace.control.v1.Reply`; a second answer is ignored."""

    def stats_json(self) -> str:
        """Counters as JSON."""

    def take_traces(self) -> Sequence[tuple[Any, ...]]:
        """Return the trace records collected since the last call."""

    def stop(self, timeout_seconds: float) -> bool:
        """Refuse new work, answer requests in flight, flush, end the threads; return whether that was in time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """Settings of a gateway's links to partition nodes."""

    connect_timeout: Duration
    """Timeout for connecting."""
    unsent_timeout: Duration
    """Time that unsent requests wait for a node that cannot be reached."""
    silence_max: Duration
    """Time without any received byte, while answers are due, after which a link is closed."""
    in_flight_max: Size
    """Maximum number of bytes in flight on one link."""


LINKS: Final = Links(
    connect_timeout=Duration.parse("3 s"),
    unsent_timeout=Duration.parse("15 s"),
    silence_max=Duration.parse("30 s"),
    in_flight_max=Size.parse("16 MiB"),
)
NO_SECRET: Final = Secret("")
LOGIN_TIMEOUT: Final = Duration.parse("10 s")
TICKET_LIFETIME_MAX: Final = Duration.parse("1 day")


@dataclass(frozen=True, slots=True, kw_only=True)
class Front:
    """Settings of the binary protocol's listeners, which run on the shard threads."""

    tcp_address: Address | None
    """Address of the TCP listener; None: no listener."""
    websocket_address: Address | None
    """Address of the WebSocket listener; None: no listener."""
    websocket_frame_size_max: Size
    """Maximum size of one frame from a client; a larger one closes its connection."""
    websocket_message_size_max: Size
    """Maximum size of one message from a client; a larger one closes its connection."""
    websocket_handshake_timeout: Duration
    """Time after which a client that has not requested the upgrade is disconnected."""
    websocket_allowed_origins: Sequence[str] = ()
    """Origins of the pages that may connect over WebSocket; any, if the first is `*`."""
    encrypted: Mapping[str, Address]
    """Addresses of the encrypted listeners, by transport (`tcp`, `websocket`, `quic`), which accept clients in place of
    the node's own.
    """
    connections_max: int
    """Maximum number of connections of the whole process; one more is refused."""
    request_size_max: Size
    """Maximum payload of one `SendMessages`; a larger one is skipped and refused."""
    response_size_max: Size
    """Maximum size of the messages of one poll."""
    heartbeat_interval: Duration
    """Heartbeat interval: a client silent for 1.2 times as long is disconnected; zero: never."""
    member_timeout: Duration
    """Time of silence after which a client that has asked for its membership leaves its groups."""
    wait_max: Duration
    """Maximum time that one request waits for messages."""
    waited_partitions_max: int
    """Maximum number of partitions that all connections together wait for or watch; one more is refused."""
    gateway_id: int
    """Identifier of this run of the process among all gateways."""
    tracing: bool = False
    """True if requests that carry a trace context produce trace records."""
    http_port: int = 0
    """Port of the HTTP API that is reported to clients; zero: none."""
    tcp_advertised: Address | None = None
    """Address of the binary protocol that is advertised to clients; None: the listener's address."""
    hosting: Hosting = "everything"
    cluster_name: str = "single-node"
    """Cluster name that is reported to clients."""
    node_name: str = "iggy-node"
    """Node name that is reported to clients, and under which a partition node is registered."""
    cluster_secret: Secret = NO_SECRET
    """Secret shared by the services of the cluster: the key of their tickets is derived from it and the cluster's name.
    """
    cluster_accepted_secret: Secret = NO_SECRET
    """Second secret whose tickets are also accepted, for the time of a secret's rotation."""
    ticket_lifetime_max: Duration = TICKET_LIFETIME_MAX
    """Maximum lifetime of a ticket that a user requests; longer ones are shortened."""
    links: Links = LINKS
    """Settings of the links to partition nodes."""
    login_timeout: Duration = LOGIN_TIMEOUT
    """Time after which a client that has not logged in is disconnected; zero: never."""
    proxies: tuple[tuple[str, int], ...] = ()
    """Networks of load balancers whose PROXY headers state the client's address, each with its prefix length."""


def native_document(config: ShardsConfig, front: Front, data_path: Path) -> str:
    """Build the JSON document for `headrace_core.Node`: plain numbers with their units in the names.

    Args:
        config: Settings of the shards.
        front: Settings of the listeners.
        data_path: The data directory that `system.path` names, made absolute by the holder of its lock.
    """
    saver, partition = config.message_saver, config.system.partition
    cleaner = config.data_maintenance.messages
    encrypted = front.encrypted
    advertised = front.tcp_advertised or encrypted.get("tcp")
    return json.dumps(
        {
            "data_path": str(data_path),
            "tcp_address": str(front.tcp_address) if front.tcp_address else None,
            "websocket_address": str(front.websocket_address) if front.websocket_address else None,
            "websocket_frame_bytes_max": front.websocket_frame_size_max.bytes,
            "websocket_message_bytes_max": front.websocket_message_size_max.bytes,
            "websocket_handshake_timeout_micros": front.websocket_handshake_timeout.micros,
            "websocket_allowed_origins": list(front.websocket_allowed_origins),
            "tcp_advertised_address": str(advertised) if advertised is not None else None,
            "websocket_port": encrypted["websocket"].port if "websocket" in encrypted else 0,
            "quic_port": encrypted["quic"].port if "quic" in encrypted else 0,
            "cpu_allocation": config.system.sharding.cpu_allocation,
            "driver": config.runtime.driver,
            "durability": config.durability,
            "memory_pool_bytes": config.system.memory_pool.size.bytes,
            "memory_pool_idle_micros": config.system.memory_pool.idle_time.micros,
            "segment_size_bytes": config.system.segment.size.bytes,
            "index_caching": config.system.segment.cache_indexes,
            "flush_messages": partition.messages_required_to_save,
            "flush_bytes": partition.size_of_messages_required_to_save.bytes,
            "flush_interval_micros": saver.interval.micros,
            "sync_interval_micros": saver.sync_interval.micros if saver.enforce_fsync else 0,
            "sync_bytes": saver.sync_size.bytes if saver.enforce_fsync else 0,
            "cleaner_interval_micros": cleaner.interval.micros if cleaner.cleaner_enabled else 0,
            "cleaner_keeps_unread": cleaner.keep_unread,
            "scrub_bytes_per_second": config.system.scrub.rate.bytes,
            "scrub_interval_micros": config.system.scrub.interval.micros,
            "tail_cache_bytes": partition.tail_cache_size.bytes,
            "consumers_max": partition.max_consumers,
            "verified_micros": partition.verified_for.micros,
            "poll_size_bytes_max": front.response_size_max.bytes,
            "connections_max": front.connections_max,
            "send_payload_bytes_max": front.request_size_max.bytes,
            "gateway_id": front.gateway_id,
            "tracing": front.tracing,
            "http_port": front.http_port,
            "hosting": front.hosting,
            "cluster_name": front.cluster_name,
            "node_name": front.node_name,
            "cluster_secret": front.cluster_secret.reveal(),
            "cluster_accepted_secret": front.cluster_accepted_secret.reveal(),
            "ticket_lifetime_micros_max": front.ticket_lifetime_max.micros,
            "link_connect_timeout_micros": front.links.connect_timeout.micros,
            "link_timeout_micros": front.links.unsent_timeout.micros,
            "link_silence_micros_max": front.links.silence_max.micros,
            "link_in_flight_bytes_max": front.links.in_flight_max.bytes,
            "heartbeat_interval_micros": front.heartbeat_interval.micros,
            "member_silence_micros_max": front.member_timeout.micros,
            "login_timeout_micros": front.login_timeout.micros,
            "proxies": front.proxies,
            "wait_micros_max": front.wait_max.micros,
            "waited_partitions_max": front.waited_partitions_max,
        }
    )
