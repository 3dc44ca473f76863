"""Headrace's native core: the data plane of one process, a client and a load generator.

Every call releases the GIL while native code works. Objects refuse to be used after a fork: create them in the process
that uses them.
"""

import datetime
from collections.abc import Callable, Coroutine, Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, Protocol, Self, TypeAlias, final

from typing_extensions import Buffer, CapsuleType, disjoint_base

from headrace_core._protocol import *

__version__: str

build_profile: Literal["dev", "release"]
"""Profile that the module was built in. Wheels of a release are `release`; a checkout runs `dev`, which has assertions
and no optimisation across crates.
"""

class CoreError(Exception):
    """Failure in native code. `args[0]` describes the problem and the remedy."""

class ServerError(CoreError):
    """The server answered a request with an error status."""

    code: int
    """Status code (see `headrace_proto.errors`)."""
    name: str
    """Name of the status."""
    explanation: str | None
    """Text of the server beyond the status: the object that is missing, or the permission that the user lacks."""

class ConnectionLost(CoreError):
    """The connection could not be opened, or broke while a request was in flight."""

class CodecError(CoreError):
    """A value cannot be encoded, or bytes cannot be decoded."""

    defect: Literal["syntax", "shape", "value", "too_large"]
    """Kind of the error: invalid syntax; wrong structure or type; invalid value; larger than the caller's limit."""
    code: int
    """Matching status code (see `headrace_proto.errors`)."""
    field: str | None
    """Path of the field, for example `messages[3].payload`."""
    position: int | None
    """Byte offset in the input, if known."""

class WebSocketError(CoreError):
    """The client of a WebSocket violates the protocol, or a limit."""

    code: int
    """Code with which to close the connection."""

class RecordError(CoreError):
    """Messages of a partition are unexpected or damaged. Earlier messages are taken: see `RecordDecoder`."""

    defect: Literal["truncated", "count", "partition", "offset", "range", "reserved", "checksum", "size"]
    """Kind of the error: bytes end inside a message; fewer or more messages than announced; another partition; not the
    next offset (messages are missing if it is greater); an offset or timestamp beyond 63 bits; a reserved field that is
    not 0; a checksum mismatch; larger than any message.
    """
    offset: int | None
    """Offset of the message according to its header; None if the header is incomplete."""
    byte: int
    """Byte offset in the payload at which the message, or the invalid part, begins."""
    expected_offset: int | None
    """Expected next offset, if the defect is `offset`."""

class RowError(CoreError):
    """A row cannot be encoded as a message. Earlier rows are taken."""

    row: int
    """Index of the row."""
    column: str
    """Name of the column."""

class StartError(CoreError):
    """The node cannot start because of a setting, an address or the data directory."""

_RequestTrace: TypeAlias = tuple[Literal["request"], tuple[int, int], int, int, str | None, int, int, int, int]
"""A traced request at its connection: key, trace id, parent span id, name of the command (None: unknown command), start
time, time at which its answer was ready, status of the answer, bytes of a batch.
"""
_PartitionTrace: TypeAlias = tuple[
    Literal["partition"],
    tuple[int, int],
    int,
    tuple[int, int, int],
    bool,
    tuple[int, int, int, int, int],
    bool,
    int,
]
"""The same request, with the same key, at its partition: owning shard; stream, topic and partition; whether it is a
batch; times of its arrival, of the start of the write, of the end of the write to the file, of the sync to the device,
and of the answer; whether it was successful; number of messages.

Times are microseconds since the Unix epoch, 0 for steps that did not happen before the answer. A key consists of the
numbers of a shard and of a request. Either record may be missing.
"""

@final
class Node:
    """The data plane of a process: shards, their partitions, and the listeners of the binary protocol.

    Order of calls: construct, `publish_snapshot`, `start`, wait until `recovery()[1] == 0`, `listen`, serve control
    requests, `stop`.
    """

    def __new__(cls, config_json: str, edge: Edge | None = None) -> Self:
        """Validate the settings (JSON object, fields of `NodeConfig` in core/crates/runtime/src/config.rs).

        Args:
            config_json: The settings.
            edge: Opens connections to other nodes if its settings have `links`; otherwise they are plain TCP.

        Raises:
            StartError: A setting is unknown or invalid.
        """
    def identify_catalog(self, identity: str) -> None:
        """Set the identity of the catalogs that will be published, as 32 hexadecimal digits; before `start`.

        Directories of partitions that belong to another catalog are not opened.

        Raises:
            StartError: The identity is not a hexadecimal number.
        """
    def publish_snapshot(self, snapshot: bytes) -> int:
        """Publish a complete catalog (`headrace.catalog.v1.Snapshot`); returns its version."""
    def publish_update(self, update: bytes) -> int:
        """Publish the next version of the catalog (`headrace.catalog.v1.Update`); returns its version.

        When this returns, every shard uses the new version.
        """
    def pass_stage_horizon(self, horizon_micros: int) -> None:
        """Report the time of the metadata service up to which the last published catalog has all changes.

        Staged batches that had expired at that time and that the catalog does not name are dropped: no commit can
        contain them any more.

        Args:
            horizon_micros: Microseconds since the Unix epoch.
        """
    def start(self) -> dict[str, str]:
        """Bind the address, start the shard threads and open the partitions of the catalog.

        Returns:
            `driver` (`uring` or `poll`), `driver_reason` (why the ring is not used; empty if it is), `shards`
            (their number), `tcp_address` and `websocket_address` (the bound addresses; empty if not listening).

        Raises:
            StartError: The address is in use, the data directory is not usable, a thread cannot be started.
        """
    def recovery(self) -> tuple[int, int]:
        """Number of partitions owned by the shards, and the number of those that still recover."""
    def failures(self) -> list[tuple[str, str]]:
        """Partitions that closed themselves after a failure: `stream/topic/partition` and the reason."""
    def contacts(self) -> list[tuple[int, int, bool]]:
        """Runs of partition nodes that were tried: id of the node, incarnation, and whether it is reached."""
    def listen(self) -> None:
        """Start to accept connections."""
    def open_session(self, user_id: int, address: str | None = None, interface: int = 0) -> int:
        """Connect this process to the node, logged in as a user, without authentication of the caller.

        Args:
            user_id: The user.
            address: Address of the user (``ip:port``), if the connection serves one caller.
            interface: Number that the process has assigned to the interface that the caller uses.

        Returns:
            The descriptor of a blocking stream socket that speaks the binary protocol; the caller owns it.

        Raises:
            CoreError: The node is not running, or no descriptors are left.
        """
    def issuer_may(self, issuer: tuple[int, int, int], topic: tuple[int, int], read: bool, write: bool) -> bool:
        """Return whether a ticket still grants access to a topic.

        `issuer` is `Ticket.issuer`, `topic` the ids of stream and topic.
        """
    def fileno(self) -> int:
        """Descriptor that is readable while control requests wait: register it with the event loop."""
    def take_requests(self) -> list[tuple[int, bytes]]:
        """Take the control requests that arrived: identifier and `headrace.control.v1.Request`."""
    def reply(self, request_id: int, reply: bytes) -> None:
        """Answer a control request with a `headrace.control.v1.Reply`. A second answer is ignored."""
    def take_events(self) -> list[tuple[str, str]]:
        """Take the log events since the last call: level (`info`, `warning`, `error`) and message."""
    def stats_json(self) -> str:
        """Counters as a JSON object: connections, pool, mailboxes, driver, partitions, commands."""
    def take_traces(self) -> list[_RequestTrace | _PartitionTrace]:
        """Take the trace records since the last call, if the setting `tracing` is on."""
    def stop(self, timeout_seconds: float = 30.0) -> bool:
        """Shut down: answer requests in flight, flush, sync and close. `False`: forced after the timeout.

        The timeout is that of the answers; partitions have 10 s more to write and close.
        """

