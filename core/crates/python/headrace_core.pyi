"""Headrace's native core: the data plane of one process, a client and a load generator.

Every call releases the GIL while native code works. Objects refuse to be used after a fork: start them in the
process that uses them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal, Self, TypeAlias, final

from typing_extensions import Buffer

__version__: str

class CoreError(Exception):
    """Native code refuses or fails. `args[0]` says what was wrong and what to do."""

class ServerError(CoreError):
    """The server answered a request with an error status."""

    code: int
    """The status code (see `headrace_proto.errors`)."""
    name: str
    """Its name."""

class ConnectionLost(CoreError):
    """The connection could not be made, or broke while a request was in flight."""

class CodecError(CoreError):
    """A value has no encoding, or bytes are not what they should be."""

    defect: Literal["syntax", "shape", "value", "too_large"]
    """Not of the format at all; of another structure or type; refused; more than the caller allows."""
    code: int
    """The status code that fits (see `headrace_proto.errors`)."""
    field: str | None
    """Where it is, as a path: `messages[3].payload`."""
    position: int | None
    """Byte of the input, where there is one."""

class RecordError(CoreError):
    """Messages of a partition are not what was asked for, or damaged. Those before are taken: see `RecordDecoder`."""

    defect: Literal["truncated", "count", "partition", "offset", "range", "reserved", "checksum", "size"]
    """Bytes end inside a message; not as many messages as announced; of another partition; not the offset that comes
    next (messages are missing if it is greater); an offset or timestamp beyond 63 bits; a reserved field that is not 0;
    not the bytes that were stored; larger than any message."""
    offset: int | None
    """Of the message, as it says so itself. None: there is no whole header."""
    byte: int
    """Where the message, or what is wrong, begins in the payload."""
    expected_offset: int | None
    """The offset that comes next, of the defect `offset`."""

class RowError(CoreError):
    """A row cannot be a message. Those before it are taken."""

    row: int
    """Which of the rows that were given."""
    column: str
    """Which of its columns."""

class StartError(CoreError):
    """The node cannot start: a setting, an address or the data folder is the reason."""

_RequestTrace: TypeAlias = tuple[Literal["request"], tuple[int, int], int, int, str | None, int, int, int, int]
"""A traced request at its connection: key, trace id, id of the span that it is a part of, name of the command (None: it
is none), when it was started and when its answer was ready, status of the answer, bytes of a batch."""
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
"""The same request, with the same key, at its partition: shard that owns it; stream, topic and partition; whether it is
a batch; when it came, when the write of its messages was started, when they were in the file and on the device, when it
was answered; whether as it was asked for; messages.

Times are microseconds since the Unix epoch, 0 for what did not happen before the answer. A key is the number of a shard
and of a request. Either record may be missing."""

@final
class Node:
    """Shards, their partitions and the binary front.

    Order of calls: construct, `publish_snapshot`, `start`, wait until `recovery()[1] == 0`, `listen`, serve control
    requests, `stop`.
    """

    def __new__(cls, config_json: str, edge: Edge | None = None) -> Self:
        """Check the settings (JSON object, fields of `NodeConfig` in core/crates/runtime/src/config.rs).

        Args:
            config_json: The settings.
            edge: Opens connections with other nodes if its settings have `links`; else they are plain TCP.

        Raises:
            StartError: A setting is unknown or wrong.
        """
    def publish_snapshot(self, snapshot: bytes) -> int:
        """Publish a whole catalogue (`headrace.catalog.v1.Snapshot`); returns its version."""
    def publish_update(self, update: bytes) -> int:
        """Publish the next version of the catalogue (`headrace.catalog.v1.Update`); returns its version.

        When this returns, every shard acts on the new version.
        """
    def pass_stage_horizon(self, horizon_micros: int) -> None:
        """Say that the catalogue that was published last has all changes up to a time of the metadata service.

        Stages that had expired by then, and that it does not name, are dropped: no commit has them any more.

        Args:
            horizon_micros: Since the Unix epoch.
        """
    def start(self) -> dict[str, str]:
        """Bind the address, start the shard threads and open the partitions of the catalogue.

        Returns:
            `driver` (`uring` or `poll`), `driver_reason` (why it is not the ring; empty when it is), `shards`
            (their number), `tcp_address` and `websocket_address` (really bound; empty when not listening).

        Raises:
            StartError: The address is taken, the data folder is not usable, a thread cannot be started.
        """
    def recovery(self) -> tuple[int, int]:
        """Partitions owned by the shards, and how many of them still recover."""
    def failures(self) -> list[tuple[str, str]]:
        """Partitions that closed themselves: `stream/topic/partition` and the reason."""
    def listen(self) -> None:
        """Accept connections from now on."""
    def open_session(self, user_id: int, address: str | None = None, interface: int = 0) -> int:
        """Connect this process with the node, logged in as a user: nothing checks who asks for it.

        Args:
            user_id: The user.
            address: Where the user is (``ip:port``), when the connection is for one caller.
            interface: The number that the process has given to the interface that the caller uses.

        Returns:
            The descriptor of a blocking stream socket that speaks the binary protocol; the caller owns it.

        Raises:
            CoreError: The node does not run, or there are no descriptors left.
        """
    def issuer_may(self, issuer: tuple[int, int, int], topic: tuple[int, int], read: bool, write: bool) -> bool:
        """Whether a ticket still opens a topic: `Ticket.issuer`, the ids of stream and topic, what is wanted."""
    def fileno(self) -> int:
        """Readable while control requests wait: register it with the event loop."""
    def take_requests(self) -> list[tuple[int, bytes]]:
        """Control requests that arrived: identifier and `headrace.control.v1.Request`."""
    def reply(self, request_id: int, reply: bytes) -> None:
        """Answer a control request with a `headrace.control.v1.Reply`. A second answer is ignored."""
    def take_events(self) -> list[tuple[str, str]]:
        """Things worth a log line since the last call: level (`info`, `warning`, `error`) and message."""
    def stats_json(self) -> str:
        """Counters as a JSON object: connections, pool, mailboxes, driver, partitions, commands."""
    def take_traces(self) -> list[_RequestTrace | _PartitionTrace]:
        """What requests that are traced have left since the last call, if the setting `tracing` is on."""
    def stop(self, timeout_seconds: float = 30.0) -> bool:
        """Stop: refuse new work, answer what is in flight, flush, sync and close. `False`: forced after the timeout."""

@final
class Edge:
    """The encrypted doors in front of a node: TLS over TCP and WebSocket, and QUIC, on threads of their own.

    With `links` in its settings it encrypts what a gateway says to partition nodes, too.

    Order of calls: construct (which binds), `start` when the node listens, `close_doors`, stop the node, whose goodbye
    still reaches the clients, `stop`.
    """

    def __new__(cls, config_json: str) -> Self:
        """Read the certificates and bind (JSON object, fields of `EdgeConfig` in core/crates/edge/src/config.rs).

        Raises:
            StartError: A setting is wrong, a certificate cannot be used, an address is taken.
        """
    def addresses(self) -> dict[str, str]:
        """Per door (`tcp`, `websocket`, `quic`, `binary`) the address really bound."""
    def start(self, node: Node) -> None:
        """Let clients in, to be served by `node`.

        Raises:
            StartError: The ports cannot be listened on, or it was started before.
        """
    def reload_certificates(self) -> None:
        """Look at the files of the certificates now; what comes of it is told by `take_events`."""
    def take_events(self) -> list[tuple[str, str]]:
        """As `Node.take_events`."""
    def stats_json(self) -> str:
        """Counters as a JSON object, per door, and for `links`: connections, handshakes, failures by reason, bytes."""
    def close_doors(self) -> None:
        """Let nobody in any more; connections stay."""
    def stop(self, timeout_seconds: float = 5.0) -> bool:
        """Wait for the last connections to end, and end the threads. `False`: some were cut off after the timeout."""

class ReplicaError(CoreError):
    """The metadata replica cannot start, or has stopped. `args[0]` says why and what to do."""

    reason: str
    """For programs: `settings`, `folder_in_use`, `other_cluster`, `other_replica`, `damaged`, `newer_release`,
    `storage`, `address` or `stopped`."""

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
"""What a metadata replica has to tell, in order. The first field says what it is:

