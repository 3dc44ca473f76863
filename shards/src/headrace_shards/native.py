"""What the native module offers a node, and the document that configures it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, Protocol, TypeAlias

from headrace_settings import Address, Duration, Secret, Size
from headrace_shards.config import ShardsConfig

Hosting: TypeAlias = Literal["everything", "placed", "nothing"]
"""Which partitions the shards have: all of them, those that the catalogue places on the node of this name, none."""


class NativeNode(Protocol):
    """`headrace_core.Node`: threads, sockets and files of one node. Methods may be called from any thread."""

    def publish_snapshot(self, snapshot: bytes) -> int:
        """Replace the catalogue by an encoded `headrace.catalog.v1.Snapshot`; returns its version."""

    def publish_update(self, update: bytes) -> int:
        """Apply an encoded `headrace.catalog.v1.Update`, whose version is the next; returns it."""

    def pass_stage_horizon(self, horizon_micros: int) -> None:
        """Say up to which time of the metadata service the catalogue published last has all changes."""

    def start(self) -> dict[str, str]:
        """Bind, start the threads, open the partitions; returns what there is to tell about it."""

    def recovery(self) -> tuple[int, int]:
        """Partitions, and how many of them still recover."""

    def failures(self) -> list[tuple[str, str]]:
        """Partitions that closed themselves: `stream/topic/partition` and the reason."""

    def listen(self) -> None:
        """Accept connections from now on."""

    def open_session(self, user_id: int, address: str | None = None, interface: int = 0) -> int:
        """Connect with the node, logged in as a user; returns the descriptor of a socket that the caller owns."""

    def issuer_may(self, issuer: tuple[int, int, int], topic: tuple[int, int], read: bool, write: bool) -> bool:
        """Whether a ticket that a user has made still opens a topic in this way."""

    def fileno(self) -> int:
        """A descriptor that is readable while control requests wait."""

    def take_requests(self) -> list[tuple[int, bytes]]:
        """Every waiting request, oldest first: its id and an encoded `headrace.control.v1.Request`."""

    def reply(self, request_id: int, reply: bytes) -> None:
        """Answer one request with an encoded `headrace.control.v1.Reply`; a second answer is ignored."""

    def stats_json(self) -> str:
        """Counters as JSON."""

    def stop(self, timeout_seconds: float) -> bool:
        """Refuse new work, answer what is in flight, flush, end the threads; whether that was in time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """How a gateway behaves towards partition nodes."""

    connect_timeout: Duration
    """A connection that is not there after so long is given up."""
    patience: Duration
    """What was not sent waits so long for a node that cannot be reached."""
    silence_max: Duration
    """A link on which answers are due and nothing is heard for so long is given up."""
    in_flight_max: Size
    """What may be on its way over one link."""


LINKS: Final = Links(
    connect_timeout=Duration.parse("3 s"),
    patience=Duration.parse("15 s"),
    silence_max=Duration.parse("30 s"),
    in_flight_max=Size.parse("16 MiB"),
)
NO_SECRET: Final = Secret("")
LOGIN_TIMEOUT: Final = Duration.parse("10 s")
TICKET_LIFETIME_MAX: Final = Duration.parse("1 day")


@dataclass(frozen=True, slots=True, kw_only=True)
class Front:
    """The binary front that runs on the shard threads."""

    tcp_address: Address | None
    """Where to listen for the classic protocol; None: nowhere."""
    websocket_address: Address | None
    """Where to listen for the same in the messages of a WebSocket; None: nowhere."""
    websocket_frame_size_max: Size
    """One frame of a client; a larger one closes its connection."""
    websocket_message_size_max: Size
    """One message of a client; a larger one closes its connection."""
    websocket_handshake_timeout: Duration
    """A client that has not asked for the upgrade after so long is disconnected."""
    encrypted: Mapping[str, Address]
    """Where doors in front of the node listen for clients, in place of it: per transport (`tcp`, `websocket`,
    `quic`)."""
    connections_max: int
    """Of the whole process; one more is refused."""
    request_size_max: Size
    """Payload of one `SendMessages`; a larger one is skipped and refused."""
    response_size_max: Size
    """Messages of one poll."""
    heartbeat_interval: Duration
    """A client silent for 1.2 times as long is dropped; zero: never."""
    wait_max: Duration
    """Of one request that waits for messages."""
    waited_partitions_max: int
    """Waited for or watched, by all connections together; one more is refused."""
    gateway_id: int
    """Of this run of the process, among all gateways."""
    tracing: bool = False
    """Whether requests that carry the context of a trace leave one."""
    http_port: int = 0
    """Where clients are told to find the HTTP interface; zero: nowhere."""
    tcp_advertised: Address | None = None
    """Where clients are told to find the classic protocol; None: where it listens."""
    hosting: Hosting = "everything"
    cluster_name: str = "single-node"
    """As clients see it."""
    node_name: str = "iggy-node"
    """As clients see it, and under which a partition node is registered."""
    cluster_secret: Secret = NO_SECRET
    """What the services of the cluster share: with its name it makes the key of their tickets."""
    cluster_accepted_secret: Secret = NO_SECRET
    """Another one, whose tickets are accepted while it is changed."""
    ticket_lifetime_max: Duration = TICKET_LIFETIME_MAX
    """Of one that a user asks for; it is cut short."""
    links: Links = LINKS
    """With partition nodes."""
    login_timeout: Duration = LOGIN_TIMEOUT
    """A client that has not logged in after so long is dropped; zero: never."""
    proxies: tuple[tuple[str, int], ...] = ()
    """Networks of balancers that say where a connection comes from, each with how many of its bits count."""


def native_document(config: ShardsConfig, front: Front, data_path: Path) -> str:
    """The JSON document that `headrace_core.Node` takes: plain numbers with their units in the names.

    Args:
        config: What the node is told.
        front: What its front is told.
        data_path: The data folder that `system.path` names, made absolute by whoever holds its lock.
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
            "link_patience_micros": front.links.patience.micros,
            "link_silence_micros_max": front.links.silence_max.micros,
            "link_in_flight_bytes_max": front.links.in_flight_max.bytes,
            "heartbeat_interval_micros": front.heartbeat_interval.micros,
            "login_timeout_micros": front.login_timeout.micros,
            "proxies": front.proxies,
            "wait_micros_max": front.wait_max.micros,
            "waited_partitions_max": front.waited_partitions_max,
        }
    )