@final
class Edge:
    """The encrypted listeners in front of a node: TLS over TCP and WebSocket, and QUIC, on threads of their own.

    With `links` in its settings, connections of a gateway to partition nodes are encrypted, too.

    Order of calls: construct (which binds), `start` when the node listens, `close_listeners`, stop the node, which
    notifies the clients over their open connections, `stop`.
    """

    def __new__(cls, config_json: str) -> Self:
        """Read the certificates and bind (JSON object, fields of `EdgeConfig` in core/crates/edge/src/config.rs).

        Raises:
            StartError: A setting is invalid, a certificate cannot be used, an address is in use.
        """
    def addresses(self) -> dict[str, str]:
        """Bound address per listener (`tcp`, `websocket`, `quic`, `binary`)."""
    def start(self, node: Node) -> None:
        """Accept clients, to be served by `node`.

        Raises:
            StartError: The ports cannot be listened on, or the listeners were started before.
        """
    def reload_certificates(self) -> None:
        """Check the certificate files now; the result is reported by `take_events`."""
    def take_events(self) -> list[tuple[str, str]]:
        """Take the log events, in the form of `Node.take_events`."""
    def stats_json(self) -> str:
        """Counters as a JSON object, per listener and for `links`: connections, handshakes, failures, bytes."""
    def close_listeners(self) -> None:
        """Stop accepting connections; open connections stay."""
    def stop(self, timeout_seconds: float = 5.0) -> bool:
        """Wait for the last connections to end, and end the threads. `False`: some were cut off after the timeout."""

class ReplicaError(CoreError):
    """The metadata replica cannot start, or has stopped. `args[0]` describes the cause and the remedy."""

    reason: str
    """Reason for programs: `settings`, `directory_in_use`, `other_cluster`, `other_replica`, `damaged`,
    `newer_release`, `storage`, `address` or `stopped`.
    """

_ReplicaEvent: TypeAlias = (
    tuple[Literal["restore"], int, bytes]
    | tuple[Literal["apply"], int, int, list[tuple[int, bytes]]]
    | tuple[Literal["checkpoint"], int]
    | tuple[Literal["answered"], int, int, bytes]
    | tuple[Literal["refused"], int, str, int]
    | tuple[Literal["read"], int, int]
    | tuple[Literal["role"], str, int, int]
    | tuple[Literal["log"], str, str]
    | tuple[Literal["stopped"], str]
)
"""An event of a metadata replica, in order. The first field is its kind; `ticket` is the request id that a method
returned:

- `("restore", op, state)`: replace the state by this one, the result of all ops up to `op`; `state` is what was once
  passed to `checkpoint`, here or by a peer. Answer with `restored(op)`. Comes first after a start if there is a
  checkpoint, and later if this replica lagged so far behind that it was sent a peer's state.
- `("apply", op, timestamp_ns, [(ticket, command), ...])`: apply these commands in order; answer with `applied(op,
  replies)`. `timestamp_ns` (nanoseconds since the Unix epoch) grows strictly from op to op and is the same on every
  replica. A ticket other than 0 names a proposal made here, which this event completes: its reply is the state
  machine's answer. No other event follows for such a ticket. Ops that concern only the replicas are not reported.
- `("checkpoint", op)`: pass the state after all earlier events to `checkpoint(op, state)`, now or later (applying goes
  on meanwhile).
- `("answered", ticket, session, reply)`: the request of this ticket was executed, now or at an earlier attempt, and
  answered by the state machine with `reply`; all its effects were reported before. `session` is that of the request,
  and the new one after `open`.
- `("refused", ticket, reason, primary)`: the proposal, request or read of this ticket was not accepted. `reason`:
  `not_primary` (`primary` is the index of the replica to ask, -1 if unknown), `busy`, `storage` (the disk is full),
  `oversize`, `release` (some replica may not know the command yet): none of these was or will be applied; `unknown`: it
  may or may not be applied (the view changed while it was in flight). Of requests only: `session_ended` (the session no
  longer exists; it is unknown whether the request was applied before), `session_fenced` (the caller has opened a newer
  one), `stale` (a request with a higher number was executed before), `reused` (the number belongs to another command).
- `("read", ticket, op)`: every `apply` up to `op` came before this event: a state with them applied is linearizable.
- `("role", role, view, primary)`: `primary`, `backup`, `view_change` or `recovering` from now on; primary -1: unknown.
- `("log", level, message)`: a log line; level as in `Node.take_events`.
- `("stopped", reason)`: the replica has halted at a failure; nothing follows. The process should end.
"""

@final
class MetadataReplica:
    """One replica of the metadata group: journal, superblock, peers and clock on a native thread.

    Order of calls: construct, `start`, register `fileno` with the event loop, then serve `take`, `stop`. All methods
    but `start` and `stop` return at once. `propose`, `read_index`, `applied` and the like may be called from any
    thread; `take` belongs to one.
    """

    def __new__(cls, config_json: str) -> Self:
        """Validate the settings (JSON object, fields of `ReplicaConfig` in core/crates/replica/src/config.rs).

        Raises:
            ReplicaError: A setting is unknown or invalid.
        """
    def start(self) -> dict[str, str]:
        """Lock and open the directory (created if missing), recover, listen to the peers and start the thread.

        Returns:
            `address` (bound for the peers; empty for a single replica), `incarnation` (starts of this directory),
            `checkpoint_op`, `head_op`.

        Raises:
            ReplicaError: See `reason`.
        """
    def fileno(self) -> int:
        """Descriptor that is readable while events wait."""
    def take(self) -> list[_ReplicaEvent]:
        """Take the events since the last call, oldest first."""
    def renew_certificates(self) -> bool:
        """Check the certificate files. Returns whether new ones are used for connections with peers from now on.

        Raises `ReplicaError` if the files cannot be used, once for each content of the files.
        """
    def propose(self, command: bytes) -> int:
        """Propose a command to be ordered, replicated and applied; returns its request id.

        The request id, never 0, is the `ticket` of the events about the command.

        Raises:
            ReplicaError: The replica has stopped.
        """
    def propose_many(self, commands: list[bytes], since: list[int] | None = None) -> list[int]:
        """Propose several commands with one wake-up.

        Args:
            commands: The commands in their order.
            since: For each the release that introduced it, packed (``major << 16 | minor << 8 | patch``); the first
                release if not given. A command that is not in force yet is refused with the reason `release`.
        """
    def request_many(
        self, requests: list[tuple[int, int, int, Literal["open", "propose", "close"], int, bytes]]
    ) -> list[int]:
        """Execute requests of sessions, each at most once however often it is sent; returns their request ids.

        Args:
            requests: Client (128 bits, not 0), session and number (0 to open), kind of request, packed release that
                introduced the command, command (empty except for proposals). A repeated request must be identical in
                all fields.

        Raises:
            ReplicaError: The replica has stopped.
        """
    def read_index(self) -> int:
        """Request the op that a linearizable read has to see; returns the request id of the `read` event."""
    def applied(self, op: int, replies: list[bytes]) -> None:
        """Answer an `apply`, with one reply for each of its commands."""
    def checkpoint(self, op: int, state: bytes) -> None:
        """Answer a `checkpoint`."""
    def restored(self, op: int) -> None:
        """Answer a `restore`."""
    def abdicate(self) -> None:
        """Trigger a view change if this replica is the primary. Used before a planned stop."""
    def status_json(self) -> str:
        """Status as a JSON object: role, view, primary, ops, journal, peers with their connections, counters.

        Fields of `ReplicaStatus` in core/crates/replica/src/status.rs. Also works after the replica has stopped.
        """
    def stop(self, timeout_seconds: float = 10.0) -> bool:
        """Commit nothing more, make all written data durable, mark the directory as cleanly closed and release it.

        `False`: the thread did not end in time; the directory stays locked until it does. Later calls do nothing.
        """

def inspect_replica(directory: str, first_op: int = 0, limit: int = 100) -> str:
    """Read a replica's directory without changing it, also of a running one; returns a JSON object.

    Superblock, checkpoints, journal files with their verdict, and up to `limit` records from `first_op` on (fields of
    `FolderReport` in core/crates/replica/src/inspect.rs).

    Raises:
        ReplicaError: The directory has no replica, or it cannot be read.
    """

def check_partition(directory: str, ids: tuple[int, int, int], catalog: str, repair: bool) -> str:
    """Check the directory of a partition that no server uses; returns a JSON object, with every damaged place.

    Args:
        directory: Directory of the partition.
        ids: Numbers of stream, topic and partition.
        catalog: Identity of the catalog, as hexadecimal digits; empty if it is not known.
        repair: Write the manifest, the copy of it and indexes anew where they are wrong.

    Raises:
        OSError: A file cannot be read, or a repair cannot be written.
        ValueError: An identifier exceeds its bits, or the catalog is not a number.
    """

def owner_shard(stream_id: int, topic_id: int, partition_id: int, shards: int) -> int:
    """The shard that owns a partition. Raises ValueError when an identifier exceeds its bits or `shards` is 0."""

def keep_freed_memory() -> bool:
    """Have the C library keep freed blocks of up to 8 MiB, 16 MiB at the end of each heap, for later allocations.

    Applies to the whole process. Starting a `Node` does the same. Returns whether it took effect: only glibc supports
    it.
    """