- `("restore", op, state)`: replace the state by this one, which `op` led to; `state` is what `checkpoint` was once
  given, here or by a peer. Answer with `restored(op)`. Comes first after a start when there is a checkpoint, and later
  when this replica lagged so far behind that it was sent a peer's state.
- `("apply", op, timestamp_ns, [(ticket, command), ...])`: apply these commands in order; answer with
  `applied(op, replies)`. `timestamp_ns` (nanoseconds since the Unix epoch) grows strictly from op to op and is the
  same on every replica. A ticket other than 0 names a proposal made here, which this event completes: its reply is
  what the state machine answers. No other event follows for such a ticket. Ops that concern the replicas
  alone are not told.
- `("checkpoint", op)`: give the state that everything told before led to with `checkpoint(op, state)`, now or later
  (applying goes on meanwhile).
- `("answered", ticket, session, reply)`: the request of this ticket was executed, now or at an earlier attempt, and
  answered by the state machine with `reply`; every effect of it was told before. `session` is that of the request, and
  the new one after `open`.
- `("refused", ticket, reason, primary)`: the proposal, request or read of this ticket was not taken. `reason`:
  `not_primary` (`primary` is the index of the replica to ask, -1 when unknown), `busy`, `storage` (the disk is full),
  `oversize`, `release` (some replica may not know the command yet) - none of these was or will be applied;
  `unknown`: it may or may not be applied (the view changed while it was in flight). Of requests alone: `session_ended`
  (there is no such session any more; whether the request was applied before is not known), `session_fenced` (the caller
  has opened a newer one), `stale` (a request with a higher number was executed before), `reused` (the number belongs to
  another command).
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
        """Check the settings (JSON object, fields of `ReplicaConfig` in core/crates/replica/src/config.rs).

        Raises:
            ReplicaError: A setting is unknown or wrong.
        """
    def start(self) -> dict[str, str]:
        """Lock and open the folder (made if need be), recover, listen to the peers and start the thread.

        Returns:
            `address` (really bound for the peers; empty when alone), `incarnation` (starts of this folder),
            `checkpoint_op`, `head_op`.

        Raises:
            ReplicaError: See `reason`.
        """
    def fileno(self) -> int:
        """Readable while events wait."""
    def take(self) -> list[_ReplicaEvent]:
        """Events since the last call, oldest first."""
    def renew_certificates(self) -> bool:
        """Look at the certificate files; whether others are used for connections with peers from now on.

        Raises `ReplicaError` when what is there cannot be used, once for each content of the files.
        """
    def propose(self, command: bytes) -> int:
        """Have a command ordered, replicated and applied; returns its ticket (never 0).

        Raises:
            ReplicaError: The replica has stopped.
        """
    def propose_many(self, commands: list[bytes], since: list[int] | None = None) -> list[int]:
        """As `propose` for each, with one wake-up.

        Args:
            commands: In their order.
            since: For each the release since which there is one, packed (``major << 16 | minor << 8 | patch``); the
                first release when not given. What is not in force yet is refused with the reason `release`.
        """
    def request_many(
        self, requests: list[tuple[int, int, int, Literal["open", "propose", "close"], int, bytes]]
    ) -> list[int]:
        """Have requests of sessions executed, each at most once however often it is sent; returns their tickets.

        Args:
            requests: Client (128 bits, not 0), session and number (0 to open), what is asked, the packed release since
                which there is the command, the command (empty but to propose). A request that is sent again has to be
                the same in everything.

        Raises:
            ReplicaError: The replica has stopped.
        """
    def read_index(self) -> int:
        """Ask for the op that a linearizable read has to see; returns the ticket of the `read` event."""
    def applied(self, op: int, replies: list[bytes]) -> None:
        """Answer an `apply`. As many replies as it had commands."""
    def checkpoint(self, op: int, state: bytes) -> None:
        """Answer a `checkpoint`."""
    def restored(self, op: int) -> None:
        """Answer a `restore`."""
    def abdicate(self) -> None:
        """If primary: have the others choose another one. Used before a planned stop."""
    def status_json(self) -> str:
        """A JSON object: role, view, primary, ops, journal, peers with their connections, counters.

        Fields of `ReplicaStatus` in core/crates/replica/src/status.rs. Also works after the replica has stopped.
        """
    def stop(self, timeout_seconds: float = 10.0) -> bool:
        """Commit nothing more, make what was written durable, mark the folder as cleanly closed and release it.

        `False`: the thread did not end in time; the folder stays locked until it does. Later calls do nothing.
        """

