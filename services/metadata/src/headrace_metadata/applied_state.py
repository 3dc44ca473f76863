"""The state of all committed commands, with its readers and its change notifications."""

from __future__ import annotations

import hashlib
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from headrace_metadata.state_machine import (
    StateMachine,
    has_expired,
    is_partition_awaited,
    is_pulse_due,
    renewals,
    silent_at_micros,
)
from headrace_metadata.state_machine.users.records import public_token
from headrace_proto.catalog.v1 import (
    USER_STATUS_ACTIVE,
    AccessToken,
    Snapshot,
    Stream,
    Topic,
    TopicPlacement,
    Update,
    User,
)
from headrace_proto.metadata.v1 import Command, LogEntry, NodeRecord, Reply, Transaction
from headrace_proto.well_known import ROOT_USER_ID

Subscriber = Callable[[Update], None]
Restored = Callable[[Snapshot], None]

LOG_ENTRIES_MAX: Final = 1024
"""Maximum number of recent commands kept for inspection."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """Credentials that a login is checked against."""

    user_id: int
    username: str
    password_hash: str
    is_active: bool
    password_version: int
    """Version of the password; incremented with every change."""


@dataclass(frozen=True, slots=True)
class AccessTokenCredentials:
    """Credentials that a login with an access token is checked against.

    Attributes:
        user_id: Owner of the token.
        digest: SHA-256 of its text.
        expires_at_micros: Expiry in microseconds since the Unix epoch; 0: never.
        is_active: True if the owner may log in.
        name: Name of the token, unique for the owner.
        incarnation: Never reused by tokens of this owner and name.
    """

    user_id: int
    digest: bytes
    expires_at_micros: int
    is_active: bool
    name: str
    incarnation: int


class AppliedState:
    """A state machine with its readers and subscribers.

    The component that orders commands and makes them durable calls ``apply`` for each committed command, in order. All
    methods must be called on the thread of the event loop.
    """

    def __init__(self, machine: StateMachine) -> None:
        self._machine = machine
        self._subscribers: dict[Subscriber, Restored] = {}
        self._log: deque[LogEntry] = deque(maxlen=LOG_ENTRIES_MAX)

    @property
    def op(self) -> int:
        """The op applied last."""
        return self._machine.op

    @property
    def version(self) -> int:
        """The version of the catalog."""
        return self._machine.version

    @property
    def timestamp_micros(self) -> int:
        """The timestamp of that op."""
        return self._machine.timestamp_micros

    def apply(self, op: int, timestamp_micros: int, command: Command) -> Reply:
        """Apply the next committed command, and notify all subscribers before returning the reply.

        An exception, also from a subscriber, means that this state or a subscriber's view differs from the committed
        state: the caller must stop.
        """
        applied = self._machine.apply(op, timestamp_micros, command)
        if applied.update is not None:
            for subscriber in self._subscribers:
                subscriber(applied.update)
        self._log.append(
            LogEntry(
                number=op,
                timestamp_micros=timestamp_micros,
                actor_user_id=command.actor_user_id,
                operation=command.WhichOneof("operation") or "",
                status=applied.reply.status,
                version=self._machine.version,
            )
        )
        return applied.reply

    def apply_committed(self, timestamp_nanos: int, command: Command) -> Reply:
        """Apply the next command of an op committed at this time; see `apply`.

        The commands of one op share its time, but the state machine requires increasing timestamps.
        """
        timestamp_micros = max(self.timestamp_micros + 1, timestamp_nanos // 1000)
        return self.apply(self.op + 1, timestamp_micros, command)

    def restore(self, machine: StateMachine) -> None:
        """Continue from the state of ``machine``, received from other replicas because this one missed commands."""
        self._machine = machine
        self._log.clear()
        for restored in self._subscribers.values():
            restored(machine.catalog())

    def subscribe(self, subscriber: Subscriber, restored: Restored) -> Snapshot:
        """Return the catalog, and call ``subscriber`` with every later update, without a gap.

        Both callbacks run on the event loop and must neither block nor raise nor modify their argument.

        Args:
            subscriber: Called with each update.
            restored: Called with the catalog when it was replaced as a whole; later updates follow that catalog.
        """
        self._subscribers[subscriber] = restored
        return self._machine.catalog()

    def catalog(self) -> Snapshot:
        """Return the whole catalog."""
        return self._machine.catalog()

    def last_commands(self, count_max: int) -> list[LogEntry]:
        """Return up to this number of recently applied commands, oldest first; empty after a restore."""
        return list(self._log)[-count_max:] if count_max > 0 else list(self._log)

    def fork_machine(self) -> StateMachine:
        """Return a machine in the current state that can be used in another thread."""
        return self._machine.fork()

    def catalog_identity(self) -> str:
        """Return the identity of the catalog, as 32 hexadecimal digits; empty before there is a root user.

        It comes from the time at which root was created, the first thing that happens to a catalog: all replicas and
        copies have it, nothing changes it, and another catalog has another one.
        """
        root = self._machine.state.accounts.find_user(ROOT_USER_ID)
        if root is None:
            return ""
        return hashlib.sha256(b"headrace catalog %d" % root.created_at_micros).hexdigest()[:32]

    def credentials_of(self, user_id: int) -> Credentials | None:
        """Return the credentials of a user; None if the user does not exist."""
        accounts = self._machine.state.accounts
        user = accounts.find_user(user_id)
        return self._credentials(user) if user is not None else None

    def credentials_named(self, username: str) -> Credentials | None:
        """Return the credentials of the user with this name; None if there is none."""
        user_id = self._machine.state.accounts.user_id_named(username)
        return self.credentials_of(user_id) if user_id is not None else None

    def access_token(self, digest: bytes) -> AccessTokenCredentials | None:
        """Return the access token whose text has this SHA-256 digest, expired or not; None if there is none."""
        accounts = self._machine.state.accounts
        token = accounts.token_with_digest(digest)
        if token is None:
            return None
        owner = accounts.user(token.user_id)
        return AccessTokenCredentials(
            token.user_id, token.digest, token.expires_at_micros, _is_active(owner), token.name, token.incarnation
        )

    def user(self, user_id: int) -> User | None:
        """Return the catalog record of a user; None if the user does not exist."""
        return self._machine.state.accounts.find_user(user_id)

    def user_named(self, username: str) -> User | None:
        """Return the catalog record of the user with this name; None if there is none."""
        user_id = self._machine.state.accounts.user_id_named(username)
        return self.user(user_id) if user_id is not None else None

    def token_of(self, user_id: int, name: str) -> AccessToken | None:
        """Return the catalog record of the user's access token with this name; None if there is none."""
        token = self._machine.state.accounts.token(user_id, name)
        return public_token(token) if token is not None else None

    def stream_id_named(self, name: str) -> int | None:
        """Return the id of the stream with this name; None if there is none."""
        return self._machine.state.catalog.stream_id_named(name)

    def stream_with_topics(self, stream_id: int) -> tuple[Stream, list[Topic]] | None:
        """Return a stream and its topics, ascending by id; None if the stream does not exist."""
        catalog = self._machine.state.catalog
        stream = catalog.find_stream(stream_id)
        return (stream, list(catalog.topics_of(stream_id))) if stream is not None else None

    def stream_name(self, stream_id: int) -> str | None:
        """Return the name of a stream; None if the stream does not exist."""
        stream = self._machine.state.catalog.find_stream(stream_id)
        return stream.name if stream is not None else None

    def find_topic(self, stream_id: int, topic: int | str) -> Topic | None:
        """Return a topic of a stream by id or name; None if it does not exist."""
        return self._machine.state.catalog.find_topic(stream_id, topic)

    def partitions_count(self) -> int:
        """Return the number of partitions of all topics."""
        catalog = self._machine.state.catalog
        return sum(len(topic.partitions) for stream in catalog.streams() for topic in catalog.topics_of(stream.id))

    def nodes(self) -> list[NodeRecord]:
        """Return the partition nodes with their leases and numbers of placed replicas, ascending by id."""
        nodes = self._machine.state.nodes
        replicas: Counter[int] = Counter()
        primaries: Counter[int] = Counter()
        leaving: Counter[int] = Counter()
        for placement in nodes.placements():
            for partition in placement.partitions:
                replicas.update(partition.node_ids)
                primaries.update(partition.node_ids[:1])
                leaving.update(partition.leaving_node_ids)
        return [
            NodeRecord(
                node=node,
                lease_until_micros=min(silent_at_micros(nodes.lease(node.id)), 2**64 - 1),
                replicas_count=replicas[node.id],
                primaries_count=primaries[node.id],
                leaving_count=leaving[node.id],
            )
            for node in nodes.nodes()
        ]

    def placement(self, stream_id: int, topic_id: int) -> TopicPlacement | None:
        """Return the placement of a topic's partitions, if the topic exists and is placed."""
        return self._machine.state.nodes.placement(stream_id, topic_id)

    def transaction(self, stream_id: int, name: str) -> Transaction | None:
        """Return the last transaction committed under a name, if any."""
        return self._machine.state.transactions.find(stream_id, name)

    def metrics(self) -> dict[str, int]:
        """Return object counts for the metrics."""
        state = self._machine.state
        return {
            "pending_publications": state.stages.publications_count,
            "pending_stages": state.stages.pending_count,
            "aborted_stages": state.stages.aborted_count,
            "transactions": state.transactions.count,
            "reader_pins": state.pins.count,
            "reader_pins_bytes": state.pins.size_bytes,
        }

    def has_expired_access_tokens(self, now_micros: int) -> bool:
        """Return whether any access token has expired and can be deleted."""
        accounts = self._machine.state.accounts
        over_at = accounts.next_forgotten_at_micros()
        if over_at is not None and over_at <= now_micros:
            return True
        return any(has_expired(token, now_micros) for token in accounts.tokens())

    def has_members(self, gateway_id: int) -> bool:
        """Return whether a connection of this gateway is a member of any consumer group."""
        return self._machine.state.groups.find_gateway(gateway_id) is not None

    def is_member(self, gateway_id: int, client_id: int) -> bool:
        """Return whether this connection is a member of any consumer group."""
        return bool(self._machine.state.groups.groups_of_client(gateway_id, client_id))

    def member_ids(self, gateway_id: int, client_id: int) -> dict[tuple[int, int, int], int]:
        """Return the ids of this connection as a member, by the ids of stream, topic and consumer group."""
        return {
            (group.stream_id, group.topic_id, group.id): member.id
            for group in self._machine.state.groups.groups_of_client(gateway_id, client_id)
            for member in group.members
            if (member.gateway_id, member.client_id) == (gateway_id, client_id)
        }

    def awaits_partitions(self, gateway_id: int, client_id: int) -> bool:
        """Return whether partitions are about to move to this connection."""
        return is_partition_awaited(self._machine.state, gateway_id, client_id)

    def has_earlier_gateway(self, name: str, gateway_id: int) -> bool:
        """Return whether a gateway with this name but another id has members."""
        gateways = (record.gateway for record in self._machine.state.groups.gateways())
        return any(gateway.name == name and gateway.id != gateway_id for gateway in gateways)

    def is_pulse_due(self, now_micros: int) -> bool:
        """Return whether a `Pulse` command at this time would expire anything."""
        return is_pulse_due(self._machine.state, now_micros)

    def renewals(self) -> list[Command]:
        """Return the commands by which every gateway with members, and every live node, counts as heard."""
        return renewals(self._machine.state)

    def _credentials(self, user: User) -> Credentials:
        password_hash = self._machine.state.accounts.password_hash(user.id)
        return Credentials(user.id, user.username, password_hash, _is_active(user), user.password_version)


def _is_active(user: User) -> bool:
    return user.status == USER_STATUS_ACTIVE