class TicketError(CoreError):
    """A text is not a valid ticket of this cluster at present. `args[0]` gives the reason."""

@final
class Ticket:
    """Contents of a ticket. Without a stream it is for the whole cluster, without a partition for a whole topic."""

    holder: str
    """Name of the client that it was issued to."""
    stream_id: int | None
    """Stream that it grants access to; None: the whole cluster."""
    topic_id: int | None
    """Topic that it grants access to; None: the whole cluster."""
    partition_id: int | None
    """Partition that it grants access to; None: the whole topic, or the whole cluster."""
    incarnation: int
    """Incarnation of the topic or of the partition; 0 for the cluster."""
    read: bool
    """True if messages and offsets may be read, and offsets stored."""
    write: bool
    """True if messages may be appended."""
    not_after: int
    """Last second, since the Unix epoch, in which the ticket is valid."""
    id: int
    """Random identifier for logs."""
    issuer: tuple[int, int, int] | None
    """Issuing user, version of the user's password and incarnation of the access token (0: none) of the user's login;
    None: issued by a service.
    """

@final
class TicketKey:
    """Signs and verifies the tickets of one cluster: see core/crates/ticket."""

    def __new__(cls, secret: str, cluster: str, *, accepted_secret: str = "") -> Self:
        """Derive the key from the shared secret of the cluster's services and from the cluster's name.

        During a rotation of the secret, tickets signed with `accepted_secret` are valid as well.
        """
    def sign(
        self,
        holder: str,
        *,
        not_after: int,
        stream_id: int | None = None,
        topic_id: int | None = None,
        partition_id: int | None = None,
        incarnation: int = 0,
        read: bool = False,
        write: bool = False,
        issuer: tuple[int, int, int] | None = None,
    ) -> str:
        """Sign a ticket for the cluster, for a topic (stream and topic), or for a partition (all three).

        Args:
            holder: Name of the client for logs; 1 to 255 bytes.
            not_after: Last second, since the Unix epoch, in which the ticket is valid.
            stream_id: Stream of the topic; without it the ticket grants access to the whole cluster.
            topic_id: Topic that the ticket grants access to, or topic of the partition.
            partition_id: Partition that the ticket grants access to, if not the whole topic.
            incarnation: Incarnation of the topic, or of the partition if there is one.
            read: Whether messages and offsets may be read, and offsets stored.
            write: Whether messages may be appended.
            issuer: The issuing user, see `Ticket.issuer`; None: a service.

        Raises:
            ValueError: The name is empty or too long, or the combination of ids is invalid.
        """
    def verify(self, ticket: str, *, now: int) -> Ticket:
        """Verify a ticket at the time `now`, in seconds since the Unix epoch, and return its contents.

        Raises:
            TicketError: The ticket is not of this cluster, or has expired.
        """

@final
class WebSocketDecoder:
    """Decodes what the client of a WebSocket sends (RFC 6455). It is unusable after an error."""

    def __new__(cls, *, message_bytes_max: int, is_compressed: bool = False) -> Self:
        """Start at the first frame.

        Args:
            message_bytes_max: Maximum size of a message as it is sent, announced sizes included.
            is_compressed: Whether permessage-deflate was negotiated. Compressed payloads are returned as they are.
        """
    def limit_messages(self, message_bytes_max: int) -> None:
        """Change the maximum size of a message, from the next frame on."""
    def feed(self, data: bytes) -> None:
        """Add received bytes."""
    def next(self) -> tuple[int, bytes, bool] | None:
        """Return the next frame: its opcode, its payload, and whether it is compressed; None if bytes are missing.

        The last frame of a message has the opcode and the whole payload of the message, earlier ones are empty
        continuations (0). The text of a message is valid UTF-8 unless it is compressed. A close frame has its code as
        payload, and a pong has none.

        Raises:
            WebSocketError: The client violates the protocol, or a limit. An invalid text is reported at its first
                invalid byte, and a size as soon as it is announced.
        """

@final
class Message:
    """A stored message."""

    checksum: int
    """Checksum of the message as it is stored: XXH3-64 of all of it after this field."""
    offset: int
    """Offset in the partition."""
    timestamp_micros: int
    """Time of the append, in microseconds since the Unix epoch."""
    origin_timestamp_micros: int
    """Time at which the client created the message, in microseconds since the Unix epoch."""
    id: int
    """Id of the message, 128 bits: that of the client, or drawn by the server."""
    partition_id: int
    """Partition of the message."""
    payload: bytes
    """Payload of the message."""
    user_headers: bytes
    """Encoded as in `encode_user_headers`."""
    @property
    def key(self) -> bytes | None:
        """Key, if the message was stored with one: value of the user header `headrace.key`."""
    @property
    def headers(self) -> dict[Any, Any] | None:
        """User headers without the key, by name; None if they cannot be read, perhaps because they are encrypted."""
    @property
    def timestamp(self) -> datetime.datetime:
        """Time of the append, in UTC."""
    @property
    def origin_timestamp(self) -> datetime.datetime:
        """Time at which the client created the message, in UTC."""

@final
class Polled:
    """The result of a poll."""

    partition_id: int
    """Partition that was polled; chosen by the server for a group."""
    current_offset: int
    """Offset of the last message of the partition; 0 also when there is none."""
    messages: list[Message]
    """Messages that were read, by ascending offset."""
    gap: tuple[int, int] | None
    """Offsets, from the first up to but not including the second, that were removed before `wait` could read them."""

@final
class Client:
    """A blocking client of the binary protocol. Not thread-safe.

    Identifiers of streams and topics are numbers or names: a Python `int` is a number, a `str` a name.
    """

    @staticmethod
    def connect(address: str, timeout_seconds: float = 10.0, *, transport: str = "tcp") -> Client:
        """Connect to `host:port` by `tcp` or `websocket`.

        Use TLS with `tls://host:port?ca=FILE`: one of the authorities in FILE (PEM) must have signed the certificate
        for that host (or for `name=NAME`); `verify=no` in place of `ca` accepts any certificate.
        """
    def login(self, username: str, password: str) -> int:
        """Log in with a password; returns the user's id."""
    def login_with_token(self, token: str) -> int:
        """Log in with a personal access token; returns the user's id."""
    def login_with_ticket(self, ticket: str) -> None:
        """Log in at a partition node; permits only the access that the ticket grants."""
    def ping(self) -> None:
        """Check that the server answers."""
    def stats(self) -> Stats:
        """Query the statistics of the server."""
    def streams(self) -> list[Stream]:
        """List the streams, without their topics."""
    def create_stream(self, name: str) -> Stream:
        """Create a stream, and return it."""
    def delete_stream(self, stream: int | str) -> None:
        """Delete a stream with its topics and messages."""
    def topics(self, stream: int | str) -> list[Topic]:
        """List the topics of a stream, without their partitions."""
    def topic(self, stream: int | str, topic: int | str) -> Topic | None:
        """Get a topic with its partitions; None if there is no such topic."""
    def create_topic(
        self,
        stream: int | str,
        name: str,
        partitions: int,
        message_expiry_micros: int = 0,
        max_size_bytes: int = 0,
    ) -> Topic:
        """Create a topic, and return it with its partitions. 0: the server's default expiry or size limit."""
    def delete_topic(self, stream: int | str, topic: int | str) -> None:
        """Delete a topic with its messages."""
    def send(
        self,
        stream: int | str,
        topic: int | str,
        payloads: list[bytes],
        *,
        partition: int | None = None,
        key: bytes | None = None,
    ) -> None:
        """Append messages: to `partition`, to the partition of `key`, or balanced if neither is given."""
    def poll(
        self,
        stream: int | str,
        topic: int | str,
        partition: int | None,
        *,
        strategy: str = "next",
        value: int = 0,
        count: int = 100,
        consumer: int | str = ...,
        group: int | str | None = None,
        auto_commit: bool = False,
    ) -> Polled:
        """Read messages; `strategy` is offset, timestamp, first, last or next, `value` the offset or timestamp.

        With `group` read as a member of it (`join_group` first); without a partition the server alternates between the
        partitions that this member owns.
        """
    def explain_refusals(self) -> None:
        """Request explanations of refusals beyond the status, if the server supports them."""
    def describe_partitions(self, stream: int | str, topic: int | str) -> list[PartitionDescription]:
        """Query state and placement of each partition of a topic."""
    def capabilities(self) -> Capabilities:
        """Query the server's extensions to the binary protocol."""
    def wait(
        self,
        stream: int | str,
        topic: int | str,
        partition: int | None,
        *,
        maximum_wait_seconds: float,
        minimum_bytes: int = 1,
        strategy: str = "next",
        value: int = 0,
        count: int = 100,
        consumer: int | str = ...,
        group: int | str | None = None,
        auto_commit: bool = False,
    ) -> Polled:
        """Read like `poll`, but wait for `minimum_bytes` of messages, for `count` messages, or until the timeout.

        With a group and without a partition it waits for all partitions that this member owns. If a signal handler
        raises during the wait, the client is closed.
        """
    def watcher(self) -> Watcher:
        """Dedicate the connection, after a login, to notifications about partitions. The client is closed by this."""
    def store_offset(
        self,
        stream: int | str,
        topic: int | str,
        partition: int | None,
        offset: int,
        consumer: int | str = ...,
        *,
        group: int | str | None = None,
    ) -> None:
        """Store the offset of the last processed message: for a consumer, or as a member for its group."""
    def offset(
        self,
        stream: int | str,
        topic: int | str,
        partition: int | None,
        consumer: int | str = ...,
        *,
        group: int | str | None = None,
    ) -> ConsumerOffset | None:
        """Get the stored offset of a consumer, or of a group (membership is not required)."""
    def delete_offset(
        self,
        stream: int | str,
        topic: int | str,
        partition: int | None,
        consumer: int | str = ...,
        *,
        group: int | str | None = None,
    ) -> None:
        """Delete the stored offset of a consumer or a group."""
    def groups(self, stream: int | str, topic: int | str) -> list[ConsumerGroup]:
        """List the consumer groups of a topic, without their members."""
    def group(self, stream: int | str, topic: int | str, group: int | str) -> ConsumerGroup | None:
        """Get a consumer group with its members; None if there is no such group."""
    def create_group(self, stream: int | str, topic: int | str, name: str) -> ConsumerGroup:
        """Create a consumer group, and return it."""
    def delete_group(self, stream: int | str, topic: int | str, group: int | str) -> None:
        """Delete a group with its offsets."""
    def join_group(self, stream: int | str, topic: int | str, group: int | str) -> None:
        """Join a group with this connection; closing the connection ends the membership, too."""
    def leave_group(self, stream: int | str, topic: int | str, group: int | str) -> None:
        """Leave a group that this connection has joined."""
    def request(self, code: int, payload: bytes) -> bytes:
        """Send a command as one of the functions `encode_...` returns it, and return the payload of its answer.

        Raises:
            ServerError: The server refused.
            ConnectionLost: The connection broke. It is unknown whether the server executed the command.
            ValueError: This is not a command.
        """
    def close(self) -> None:
        """Close the connection. Later calls raise `ConnectionLost`."""