def inspect_replica(folder: str, first_op: int = 0, limit: int = 100) -> str:
    """Read a replica's folder without changing it, also of a running one; returns a JSON object.

    Superblock, checkpoints, journal files with their verdict, and up to `limit` records from `first_op` on (fields of
    `FolderReport` in core/crates/replica/src/inspect.rs).

    Raises:
        ReplicaError: There is no replica in the folder, or it cannot be read.
    """

def owner_shard(stream_id: int, topic_id: int, partition_id: int, shards: int) -> int:
    """The shard that owns a partition. Raises ValueError when an identifier exceeds its bits or `shards` is 0."""

def keep_freed_memory() -> bool:
    """Have the C library keep freed blocks of up to 8 MiB, 16 MiB at the end of each heap, for what is allocated next.

    For the whole process. Starting a `Node` does the same. Returns whether it does: other libraries than glibc do not.
    """

class TicketError(CoreError):
    """A text is no ticket of this cluster that is valid now. `args[0]` says why."""

@final
class Ticket:
    """What a ticket says. Without a stream it is for the whole cluster, without a partition for all of a topic."""

    holder: str
    """Who it was made for."""
    stream_id: int | None
    topic_id: int | None
    partition_id: int | None
    incarnation: int
    """Of the topic or of the partition; 0 for the cluster."""
    read: bool
    write: bool
    not_after: int
    """The last second, since the Unix epoch, in which it opens anything."""
    id: int
    """Random: tells it from others in logs."""
    issuer: tuple[int, int, int] | None
    """The user who has made it, the version of the password and the incarnation of the access token (0: none) of the
    login; None: a service has."""

@final
class TicketKey:
    """Signs the tickets of one cluster, and recognises them: see core/crates/ticket."""

    def __new__(cls, secret: str, cluster: str, *, accepted_secret: str = "") -> Self:
        """Derive the key from what the services of a cluster share, and from its name.

        While the secret is changed, tickets of those who have `accepted_secret` are recognised as well.
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
        """Make a ticket: for the cluster, for a topic (stream and topic), or for a partition (all three).

        Args:
            holder: Who it is made for, as it is to be read in logs; 1 to 255 bytes.
            not_after: The last second, since the Unix epoch, in which it opens anything.
            stream_id: Of the topic; without it the ticket opens the whole cluster.
            topic_id: What it opens, or of the partition.
            partition_id: What it opens, if not the whole topic.
            incarnation: Of the topic, or of the partition if there is one.
            read: Whether messages and offsets may be read, and offsets stored.
            write: Whether messages may be appended.
            issuer: The user who makes it, see `Ticket.issuer`; None: a service does.

        Raises:
            ValueError: The name is empty or too long, or the numbers name no such thing.
        """
    def verify(self, ticket: str, *, now: int) -> Ticket:
        """Say what a ticket opens that is shown at `now`, in seconds since the Unix epoch.

        Raises:
            TicketError: It is none of this cluster, or its time is over.
        """

@final
class Stream:
    """A stream. `topics` is empty in listings."""

    id: int
    name: str
    created_at_micros: int
    topics_count: int
    size_bytes: int
    messages_count: int
    topics: list[Topic]

@final
class Partition:
    """A partition of a topic."""

    id: int
    created_at_micros: int
    segments_count: int
    current_offset: int
    size_bytes: int
    messages_count: int

@final
class Topic:
    """A topic. `partitions` is empty in listings."""

    id: int
    name: str
    created_at_micros: int
    partitions_count: int
    message_expiry_micros: int
    compression: Literal["none", "gzip"]
    replication_factor: int
    max_size_bytes: int
    size_bytes: int
    messages_count: int
    partitions: list[Partition]

@final
class Message:
    """A message as it was stored."""

    checksum: int
    offset: int
    timestamp_micros: int
    origin_timestamp_micros: int
    id: int
    payload: bytes
    user_headers: bytes

@final
class Polled:
    """The answer to a poll."""

    partition_id: int
    current_offset: int
    messages: list[Message]
    gap: tuple[int, int] | None
    """What `wait` has not found any more: from this offset up to, but without, that one."""

@final
class PartitionDescription:
    """How a partition is, and where."""

    id: int
    state: Literal["serving", "failed", "unreachable", "unplaced"]
    node_id: int
    """0: there are no partition nodes, or it is placed on none."""
    node: str
    """The name of that node."""
    first_offset: int
    """The first that is kept; behind the last one when nothing is."""
    next_deletion_at_micros: int
    """Before this nothing is removed for its age; 0: that is not known, or nothing ever is."""

@final
class Client:
    """A blocking client of the classic binary protocol. One thread at a time.

    Identifiers of streams and topics are numbers or names: a Python `int` is a number, a `str` a name.
    """

    @staticmethod
    def connect(address: str, timeout_seconds: float = 10.0, *, transport: str = "tcp") -> Client:
        """Connect to `host:port` by `tcp` or `websocket`.

        Through TLS to `tls://host:port?ca=FILE`, whose certificate one of the authorities in FILE (PEM) must have
        signed for that host (or for `name=NAME`); `verify=no` in place of `ca` takes any certificate.
        """
    def login(self, username: str, password: str) -> int:
        """Returns the user's id."""
    def login_with_token(self, token: str) -> int: ...
    def login_with_ticket(self, ticket: str) -> None:
        """At a partition node: for what the ticket is for."""
    def ping(self) -> None: ...
    def stats(self) -> Stats: ...
    def streams(self) -> list[Stream]: ...
    def create_stream(self, name: str) -> Stream: ...
    def delete_stream(self, stream: int | str) -> None: ...
    def topics(self, stream: int | str) -> list[Topic]: ...
    def topic(self, stream: int | str, topic: int | str) -> Topic | None: ...
    def create_topic(
        self,
        stream: int | str,
        name: str,
        partitions: int,
        message_expiry_micros: int = 0,
        max_size_bytes: int = 0,
    ) -> Topic: ...
    def delete_topic(self, stream: int | str, topic: int | str) -> None: ...
    def send(
        self,
        stream: int | str,
        topic: int | str,
        payloads: list[bytes],
        *,
        partition: int | None = None,
        key: bytes | None = None,
    ) -> None:
        """Append messages: to `partition`, to the partition of `key`, or balanced when neither is given."""
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

        With `group` as a member of it (`join_group` first); without a partition the server then takes the partitions
        that this member owns in turn.
        """
    def explain_refusals(self) -> None:
        """Have the server say more of refusals than their status, where it can."""
    def describe_partitions(self, stream: int | str, topic: int | str) -> list[PartitionDescription]: ...
    def capabilities(self) -> Capabilities:
        """What the server offers beyond the classic protocol."""
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
        """As `poll`, but wait until there are `minimum_bytes` of messages, or `count` of them, or the time is over.

        Of a group and without a partition it waits for all partitions that this member owns. When a signal's handler
        raises meanwhile the client is closed.
        """
    def watcher(self) -> Watcher:
        """Use the connection, logged in, for being notified of partitions. The client is closed then."""
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
        """Store the offset of the last message that was processed: by a consumer, or by a member for its group."""
    def offset(
        self,
        stream: int | str,
        topic: int | str,
        partition: int | None,
        consumer: int | str = ...,
        *,
        group: int | str | None = None,
    ) -> ConsumerOffset | None:
        """The offset that is stored for a consumer, or for a group (of which nobody needs to be a member)."""
    def delete_offset(
        self,
        stream: int | str,
        topic: int | str,
        partition: int | None,
        consumer: int | str = ...,
        *,
        group: int | str | None = None,
    ) -> None: ...
    def groups(self, stream: int | str, topic: int | str) -> list[ConsumerGroup]: ...
    def group(self, stream: int | str, topic: int | str, group: int | str) -> ConsumerGroup | None: ...
    def create_group(self, stream: int | str, topic: int | str, name: str) -> ConsumerGroup: ...
    def delete_group(self, stream: int | str, topic: int | str, group: int | str) -> None:
        """Delete a group with its offsets."""
    def join_group(self, stream: int | str, topic: int | str, group: int | str) -> None:
        """Make this connection a member; closing it ends that, too."""
    def leave_group(self, stream: int | str, topic: int | str, group: int | str) -> None: ...
    def close(self) -> None: ...

def bench_run(config_json: str, progress: Callable[[str], bool] | None = None) -> str:
    """Run the load generator; returns its report as JSON.

    Args:
        config_json: Settings (fields of `BenchConfig` in core/crates/client).
        progress: Called about five times a second with a JSON object of counters; returns whether to go on.
    """

def null_listener(
    address: str,
    message_size_bytes: int = 1000,
    messages_per_poll: int = 1000,
    on_bound: Callable[[str], None] | None = None,
) -> None:
    """Serve as the listener that reads and discards, until a signal handler raises (KeyboardInterrupt, SystemExit).

    Args:
        address: `host:port`; port 0 takes a free one.
        message_size_bytes: Payload of the messages in the prepared answer to polls.
        messages_per_poll: Messages in it.
        on_bound: Called once with the address really bound.
    """

# ---- the binary protocol as bytes, for whoever has a connection of their own

_Encoded: TypeAlias = tuple[int, bytes]
"""Code of the command and its payload. `CodecError` when a value has no encoding."""
_Typed: TypeAlias = tuple[str, bytes]
"""A header's kind (`string`, `uint32`, ...) and its bytes, numbers little-endian."""
_Compression: TypeAlias = Literal["none", "gzip"]
_UserStatus: TypeAlias = Literal["active", "inactive"]
_Strategy: TypeAlias = Literal["offset", "timestamp", "first", "last", "next"]

def encode_ping() -> _Encoded: ...
def encode_get_stats() -> _Encoded: ...
def encode_get_cluster_metadata() -> _Encoded: ...
def encode_get_me() -> _Encoded: ...
def encode_get_clients() -> _Encoded: ...
def encode_get_users() -> _Encoded: ...
def encode_logout_user() -> _Encoded: ...
def encode_get_personal_access_tokens() -> _Encoded: ...
def encode_get_streams() -> _Encoded: ...
def encode_get_client(*, client_id: int) -> _Encoded: ...
def encode_disconnect_client(*, client_id: int) -> _Encoded: ...
def encode_get_snapshot(*, compression: int, kinds: Sequence[int]) -> _Encoded:
    """Codes of the binary protocol."""