class SessionError(CoreError):
    """A request, a delivery or a session has failed. `args[0]` describes the failure."""

    kind: Literal[
        "refused",
        "not_sent",
        "uncertain",
        "late",
        "unreachable",
        "login_refused",
        "malformed",
        "invalid",
        "closed",
        "undelivered",
        "overtaken",
        "buffer_full",
    ]
    """Kind of the failure. `uncertain` and `malformed`: the request may have had its effect; otherwise it had none."""
    code: int | None
    """Status of the server's answer, if it refused (see `headrace_proto.errors`)."""
    name: str | None
    """Name of that status."""

@final
class SessionConfig:
    """Addresses, credentials and times of the sessions of one client."""

    def __new__(
        cls,
        addresses: list[tuple[str, bool]],
        *,
        username: str | None = None,
        password: str | None = None,
        token: str | None = None,
        ticket: str | None = None,
        connect_timeout: float = 10.0,
        response_timeout: float = 30.0,
        keepalive: float = 10.0,
        first_rounds: int = 1,
        observer: Callable[[str, str], object] | None = None,
    ) -> Self:
        """Check the settings, and read the files of authorities.

        Args:
            addresses: As for `Client.connect`, each with whether it is that of a WebSocket listener.
            username: With `password`; or give a token, or a ticket.
            password: The password.
            token: A personal access token.
            ticket: A ticket, at a partition node.
            connect_timeout: Seconds for connecting, and for logging in.
            response_timeout: Seconds in which the server answers; after them the connection is made again.
            keepalive: Idle seconds after which a ping shows whether the connection lives.
            first_rounds: Rounds over all addresses after which the first connection fails.
            observer: Called with `opened`, `lost` or `failed`, and the reason, on a thread of the native module.

        Raises:
            ValueError: A setting is invalid.
        """

@final
class Completions:
    """Numbers of operations that have ended, for an event loop."""

    def __new__(cls) -> Self: ...
    def fileno(self) -> int:
        """Descriptor that is readable while there are any."""
    def take(self) -> list[int]:
        """Take the numbers since the last call."""

@final
class Pending:
    """An operation that is under way."""

    def done(self) -> bool:
        """Return whether it has ended."""
    def wait(self, timeout_seconds: float | None = None) -> bool:
        """Wait, with the GIL released; returns whether it has ended. Signal handlers run meanwhile."""
    def notify(self, completions: Completions, number: int) -> None:
        """Put `number` into the queue when it has ended."""
    def result(self) -> Any:
        """Return the result of an operation that has ended. Raises `SessionError` if it has failed."""

@final
class Requester:
    """A session for requests that are encoded and decoded elsewhere. It connects again when its connection breaks."""

    def __new__(cls, config: SessionConfig) -> Self: ...
    def opened(self) -> Pending:
        """Result of the first attempt to connect and log in: None."""
    def submit(
        self, code: int, payload: bytes, *, repeats: bool = False, timeout_seconds: float | None = None
    ) -> Pending:
        """Submit a request; its result is the payload of the answer.

        Args:
            code: Code of the command.
            payload: Its payload.
            repeats: Whether it may be executed twice, and so is sent again if its connection breaks.
            timeout_seconds: Time for the answer, connecting included.
        """
    def take_notifications(self) -> list[bytes]:
        """Take the answers to `encode_watch_partitions` so far, for `decode_watched_partitions`; old ones may be lost.

        Those that were sent before an answer are there when the answer is.
        """
    def close(self) -> None:
        """End the session; requests without an answer fail."""

@final
class Reports:
    """Results of batches: producers put them in, one thread takes them out. It is bounded: the oldest are dropped."""

    def __new__(cls) -> Self: ...
    def wait(self) -> Pending:
        """Operation that ends when there are reports, or when the queue is closed."""
    def take(self) -> tuple[list[tuple[int, int | None, int, int, float, str | None]], int] | None:
        """Take all reports, and the number of dropped ones; None once the queue is closed and empty.

        A report: number of the producer, partition, messages, bytes, seconds, failure.
        """
    def close(self) -> None:
        """Take no more reports."""

@final
class VirtualTime:
    """Time of clients, producers and consumers that are made while it exists: it stands still until it is advanced."""

    def __new__(cls) -> Self:
        """Begin. Raises `RuntimeError` if time is virtual already."""
    def advance(self, duration: float) -> Pending:
        """Advance time; the operation ends when what follows from that has happened."""
    def end(self) -> None:
        """Let time pass by itself again."""

@final
class Delivered:
    """Place of a stored message."""

    partition_id: int
    """Partition that has the message."""
    offset: int | None
    """Offset in the partition; None if the server does not report offsets."""

    def __eq__(self, other: object, /) -> bool: ...

@final
class Delivery:
    """The result of one message: a future for threads.

    Examples:
        >>> with client.producer("shop", "orders") as producer:
        ...     delivery = producer.send(b"one book", partition=0)
        >>> delivery.done(), delivery.result().offset
        (True, 0)
    """

    @property
    def native(self) -> Delivery:
        """The delivery itself."""
    def done(self) -> bool:
        """Return whether the result is there."""
    def result(self, timeout: float | None = None) -> Delivered:
        """Wait for the result: partition and offset of the stored message.

        Args:
            timeout: Seconds; None: as long as it takes.

        Raises:
            DeadlineExceeded: The result is not there yet.
            NotDelivered: The message was not stored.
            OutcomeUnknown: The message may be stored.
            RequestRefused: The server refused the message.
        """

@final
class AwaitableDelivery:
    """The result of one message: await it for partition and offset of the stored message.

    Examples:
        >>> async def order():
        ...     async with headrace.aio.connect(url) as client, client.producer("shop", "orders") as producer:
        ...         delivery = await producer.send(b"one book", partition=1)
        ...         return await delivery
        >>> asyncio.run(order())
        Delivered(partition_id=1, offset=0)
    """

    def __new__(cls, delivery: Delivery) -> Self:
        """The same result, for asyncio."""
    def done(self) -> bool:
        """Return whether the result is there."""
    def __await__(self) -> Generator[Any, None, Delivered]: ...