def encode_get_user(*, user: int | str) -> _Encoded: ...
def encode_delete_user(*, user: int | str) -> _Encoded: ...
def encode_create_user(
    *, username: str, password: str, status: _UserStatus = "active", permissions: Permissions | None = None
) -> _Encoded: ...
def encode_update_user(
    *, user: int | str, username: str | None = None, status: _UserStatus | None = None
) -> _Encoded: ...
def encode_update_permissions(*, user: int | str, permissions: Permissions | None) -> _Encoded: ...
def encode_change_password(*, user: int | str, current_password: str, new_password: str) -> _Encoded: ...
def encode_login_user(*, username: str, password: str, version: str = "", context: str = "") -> _Encoded: ...
def encode_login_with_personal_access_token(*, token: str) -> _Encoded: ...
def encode_create_personal_access_token(*, name: str, expiry_micros: int = 0) -> _Encoded: ...
def encode_delete_personal_access_token(*, name: str) -> _Encoded: ...
def encode_get_stream(*, stream: int | str) -> _Encoded: ...
def encode_delete_stream(*, stream: int | str) -> _Encoded: ...
def encode_purge_stream(*, stream: int | str) -> _Encoded: ...
def encode_get_topics(*, stream: int | str) -> _Encoded: ...
def encode_get_topic(*, stream: int | str, topic: int | str) -> _Encoded: ...
def encode_delete_topic(*, stream: int | str, topic: int | str) -> _Encoded: ...
def encode_purge_topic(*, stream: int | str, topic: int | str) -> _Encoded: ...
def encode_get_consumer_groups(*, stream: int | str, topic: int | str) -> _Encoded: ...
def encode_get_consumer_group(*, stream: int | str, topic: int | str, group: int | str) -> _Encoded: ...
def encode_delete_consumer_group(*, stream: int | str, topic: int | str, group: int | str) -> _Encoded: ...
def encode_join_consumer_group(*, stream: int | str, topic: int | str, group: int | str) -> _Encoded: ...
def encode_leave_consumer_group(*, stream: int | str, topic: int | str, group: int | str) -> _Encoded: ...
def encode_create_stream(*, name: str) -> _Encoded: ...
def encode_update_stream(*, stream: int | str, name: str) -> _Encoded: ...
def encode_create_topic(
    *,
    stream: int | str,
    name: str,
    partitions_count: int,
    compression: _Compression = "none",
    message_expiry_micros: int = 0,
    max_size_bytes: int = 0,
    replication_factor: int = 0,
) -> _Encoded: ...
def encode_update_topic(
    *,
    stream: int | str,
    topic: int | str,
    name: str,
    compression: _Compression = "none",
    message_expiry_micros: int = 0,
    max_size_bytes: int = 0,
    replication_factor: int = 0,
) -> _Encoded: ...
def encode_create_partitions(*, stream: int | str, topic: int | str, partitions_count: int) -> _Encoded: ...
def encode_delete_partitions(*, stream: int | str, topic: int | str, partitions_count: int) -> _Encoded: ...
def encode_delete_segments(*, stream: int | str, topic: int | str, partition: int, segments_count: int) -> _Encoded: ...
def encode_create_consumer_group(*, stream: int | str, topic: int | str, name: str) -> _Encoded: ...
def encode_poll_messages(
    *,
    stream: int | str,
    topic: int | str,
    consumer: int | str = ...,
    is_group: bool = False,
    partition: int | None = None,
    strategy: _Strategy = "next",
    value: int = 0,
    count: int = 100,
    auto_commit: bool = False,
) -> _Encoded: ...
def encode_flush_unsaved_buffer(
    *, stream: int | str, topic: int | str, partition: int, fsync: bool = False
) -> _Encoded: ...
def encode_get_consumer_offset(
    *,
    stream: int | str,
    topic: int | str,
    consumer: int | str = ...,
    is_group: bool = False,
    partition: int | None = None,
) -> _Encoded: ...
def encode_delete_consumer_offset(
    *,
    stream: int | str,
    topic: int | str,
    consumer: int | str = ...,
    is_group: bool = False,
    partition: int | None = None,
) -> _Encoded: ...
def encode_store_consumer_offset(
    *,
    stream: int | str,
    topic: int | str,
    offset: int,
    consumer: int | str = ...,
    is_group: bool = False,
    partition: int | None = None,
) -> _Encoded: ...
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
    """One batch of messages: id (0 leaves it to the server), payload, encoded user headers."""

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
    """One message for each line, whose JSON text is its payload. Empty lines are skipped."""

def encode_send_messages_json(
    body: bytes,
    *,
    stream: int | str,
    topic: int | str,
    origin_timestamp_micros: int = 0,
    size_bytes_max: int = ...,
) -> _Encoded:
    """From `{"partitioning": {"kind", "value"}, "messages": [{"id", "payload", "user_headers"}]}`, values in base64."""

def polled_json(payload: bytes, *, numbers_as_text: bool = False, names_gap: bool = False) -> bytes:
    """The answer to a poll as JSON; `numbers_as_text` quotes the numbers that a double cannot hold.

    `names_gap`: as of `decode_polled`.
    """

def polled_events(
    payload: bytes, *, numbers_as_text: bool = False, names_gap: bool = False
) -> tuple[bytes, int | None]:
    """Each polled message as a server-sent event whose id is its offset; and the last offset.

    `names_gap`: as of `decode_polled`; where something is missing, an event `gap` comes first.
    """

def encode_user_headers(headers: Sequence[tuple[_Typed, _Typed]]) -> bytes: ...
def decode_user_headers(encoded: bytes) -> list[tuple[_Typed, _Typed]] | None:
    """None: they are not readable, perhaps because a client has encrypted them."""

def decode_stream(payload: bytes) -> Stream | None: ...
def decode_topic(payload: bytes) -> Topic | None: ...
def decode_user(payload: bytes) -> User | None: ...
def decode_connection(payload: bytes) -> Connection | None: ...
def decode_consumer_group(payload: bytes) -> ConsumerGroup | None: ...
def decode_consumer_offset(payload: bytes) -> ConsumerOffset | None: ...
def decode_streams(payload: bytes) -> list[Stream]: ...
def decode_topics(payload: bytes) -> list[Topic]: ...
def decode_users(payload: bytes) -> list[User]: ...
def decode_connections(payload: bytes) -> list[Connection]: ...
def decode_consumer_groups(payload: bytes) -> list[ConsumerGroup]: ...
def decode_access_tokens(payload: bytes) -> list[AccessToken]: ...
def decode_stats(payload: bytes) -> Stats: ...
def decode_cluster(payload: bytes) -> Cluster: ...
def decode_identity(payload: bytes) -> int: ...
def decode_raw_access_token(payload: bytes) -> str: ...
def decode_polled(payload: bytes, *, names_gap: bool = False) -> MessageBatch:
    """`names_gap`: it is the answer to a command that was encoded with that."""

def encode_describe_partitions(*, stream: int | str, topic: int | str) -> _Encoded: ...
def decode_partition_descriptions(payload: bytes) -> list[PartitionDescription]: ...
def encode_capabilities() -> _Encoded: ...
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
    """Answered like `encode_poll_messages`; with `names_gap` also with what was removed before it could be read."""

def encode_watch_partitions(
    *, topics: Sequence[tuple[int | str, int | str, Sequence[int]]], remove: bool = False
) -> _Encoded:
    """Stream, topic and partitions of each topic. Any number of payloads for `decode_watched_partitions` follow."""

def encode_set_trace_context(*, trace_id: int, span_id: int, flags: int) -> _Encoded:
    """Of 128, 64 and 8 bits; the next request of the connection is a part of that trace."""

def encode_issue_ticket(
    *,
    stream: int | str,
    topic: int | str,
    read: bool = False,
    write: bool = False,
    lifetime_seconds: int = 0,
) -> _Encoded:
    """For reading, writing or both; 0 seconds leave it to the server. Answered for `decode_issued_ticket`."""

def encode_plan_range(
    *, stream: int | str, topic: int | str, partition: int, start: int = 0, end: int = ..., target_bytes: int = 0
) -> _Encoded:
    """Up to the end, and in one part, unless something else is said. Answered for `decode_planned_range`."""

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
    """A chunk of staged messages: an index of 16 bytes for each, then the messages, as `SendMessages` has them.

    Without `batch` it is what stands before that, for whoever sends it apart. Stage 0 begins a new one, whose number
    the answer has. Chunks are counted from 0 in each stage; one that was taken before is answered again. The last one
    may have no messages. A lifetime is that of a new stage; 0 leaves it to the server. Answered for
    `decode_staged_messages`.
    """

def encode_commit_transaction(
    *,
    stream: int | str,
    transaction: str,
    query_id: str,
    batch_id: int,
    stages: Sequence[tuple[int, int, int, int]],
    fence: bool = False,
) -> _Encoded:
    """Of each stage the ids of topic and partition, the partition's incarnation, and the stage.

    Answered for `decode_transaction_result`, like an abort.
    """

def encode_abort_transaction(
    *,
    stream: int | str,
    transaction: str,
    query_id: str,
    batch_id: int,
    stages: Sequence[tuple[int, int, int, int]],
) -> _Encoded: ...
def encode_get_transaction(*, stream: int | str, transaction: str) -> _Encoded: ...
def encode_delete_transaction(*, stream: int | str, transaction: str) -> _Encoded: ...
def encode_pin_reader(*, stream: int | str, reader: str, value: bytes) -> _Encoded:
    """Answered for `decode_pinned_reader`."""

def encode_unpin_reader(*, stream: int | str, reader: str) -> _Encoded: ...
def decode_staged_messages(payload: bytes) -> StagedMessages: ...
def decode_transaction_result(payload: bytes) -> TransactionResult: ...
def decode_transaction(payload: bytes) -> Transaction | None:
    """None: nothing was committed under that name."""

def decode_pinned_reader(payload: bytes) -> PinnedReader: ...
def decode_capabilities(payload: bytes) -> Capabilities: ...
def decode_planned_range(payload: bytes) -> PlannedRange: ...
def decode_issued_ticket(payload: bytes) -> IssuedTicket: ...
def decode_watched_partitions(payload: bytes) -> list[WatchedPartition]: ...

@final
class StagedMessages:
    """Messages that were staged."""

    stage: int
    """128 bits; the upper half is when it expires, in microseconds since the Unix epoch."""
    messages: int
    """In the stage so far."""
    bytes: int
    """Of these messages."""

@final
class TransactionResult:
    """What has become of a batch that was to be committed or given up."""

    already_committed: bool
    """By an earlier command; this one has changed nothing. Otherwise it is as was asked."""
    number: int
    """Of the last commit of the transaction; 0 when there is none."""

@final
class Transaction:
    """What was committed last under a name."""

    query_id: str
    batch_id: int
    number: int
    """Of the commit; it grows over all commits."""
    committed_at: int
    """Microseconds since the Unix epoch."""

@final
class PinnedReader:
    """What is kept for a reader."""

    was_there: bool
    """An earlier one has decided."""
    value: bytes