def wait_for_deliveries(waiting: Callable[[Pending], Coroutine[Any, Any, Delivered]]) -> None:
    """Have results of messages wait with a coroutine function, which takes the operation."""

def translate_failures(translation: Callable[[BaseException], BaseException]) -> None:
    """Have `Delivery` and `AwaitableDelivery` raise what a function returns for their exceptions."""

@final
class Deliveries:
    """Results of messages that were handed over together."""

    def __len__(self) -> int: ...
    def done(self) -> bool:
        """Return whether all results are there."""
    def pending(self) -> Pending:
        """Operation that ends with the last result."""
    def result(self, timeout: float | None = None) -> list[tuple[Delivered, int]]:
        """Wait for all results: first place and length of each run. Errors as of `Delivery.result`."""

@final
class Producer:
    """A producer for one topic, on a connection of its own."""

    def __new__(
        cls,
        config: SessionConfig,
        stream: int | str,
        topic: int | str,
        *,
        batch_messages: int,
        batch_bytes: int,
        linger: float,
        window: int,
        buffer_bytes: int,
        delivery_timeout: float,
        repeat_uncertain: bool,
        reports: Reports | None = None,
        number: int = 0,
    ) -> Self:
        """Begin to connect. Raises `ValueError` for an invalid name or setting.

        Results of batches are put into `reports`, under this `number`.
        """
    def opened(self) -> Pending:
        """Result of looking for the topic: None."""
    def push(
        self,
        payload: bytes,
        partition: int | None = None,
        key: bytes | None = None,
        headers: dict[str, str | bytes | bool | int | float] | None = None,
        id: int | None = None,  # noqa: A002 - as in the message
        stores_key: bool = True,
    ) -> Delivery | None:
        """Hand over a message; None if the buffer is full. Without an id, the server draws one."""
    def push_many(
        self,
        payloads: list[bytes],
        start: int,
        *,
        partition: int | None = None,
        key: bytes | None = None,
        headers: dict[str, str | bytes | bool | int | float] | None = None,
        stores_key: bool = True,
    ) -> tuple[int, Deliveries]:
        """Hand over messages from `start` on; returns the number that there was room for."""
    def push_rows(self, rows: TableRows, start: int) -> tuple[int, Deliveries]:
        """Hand over rows of a table from `start` on; returns the number that there was room for."""
    def room(self) -> Pending:
        """Operation that ends when the buffer may have room again."""
    def flush(self) -> Pending:
        """Send everything at once; ends when all of it has its result."""
    def close(self) -> Pending:
        """Accept no more messages; ends when everything has its result."""
    def take_failure(self) -> None:
        """Raise the first failure since the last call whose result was not asked for."""
    def abort(self) -> None:
        """Give up what is buffered."""
    @property
    def partitions_count(self) -> int:
        """Number of partitions of the topic; 0 until it is known."""
    def counters(self) -> tuple[int, int, int, int]:
        """Bytes that are buffered; batches that were delivered, have failed, were sent."""

@disjoint_base
class Sender:
    """Base class of producers, with a `send` in front of the method `_send_in_python`, which has the same arguments."""

    def __new__(cls, *arguments: Any, **options: Any) -> Self: ...
    def send(
        self,
        payload: bytes,
        *,
        key: bytes | str | None = None,
        partition: int | None = None,
        headers: Mapping[str, str | bytes | bool | int | float] | None = None,
        message_id: int = 0,
        timeout: float | None = None,
    ) -> Delivery:
        """Send a message; waits only while the buffer is full. See `headrace.Producer.send`."""
    def _send_by(self, producer: Producer, stores_key: bool) -> None:
        """Send by this producer from now on; until then everything is left to `_send_in_python`."""

@final
class AwaitableSender:
    """The same for asyncio, behind a method of Python."""

    def __new__(cls, producer: Producer, stores_key: bool) -> Self: ...
    def send(
        self,
        payload: object,
        key: object,
        partition: object,
        headers: object,
        message_id: object,
    ) -> AwaitableDelivery | None:
        """Hand a message over at once, or return None without having done anything.

        There is no room, the producer is not open, a value cannot be sent, or is of an unusual type.
        """

@final
class DirectProducer:
    """A producer without a topic, on a connection of its own."""

    def __new__(cls, config: SessionConfig, *, batch_bytes: int, delivery_timeout: float, stores_key: bool) -> Self:
        """Begin to connect. Raises `ValueError` for an invalid setting."""
    def opened(self) -> Pending:
        """Result of the first attempt to connect and log in: None."""
    def submit(self, code: int, payload: bytes) -> Pending:
        """Submit a request that changes nothing; its result is the payload of the answer."""
    def push_many(
        self,
        stream: int | str,
        topic: int | str,
        payloads: list[bytes],
        start: int,
        *,
        partitions_count: int,
        turn: int,
        partition: int | None = None,
        key: bytes | None = None,
        headers: dict[str, str | bytes | bool | int | float] | None = None,
    ) -> tuple[int, Deliveries]:
        """Send payloads from `start` on, as many as fit a batch; returns their number and their results.

        Those without key and partition go to the partition that `turn` selects.
        """
    def push_each(
        self,
        stream: int | str,
        topic: int | str,
        messages: list[Any],
        start: int,
        *,
        partitions_count: int,
        turn: int,
    ) -> tuple[int, Deliveries]:
        """Send messages, as `push_many`: tuples of payload, key, partition, headers, and id (0: none yet)."""
    def stage_each(
        self,
        stream: int | str,
        topic: int | str,
        messages: list[Any],
        start: int,
        *,
        partitions_count: int,
        turn: int,
        lifetime_seconds: int,
    ) -> tuple[int, list[tuple[int, int, Pending]]]:
        """Store messages, as of `push_each`, in a stage of each partition, which a transaction can commit.

        Returns the number of messages, and for each stage its partition, its number of messages, and its answer, for
        `decode_staged_messages`.
        """
    def close(self) -> None:
        """End the session; messages without an answer fail."""

@final
class Batch:
    """Messages of one partition that were read together."""

    @property
    def partition_id(self) -> int:
        """Partition of the messages."""
    @property
    def first_offset(self) -> int:
        """Offset of the first message of the batch."""
    @property
    def last_offset(self) -> int:
        """Offset of the last message of the batch."""
    @property
    def next_offset(self) -> int:
        """Offset after the last message of the batch: where to read on."""
    @property
    def partition_end(self) -> int:
        """Offset after the last message of the partition when the batch was read; less `next_offset`, it is the lag."""
    @property
    def size_bytes(self) -> int:
        """Size of the messages in bytes, headers included."""
    def __len__(self) -> int: ...
    def __iter__(self) -> BatchMessages: ...
    def payloads(self) -> list[bytes]:
        """Return the payloads of all messages."""
    def columns(
        self,
        columns: list[str],
        *,
        stream: str = "",
        topic: str = "",
        verify: bool = True,
        batch_rows: int = ...,
    ) -> list[RecordColumns]:
        """Decode the messages to columns, as `RecordDecoder` does."""
    def __arrow_c_schema__(self) -> CapsuleType:
        """Return the schema that the batch has for Arrow libraries, unless they ask for another."""
    def __arrow_c_array__(self, requested_schema: CapsuleType | None = None) -> tuple[CapsuleType, CapsuleType]:
        """Export the messages as a record batch, without copying its columns again.

        The columns are `partition`, `offset`, `timestamp`, `key` and `value`, or those of the requested schema, in its
        types. Raises `ValueError` if there is no such column or it cannot have the type, and `RecordError` if a message
        is damaged.
        """
    def __arrow_c_stream__(self, requested_schema: CapsuleType | None = None) -> CapsuleType:
        """Export the messages as a stream, as `__arrow_c_array__`."""

@final
class TableReader:
    """Rows of a table of an Arrow library as messages, read as they are sent."""

    def __new__(
        cls,
        table: object,
        *,
        codec: str | None = None,
        payload: str | None = None,
        key: str | None = None,
        headers: str | None = None,
        id: str | None = None,  # noqa: A002 - the name of the column
        partition: str | None = None,
        added: dict[str, str | bytes | bool | int | float] | None = None,
        stores_key: bool = True,
    ) -> Self:
        """Find the columns by their names, and check their types.

        `added` are headers of every message. Raises `ValueError` for columns that no messages can be made of, and
        `TypeError` for an object that is no table.
        """
    def next(self) -> TableRows | None:
        """Read the next rows, and encode them; None after the last ones.

        Raises `ValueError` if a row cannot be a message, or if the table cannot be read.
        """