@final
class PlannedRange:
    """How a range of messages may be split."""

    first_offset: int
    """The first offset that can be polled."""
    next_offset: int
    """The offset behind the last message that can be polled."""
    splits: list[tuple[int, int]]
    """Offset and about how many bytes; each ends where the next one starts, the last one where the range ends."""

@final
class IssuedTicket:
    """A ticket for a topic."""

    ticket: str
    """To be shown to partition nodes."""
    not_after: int
    """The last second, since the Unix epoch, in which it opens anything."""

@final
class Capabilities:
    """What a server offers beyond the classic protocol."""

    version: int
    codes: list[int]
    limits: dict[int, int]

@final
class WatchedPartition:
    """What is known of a watched partition; with a status other than 0, why it is not watched any more."""

    status: int
    stream_id: int
    topic_id: int
    partition_id: int
    incarnation: int
    purge_epoch: int
    first_offset: int
    next_offset: int

@final
class Watcher:
    """A connection that is notified of what happens to partitions. One thread at a time."""

    def add(self, topics: list[tuple[int | str, int | str, list[int]]]) -> None:
        """Stream, topic and partitions of each topic: all or nothing. Each is told at once."""
    def remove(self, topics: list[tuple[int | str, int | str, list[int]]]) -> None: ...
    def ping(self) -> None: ...
    def next(self, timeout_seconds: float) -> list[WatchedPartition]:
        """What has happened, the newest of each partition last; empty when nothing has for so long."""
    def close(self) -> None: ...

@final
class MessageBatch:
    """Polled messages that become objects one at a time, when somebody looks at them."""

    partition_id: int
    current_offset: int
    gap: tuple[int, int] | None
    """From this offset up to, but without, that one all was removed before it could be read."""
    @property
    def last_offset(self) -> int | None:
        """Of the last message; None if there is none."""
    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> Message: ...
    def __iter__(self) -> Iterator[Message]: ...

@final
class GlobalPermissions:
    """Rights everywhere."""

    manage_servers: bool
    read_servers: bool
    manage_users: bool
    read_users: bool
    manage_streams: bool
    read_streams: bool
    manage_topics: bool
    read_topics: bool
    poll_messages: bool
    send_messages: bool
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
    """Rights on one topic."""

    manage_topic: bool
    read_topic: bool
    poll_messages: bool
    send_messages: bool
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
    """Rights on one stream, and on topics of it by their ids."""

    manage_stream: bool
    read_stream: bool
    manage_topics: bool
    read_topics: bool
    poll_messages: bool
    send_messages: bool
    topics: dict[int, TopicPermissions]
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
    """Everything that a user may do: everywhere, and on streams by their ids."""

    everywhere: GlobalPermissions
    streams: dict[int, StreamPermissions]
    def __new__(
        cls, *, everywhere: GlobalPermissions, streams: Mapping[int, StreamPermissions] | None = None
    ) -> Self: ...

@final
class CacheMetrics:
    """Cache use of one partition."""

    stream_id: int
    topic_id: int
    partition_id: int
    hits: int
    misses: int
    hit_ratio: float

@final
class Stats:
    """Statistics of a server."""

    process_id: int
    cpu_usage_percent: float
    total_cpu_usage_percent: float
    memory_usage_bytes: int
    total_memory_bytes: int
    available_memory_bytes: int
    run_time_micros: int
    start_time_micros: int
    read_bytes: int
    written_bytes: int
    messages_size_bytes: int
    streams_count: int
    topics_count: int
    partitions_count: int
    segments_count: int
    messages_count: int
    clients_count: int
    consumer_groups_count: int
    hostname: str
    os_name: str
    os_version: str
    kernel_version: str
    server_version: str
    server_semver: int
    cache_metrics: list[CacheMetrics]
    threads_count: int
    free_disk_space_bytes: int
    total_disk_space_bytes: int

@final
class ClusterNode:
    """One node of a cluster."""

    name: str
    ip: str
    tcp_port: int
    quic_port: int
    http_port: int
    websocket_port: int
    role: Literal["leader", "follower"]
    status: Literal["healthy", "starting", "stopping", "unreachable", "maintenance", "unknown"]

@final
class Cluster:
    """The nodes of a cluster."""

    name: str
    nodes: list[ClusterNode]

@final
class Connection:
    """A connection of a client. `groups` (stream, topic, group) is empty in listings."""

    client_id: int
    user_id: int | None
    transport: Literal["tcp", "quic", "http", "ws"]
    address: str
    groups_count: int
    groups: list[tuple[int, int, int]]

@final
class User:
    """A user. `permissions` is None in listings."""

    id: int
    created_at_micros: int
    status: _UserStatus
    username: str
    permissions: Permissions | None

@final
class AccessToken:
    """An access token without its secret."""

    name: str
    expires_at_micros: int | None

@final
class ConsumerOffset:
    """A stored offset."""

    partition_id: int
    current_offset: int
    stored_offset: int

@final
class GroupMember:
    """A member of a consumer group."""

    id: int
    partitions: list[int]

@final
class ConsumerGroup:
    """A consumer group. `members` is empty in listings."""

    id: int
    name: str
    partitions_count: int
    members_count: int
    members: list[GroupMember]

# ---- messages as columns in Arrow's layout

@final
class ColumnBuffer:
    """Memory of a column, which never changes; read through the buffer protocol, and kept while anybody has a view."""

    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

@final
class ColumnArray:
    """One column, or the values inside of one, in Arrow's layout for its type."""

    length: int
    """Values, those that are null included."""
    null_count: int
    """Values that are null."""
    buffers: list[ColumnBuffer | None]
    """In Arrow's order; the first says which values are there, and is absent when all are."""
    children: list[ColumnArray]
    """Of a list its values; of a struct its fields."""