@final
class TableRows:
    """Some rows of a table, encoded."""

    def __len__(self) -> int: ...

def batch_stream(
    batches: Iterable[Batch], *, stream: str, topic: str, requested_schema: CapsuleType | None = None
) -> CapsuleType:
    """Return batches as a stream of record batches, each of which is taken when the stream is read.

    `stream` and `topic` are the values of these columns. Errors as of `Batch.__arrow_c_array__`.
    """

@final
class BatchMessages:
    """The messages of a batch, one after the other."""

    @property
    def next_offset(self) -> int:
        """Offset after the last message that was returned."""
    def __iter__(self) -> Self: ...
    def __next__(self) -> Message: ...
    def end(self) -> None:
        """Return none of the messages that are left."""

class _Refills(Protocol):
    def _messages_after(self, before: BatchMessages | None, /) -> BatchMessages: ...

@final
class ConsumerMessages:
    """The messages of a consumer of the package `headrace`, without end.

    `_messages_after` of the consumer is called for each batch: it takes the messages that have ended, and waits for
    those that follow. The first exception is the end.
    """

    def __new__(cls, consumer: _Refills) -> Self: ...
    def __iter__(self) -> Self: ...
    def __next__(self) -> Message: ...

@final
class Consumer:
    """A consumer of one topic, on two connections of its own."""

    def __new__(
        cls,
        config: SessionConfig,
        stream: int | str,
        topic: int | str,
        *,
        group: int | str | None = None,
        creates_group: bool = True,
        name: int | str | None = None,
        partitions: list[int] | None = None,
        start: tuple[str, int] = ...,
        batch_messages: int,
        prefetch_bytes: int,
        heartbeat: float,
    ) -> Self:
        """Begin to connect and to read. Raises `ValueError` for invalid names or settings."""
    def opened(self) -> Pending:
        """Operation that ends when the partitions are known, and where each of them is read."""
    def take(self) -> tuple[str, Any]:
        """Take the next item as its kind and content, without waiting.

        `batch`: `Batch`; `assigned`, `revoked`, `lost`: list of partition ids; `gap`: partition, first removed offset,
        first offset after them; `reset`: a partition that was purged or made anew; `refused`: words of a
        refusal that goes on; `nothing`: a `Pending` that ends when there is something; `ended`: None. Raises
        `SessionError` when the consumer has failed.
        """
    def commit(self, partition: int, offset: int) -> Pending:
        """Store the offset of the last processed message; the result is None."""
    def note_processed(self, partition: int, next_offset: int) -> None:
        """Note the offset after the last processed message, from which reading continues after a lost connection.

        0 takes back what was noted before.
        """
    def seek(self, partition: int, start: str, value: int = 0) -> Pending:
        """Continue at another place; the result is whether the consumer reads the partition."""
    def pause(self, partitions: list[int]) -> None:
        """Read no more messages of these partitions until `resume`."""
    def resume(self, partitions: list[int]) -> None:
        """Continue to read these partitions."""
    def position(self, partition: int) -> Pending:
        """Result: next offset to be read, None if unknown, and the end of the partition; None if it is not read."""
    def leave(self) -> Pending:
        """Leave the group and end; the result is None."""

def bench_run(config_json: str, progress: Callable[[str], bool] | None = None) -> str:
    """Run the load generator; returns its report as JSON.

    Args:
        config_json: Settings (fields of `BenchConfig` in core/crates/bench).
        progress: Called about five times a second with a JSON object of counters; returns whether to continue.
    """

def null_listener(
    address: str,
    message_size_bytes: int = 1000,
    messages_per_poll: int = 1000,
    on_bound: Callable[[str], None] | None = None,
) -> None:
    """Run the null listener, which reads and discards, until a signal handler raises (KeyboardInterrupt, SystemExit).

    Args:
        address: `host:port`; port 0 picks a free one.
        message_size_bytes: Payload size of the messages in the prepared answer to polls.
        messages_per_poll: Number of messages in it.
        on_bound: Called once with the bound address.
    """

# ---- the binary protocol as bytes, for callers with their own connections

_Encoded: TypeAlias = tuple[int, bytes]
"""Code of the command and its payload. `CodecError` if a value cannot be encoded."""
_Typed: TypeAlias = tuple[str, bytes]
"""Kind of a header (`string`, `uint32`, ...) and its bytes, numbers little-endian."""
_UserStatus: TypeAlias = Literal["active", "inactive"]
_Strategy: TypeAlias = Literal["offset", "timestamp", "first", "last", "next"]

def encode_get_snapshot(*, compression: int, kinds: Sequence[int]) -> _Encoded:
    """Encode `GetSnapshot`; compression and kinds are codes of the binary protocol."""

def encode_send_messages(
    messages: Iterable[tuple[int, bytes, bytes]],
    *,
    stream: int | str,
    topic: int | str,
    partition: int | None = None,
    key: bytes | None = None,
    origin_timestamp_micros: int = 0,
    size_bytes_max: int = ...,
) -> _Encoded:
    """Encode one batch of messages: id (0: the server assigns one), payload, encoded user headers."""

def encode_send_messages_lines(
    body: bytes,
    *,
    stream: int | str,
    topic: int | str,
    partition: int | None = None,
    key: bytes | None = None,
    origin_timestamp_micros: int = 0,
    size_bytes_max: int = ...,
) -> _Encoded:
    """Encode one message for each line, whose JSON text is its payload. Empty lines are skipped."""

def encode_send_messages_json(
    body: bytes,
    *,
    stream: int | str,
    topic: int | str,
    origin_timestamp_micros: int = 0,
    size_bytes_max: int = ...,
) -> _Encoded:
    """Encode a batch given as JSON, with values in base64.

    The form is `{"partitioning": {"kind", "value"}, "messages": [{"id", "payload", "user_headers"}]}`.
    """

def polled_json(payload: bytes, *, numbers_as_text: bool = False, names_gap: bool = False) -> bytes:
    """Convert the answer to a poll to JSON; `numbers_as_text` quotes the numbers that a double cannot hold.

    `names_gap`: as in `decode_polled`.
    """

def polled_events(
    payload: bytes, *, numbers_as_text: bool = False, names_gap: bool = False
) -> tuple[bytes, int | None]:
    """Convert each polled message to a server-sent event whose id is its offset; also returns the last offset.

    `names_gap`: as in `decode_polled`; if messages are missing, an event `gap` comes first.
    """

def encode_user_headers(headers: Sequence[tuple[_Typed, _Typed]]) -> bytes: ...
def decode_user_headers(encoded: bytes) -> list[tuple[_Typed, _Typed]] | None:
    """Decode user headers; None if they are not readable, perhaps because a client has encrypted them."""

def decode_user(payload: bytes) -> User | None: ...
def decode_users(payload: bytes) -> list[User]: ...
def decode_identity(payload: bytes) -> int: ...
def decode_raw_access_token(payload: bytes) -> str: ...
def decode_polled(payload: bytes, *, names_gap: bool = False) -> MessageBatch:
    """Decode the answer to a poll; `names_gap` must be the value that the command was encoded with."""

def encode_wait_messages(
    *,
    stream: int | str,
    topic: int | str,
    maximum_wait_micros: int,
    minimum_bytes: int = 1,
    consumer: int | str = ...,
    is_group: bool = False,
    partition: int | None = None,
    strategy: _Strategy = "next",
    value: int = 0,
    count: int = 100,
    auto_commit: bool = False,
    names_gap: bool = False,
) -> _Encoded:
    """Encode a wait. The answer has the form of that to `encode_poll_messages`.

    With `names_gap` it also has the range of messages that were removed before they could be read.
    """

def encode_watch_partitions(
    *,
    topics: Sequence[tuple[int | str, int | str, Sequence[int]]],
    remove: bool = False,
    names_openings: bool = False,
) -> _Encoded:
    """Encode stream, topic and partitions of each topic.

    Any number of payloads for `decode_watched_partitions` follow. With `names_openings` they have the openings of logs.
    """

def encode_set_trace_context(*, trace_id: int, span_id: int, flags: int) -> _Encoded:
    """Encode a trace context, ids of 128 and 64 bits and flags of 8; applies to the next request of the connection."""