@final
class RecordColumns:
    """Some messages of one partition, column by column. Offsets have no gaps."""

    rows: int
    """Rows, which every column has."""
    first_offset: int
    """Offset of the first row."""
    columns: list[ColumnArray]
    """In the order in which they were asked for."""

@final
class RecordDecoder:
    """Makes columns of the messages of one partition.

    Columns: `stream`, `topic` (utf8), `partition` (int32): the same in every row; `offset` (int64); `timestamp`,
    `origin_timestamp` (int64, microseconds since the Unix epoch; the latter null when what the client wrote needs 64
    bits); `id` (binary, the 16 bytes of a UUID); `key` (binary, null when there is none); `value` (binary);
    `headers` (list of struct of utf8 `key` and binary `value`, null when they cannot be read, for example because they
    are encrypted). The key is the value of the user header `headrace.key`, which `headers` leaves out.
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
        """Begin.

        Args:
            columns: What a batch has, in this order; none twice. Without any, batches have a number of rows only.
            start: Offset of the first message that is taken.
            end: Behind the last message that is taken; what comes behind is not looked at. None: whatever comes.
            partition: Whose messages these are.
            verify: Whether checksums are compared, also of messages that are passed over.
            batch_rows: Rows that a batch has at most.
            batch_bytes: Bytes that a batch has at most, unless a single row has more.
            stream: What the column `stream` says.
            topic: What the column `topic` says.

        Raises:
            ValueError: There is no such column, or it is named twice; the range ends before it starts; a bound is 0 or
                needs more than 31 bits.
        """

    @property
    def next_offset(self) -> int:
        """Offset of the message that comes next: where a call that broke goes on."""

    @property
    def is_complete(self) -> bool:
        """Whether the whole range was seen."""

    def feed(self, payload: Buffer) -> list[RecordColumns]:
        """Take the messages of a payload, `FetchResponse.polled`, and give the batches that have become full.

        It may begin before what comes next: such messages are passed over. An empty payload has no messages.

        Args:
            payload: Anything with the buffer protocol. What is read-only, like `bytes` or a `memoryview` of them, is
                not copied.

        Raises:
            RecordError: It is not what was asked for, or damaged. Messages before the one that is wrong are taken:
                `finish` and later calls give them, and another payload may go on at `next_offset`.
        """

    def finish(self) -> list[RecordColumns]:
        """All batches that are left, the last one as it is. Whether the range was complete is for the caller to say."""

@final
class InputArray:
    """An array of a library for Arrow, by its buffers. What they hold is checked when it is read."""

    def __new__(
        cls,
        layout: Literal["binary", "large_binary", "fixed_binary", "int32", "int64", "list", "large_list", "struct"],
        buffers: Sequence[Buffer | None],
        *,
        offset: int = 0,
        width: int = 0,
        children: Sequence[InputArray] | None = None,
    ) -> Self:
        """Wrap buffers, in Arrow's order for the layout; texts are laid out as binary, times as int64.

        Args:
            layout: Arrow's layout.
            buffers: Which values are there (None: all); then where they are, and what they are. A struct has the first
                only. What is read-only is not copied.
            offset: Values of the buffers before the first of the array.
            width: Bytes of each value of `fixed_binary`.
            children: Of a list its values; of a struct its fields, which begin where the struct does.

        Raises:
            ValueError: A layout has another number of buffers or children.
        """

def records_digest(rows: int, *, offset: InputArray, timestamp: InputArray, key: InputArray, value: InputArray) -> int:
    """What messages hold, as one number of 64 bits: digests of parts add up, modulo 2^64, to that of the whole.

    The sum, over all messages, of XXH3-64 of the key (of nothing, without one), seeded with the time in microseconds
    plus XXH3-64 of the payload, seeded with the offset.

    Args:
        rows: How many messages.
        offset: `int64`.
        timestamp: Of the server, `int64`, microseconds since the Unix epoch.
        key: Bytes; null where there is none.
        value: Bytes.

    Raises:
        TypeError: A column is laid out differently.
        ValueError: An offset, time or payload is null, or buffers end too early.
    """

@final
class EncodedBatch:
    """Messages for one partition."""

    partition: int
    """The partition."""
    messages_count: int
    """Messages, at least one."""
    batch: bytes
    """An index of 16 bytes for each message, then the messages: `AppendRequest.batch`."""

@final
class RecordEncoder:
    """Makes batches of rows, by partition.

    A row goes to the partition that it names, else to the one that its key hashes to, else to the one whose turn it is:
    that changes with every batch. Within a partition rows keep their order.
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
        """Begin.

        Args:
            partitions_count: Partitions of the topic.
            partition_by_key: Whether keys choose partitions, by the same hash as the server's.
            first_partition: Whose turn it is first. Tasks that begin at different ones spread their rows.
            batch_bytes: Bytes that a batch has at most, index included, unless a single message has more.
            memory_bytes: Bytes that wait in all partitions at most: then all batches are closed as they are.
            origin_timestamp_micros: Of rows that have no timestamp; microseconds since the Unix epoch.

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
        """Take rows, and give the batches that have become full.

        Args:
            rows: How many there are, in every column.
            value: Payloads; binary, 1 B to 64 MB, none null.
            key: Keys; binary, 1 to 255 B, or null. Kept as the user header `headrace.key`.
            headers: User headers; list of struct of text `key` and binary `value`, 1 to 255 B each and none null;
                together with the key 100 kB at most. None is named `headrace.key`.
            id: Ids; binary of 16 bytes, or null: the server gives one.
            timestamp: Origin timestamps; int64, microseconds since the Unix epoch, or null.
            partition: Partitions; int32, or null.

        Raises:
            RowError: A row cannot be a message. Those before it are taken.
            TypeError: A column has another layout.
        """

    def finish(self) -> list[EncodedBatch]:
        """All batches that are left, by partition."""