def encode_issue_ticket(
    *,
    stream: int | str,
    topic: int | str,
    read: bool = False,
    write: bool = False,
    lifetime_seconds: int = 0,
) -> _Encoded:
    """Encode a request for a ticket for reading, writing or both; 0 seconds: the server's default lifetime.

    Decode the answer with `decode_issued_ticket`.
    """

def encode_set_user_quota(
    *, user: int | str, sent_bytes_per_second: int = 0, read_bytes_per_second: int = 0, connections: int = 0
) -> _Encoded:
    """Encode the whole quota of a user; 0 is no limit."""

def encode_set_topic_quota(
    *,
    stream: int | str,
    topic: int | str,
    sent_bytes_per_second: int = 0,
    read_bytes_per_second: int = 0,
    held_bytes: int = 0,
) -> _Encoded:
    """Encode the whole quota of a topic; 0 is no limit."""

def encode_stage_messages(
    *,
    stream: int | str,
    topic: int | str,
    partition: int,
    messages_count: int,
    batch: bytes | None = None,
    stage: int = 0,
    chunk: int = 0,
    is_last: bool = False,
    lifetime_seconds: int = 0,
) -> _Encoded:
    """Encode a chunk of a staged batch: an index of 16 bytes for each message, then the messages, as in `SendMessages`.

    Without `batch` only the front is encoded, for callers that send the batch separately. Stage 0 creates a new one,
    whose number is in the answer. Chunks are counted from 0 in each stage; a repeated chunk is answered again. The last
    one may have no messages. A lifetime applies to a new stage; 0: the server's default. Decode the answer with
    `decode_staged_messages`.
    """

def encode_get_transaction(*, stream: int | str, transaction: str) -> _Encoded: ...
def encode_delete_transaction(*, stream: int | str, transaction: str) -> _Encoded: ...
def encode_unpin_reader(*, stream: int | str, reader: str) -> _Encoded: ...
def decode_transaction_result(payload: bytes) -> TransactionResult: ...
def decode_pinned_reader(payload: bytes) -> PinnedReader: ...
def decode_capabilities(payload: bytes) -> Capabilities: ...
def decode_quota(payload: bytes) -> Quota | None: ...
def decode_quotas(payload: bytes) -> list[QuotaRecord]: ...
def decode_watched_partitions(payload: bytes, *, names_openings: bool = False) -> list[WatchedPartition]:
    """Decode notifications, with openings if those were asked for."""

def cut_since(openings: Sequence[tuple[int, int]], *, epoch: int, position: int) -> int | None:
    """Return where a log was cut since a reader was at a position in the opening `epoch`.

    None if it was not, or if that is unknown: the epoch is 0, or there are no openings.
    """

@final
class TransactionResult:
    """Result of a commit or an abort of a batch."""

    already_committed: bool
    """True if an earlier command has committed the batch: this one has changed nothing. False: this command took
    effect.
    """
    number: int
    """Number of the last commit of the transaction; 0 if there is none."""

@final
class PinnedReader:
    """Value pinned for a reader."""

    was_there: bool
    """True if an earlier request has pinned the value."""
    value: bytes
    """Value that is pinned: the earlier one, if there was one."""

@final
class Quota:
    """Limits of what a user or a topic uses; 0 stands for no limit."""

    sent_bytes_per_second: int
    """Bytes of messages sent per second."""
    read_bytes_per_second: int
    """Bytes of messages read per second."""
    held_bytes: int
    """Bytes that a topic holds; 0 for a user."""
    connections: int
    """Connections that a user has at a time; 0 for a topic."""

@final
class QuotaRecord:
    """Quota of a user, or of a topic."""

    user_id: int | None
    """Id of the user; None for a topic."""
    username: str | None
    """Name of the user; None for a topic."""
    stream_id: int | None
    """Id of the stream of the topic; None for a user."""
    stream: str | None
    """Name of the stream; None for a user."""
    topic_id: int | None
    """Id of the topic within the stream; None for a user."""
    topic: str | None
    """Name of the topic; None for a user."""
    quota: Quota
    """The limits."""

@final
class Capabilities:
    """Extensions of a server to the binary protocol."""

    version: int
    """Version, which grows when the meaning of an extension changes."""
    codes: list[int]
    """Codes of the supported commands, ascending."""
    limits: dict[int, int]
    """Limits by the number of their kind, in the unit of the kind."""

@final
class WatchedPartition:
    """State of a watched partition; a status other than 0 is the reason why it is no longer watched."""

    status: int
    """0: the partition is watched; otherwise the status code of the reason why it is no longer."""
    stream_id: int
    """Id of the stream."""
    topic_id: int
    """Id of the topic within the stream."""
    partition_id: int
    """Id of the partition within the topic."""
    incarnation: int
    """Incarnation, which distinguishes the partition from a deleted one with the same ids."""
    purge_epoch: int
    """Number that grows with every purge, after which offsets restart at 0."""
    first_offset: int
    """First offset that can be polled."""
    next_offset: int
    """Offset after the last message that can be polled."""
    openings: list[tuple[int, int]]
    """Number and end of each opening of the log, ascending; empty if they are unknown or not named."""

@final
class Watcher:
    """A connection that receives notifications about partitions. Not thread-safe."""

    def add(self, topics: list[tuple[int | str, int | str, list[int]]]) -> None:
        """Watch partitions, given as stream, topic and partitions of each topic: all or nothing.

        The state of each partition is reported at once.
        """
    def remove(self, topics: list[tuple[int | str, int | str, list[int]]]) -> None:
        """Watch these partitions no longer, given as in `add`."""
    def ping(self) -> None:
        """Check that the server answers."""
    def next(self, timeout_seconds: float) -> list[WatchedPartition]:
        """Receive notifications, the newest of each partition last; empty after a timeout."""
    def close(self) -> None:
        """Close the connection. Later calls raise `ConnectionLost`."""

@final
class MessageBatch:
    """Polled messages that are converted to objects lazily, one at a time."""

    partition_id: int
    """Partition that was polled; chosen by the server for a group."""
    current_offset: int
    """Offset of the last message of the partition; 0 also when there is none."""
    gap: tuple[int, int] | None
    """Offsets, from the first up to but not including the second, that were removed before they could be read."""
    @property
    def last_offset(self) -> int | None:
        """Offset of the last message; None if there is none."""
    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> Message: ...
    def __iter__(self) -> Iterator[Message]: ...

@final
class GlobalPermissions:
    """Global permissions."""

    manage_servers: bool
    """Change servers."""
    read_servers: bool
    """See statistics and clients."""
    manage_users: bool
    """Create, change and delete users."""
    read_users: bool
    """See users."""
    manage_streams: bool
    """Create, change and delete streams."""
    read_streams: bool
    """See streams."""
    manage_topics: bool
    """Create, change and delete topics."""
    read_topics: bool
    """See topics."""
    poll_messages: bool
    """Poll messages."""
    send_messages: bool
    """Send messages."""
    def __new__(
        cls,
        *,
        manage_servers: bool = False,
        read_servers: bool = False,
        manage_users: bool = False,
        read_users: bool = False,
        manage_streams: bool = False,
        read_streams: bool = False,
        manage_topics: bool = False,
        read_topics: bool = False,
        poll_messages: bool = False,
        send_messages: bool = False,
    ) -> Self: ...

@final
class TopicPermissions:
    """Permissions on one topic."""

    manage_topic: bool
    """Change and delete the topic."""
    read_topic: bool
    """See the topic."""
    poll_messages: bool
    """Poll messages from it."""
    send_messages: bool
    """Send messages to it."""
    def __new__(
        cls,
        *,
        manage_topic: bool = False,
        read_topic: bool = False,
        poll_messages: bool = False,
        send_messages: bool = False,
    ) -> Self: ...

@final
class StreamPermissions:
    """Permissions on one stream, and on its topics by their ids."""

    manage_stream: bool
    """Change and delete the stream."""
    read_stream: bool
    """See the stream."""
    manage_topics: bool
    """Create, change and delete its topics."""
    read_topics: bool
    """See its topics."""
    poll_messages: bool
    """Poll messages from its topics."""
    send_messages: bool
    """Send messages to its topics."""
    topics: dict[int, TopicPermissions]
    """Permissions on individual topics of the stream, by topic id."""
    def __new__(
        cls,
        *,
        manage_stream: bool = False,
        read_stream: bool = False,
        manage_topics: bool = False,
        read_topics: bool = False,
        poll_messages: bool = False,
        send_messages: bool = False,
        topics: Mapping[int, TopicPermissions] | None = None,
    ) -> Self: ...

@final
class Permissions:
    """All permissions of a user: global, and on streams by their ids."""

    everywhere: GlobalPermissions
    """Permissions on the whole server."""
    streams: dict[int, StreamPermissions]
    """Permissions on individual streams, by stream id."""
    def __new__(
        cls, *, everywhere: GlobalPermissions, streams: Mapping[int, StreamPermissions] | None = None
    ) -> Self: ...

@final
class User:
    """A user. `permissions` is None in listings."""

    id: int
    """Id of the user; 0 is root."""
    created_at_micros: int
    """Time of the creation, in microseconds since the Unix epoch."""
    status: _UserStatus
    """State of the user: `active`, or `inactive`, who may not log in."""
    username: str
    """Name of the user."""
    permissions: Permissions | None
    """Permissions of the user; None in listings, and for a user without any."""

@final
class GroupMember:
    """A member of a consumer group."""

    id: int
    """Id within the group, unrelated to the id of the connection."""
    partitions: list[int]
    """Ids of the partitions that are assigned to the member."""

# ---- messages as columns in Arrow's layout

@final
class ColumnBuffer:
    """Immutable memory of a column; readable through the buffer protocol, and kept while a view exists."""

    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

@final
class ColumnArray:
    """One column, or the child values of one, in Arrow's layout for its type."""

    length: int
    """Number of values, including nulls."""
    null_count: int
    """Number of nulls."""
    buffers: list[ColumnBuffer | None]
    """Buffers in Arrow's order; the first is the validity bitmap, and is None if there are no nulls."""
    children: list[ColumnArray]
    """Child arrays: of a list its values; of a struct its fields."""

@final
class RecordColumns:
    """Messages of one partition as columns. Offsets have no gaps."""

    rows: int
    """Number of rows, the same in every column."""
    first_offset: int
    """Offset of the first row."""
    columns: list[ColumnArray]
    """Columns in the requested order."""

@final
class RecordDecoder:
    """Decodes the messages of one partition to columns.

    Columns: `stream`, `topic` (utf8), `partition` (int32): the same in every row; `offset` (int64); `timestamp`,
    `origin_timestamp` (int64, microseconds since the Unix epoch; the latter null if the client's value needs 64 bits);
    `id` (binary, the 16 bytes of a UUID); `key` (binary, null if there is none); `value` (binary); `headers` (list of
    struct of utf8 `key` and binary `value`, null if they cannot be read, for example because they are encrypted). The
    key is the value of the user header `headrace.key`, which `headers` omits.
    """

    def __new__(
        cls,
        columns: Sequence[str],
        *,
        start: int,
        end: int | None = None,
        partition: int,
        verify: bool = True,
        batch_rows: int = 16_384,
        batch_bytes: int = 4_194_304,
        stream: str = "",
        topic: str = "",
    ) -> Self:
        """Create a decoder.

        Args:
            columns: Columns of a batch, in this order, without duplicates. Without any, batches only have a row count.
            start: Offset of the first message that is taken.
            end: Offset after the last message that is taken; later messages are ignored. None: no limit.
            partition: Expected partition of the messages.
            verify: Whether checksums are compared, also of messages that are skipped.
            batch_rows: Maximum number of rows of a batch.
            batch_bytes: Maximum size of a batch, unless a single row is larger.
            stream: Value of the column `stream`.
            topic: Value of the column `topic`.

        Raises:
            ValueError: A column is unknown or a duplicate; the range ends before it starts; a bound is 0 or needs more
                than 31 bits.
        """

    @property
    def next_offset(self) -> int:
        """Offset of the next message: where to resume after a failed call."""

    @property
    def is_complete(self) -> bool:
        """Return whether the whole range was decoded."""

    def feed(self, payload: Buffer) -> list[RecordColumns]:
        """Decode the messages of a payload, `FetchResponse.polled`, and return the batches that have become full.

        The payload may begin before the next offset: such messages are skipped. An empty payload has no messages.

        Args:
            payload: Any object with the buffer protocol. A read-only one, like `bytes` or a `memoryview` of them, is
                not copied.

        Raises:
            RecordError: A message is not the expected one, or damaged. Messages before it are taken: `finish` and later
                calls return them, and another payload may continue at `next_offset`.
        """

    def finish(self) -> list[RecordColumns]:
        """Return all remaining batches, the last one incomplete. The caller checks whether the range was complete."""

@final
class InputArray:
    """An array of an Arrow library, as its buffers. Their contents are validated when they are read."""

    def __new__(
        cls,
        layout: Literal["binary", "large_binary", "fixed_binary", "int32", "int64", "list", "large_list", "struct"],
        buffers: Sequence[Buffer | None],
        *,
        offset: int = 0,
        width: int = 0,
        children: Sequence[InputArray] | None = None,
    ) -> Self:
        """Wrap buffers, in Arrow's order for the layout; texts have the layout of binary, times that of int64.

        Args:
            layout: Arrow's layout.
            buffers: The validity bitmap (None: no nulls); then offsets and values. A struct only has the first.
                Read-only buffers are not copied.
            offset: Number of values in the buffers before the first of the array.
            width: Bytes of each value of `fixed_binary`.
            children: Of a list its values; of a struct its fields, which begin where the struct does.

        Raises:
            ValueError: The number of buffers or children does not match the layout.
        """

def records_digest(rows: int, *, offset: InputArray, timestamp: InputArray, key: InputArray, value: InputArray) -> int:
    """Digest of the contents of messages, 64 bits: digests of parts add up, modulo 2^64, to that of the whole.

    The sum, over all messages, of XXH3-64 of the key (of nothing, without one), seeded with the time in microseconds
    plus XXH3-64 of the payload, seeded with the offset.

    Args:
        rows: Number of messages.
        offset: `int64`.
        timestamp: Time of the server, `int64`, microseconds since the Unix epoch.
        key: Bytes; null if there is none.
        value: Bytes.

    Raises:
        TypeError: A column has another layout.
        ValueError: An offset, time or payload is null, or buffers end too early.
    """

@final
class EncodedBatch:
    """Messages for one partition."""

    partition: int
    """The partition."""
    messages_count: int
    """Number of messages, at least one."""
    batch: bytes
    """An index of 16 bytes for each message, then the messages: `AppendRequest.batch`."""

@final
class RecordEncoder:
    """Encodes rows to batches, by partition.

    A row goes to the partition that it names, otherwise to the one that its key hashes to, otherwise to the current
    partition of a round robin that advances with every batch. Within a partition rows keep their order.
    """

    def __new__(
        cls,
        *,
        partitions_count: int,
        partition_by_key: bool = True,
        first_partition: int = 0,
        batch_bytes: int = 1_048_576,
        memory_bytes: int = 67_108_864,
        origin_timestamp_micros: int = 0,
    ) -> Self:
        """Create an encoder.

        Args:
            partitions_count: Number of partitions of the topic.
            partition_by_key: Whether keys choose partitions, by the same hash as the server's.
            first_partition: Start of the round robin. Tasks that start at different partitions spread their rows.
            batch_bytes: Maximum size of a batch, index included, unless a single message is larger.
            memory_bytes: Maximum size of the unfinished batches of all partitions; when reached, all are closed.
            origin_timestamp_micros: Origin timestamp of rows without one; microseconds since the Unix epoch.

        Raises:
            ValueError: No partition, or more than topics have; a bound is 0 or needs more than 31 bits.
        """

    def push(
        self,
        rows: int,
        *,
        value: InputArray,
        key: InputArray | None = None,
        headers: InputArray | None = None,
        id: InputArray | None = None,  # noqa: A002
        timestamp: InputArray | None = None,
        partition: InputArray | None = None,
    ) -> list[EncodedBatch]:
        """Encode rows, and return the batches that have become full.

        Args:
            rows: Number of rows, the same in every column.
            value: Payloads; binary, 1 B to 64 MB, none null.
            key: Keys; binary, 1 to 255 B, or null. Kept as the user header `headrace.key`.
            headers: User headers; list of struct of text `key` and binary `value`, 1 to 255 B each and none null;
                together with the key 100 kB at most. None is named `headrace.key`.
            id: Ids; binary of 16 bytes, or null: the server assigns one.
            timestamp: Origin timestamps; int64, microseconds since the Unix epoch, or null.
            partition: Partitions; int32, or null.

        Raises:
            RowError: A row cannot be encoded as a message. Earlier rows are taken.
            TypeError: A column has another layout.
        """

    def finish(self) -> list[EncodedBatch]:
        """Return all remaining batches, by partition."""
