"""What the gateway needs from the metadata service, wherever that runs."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from headrace_proto.catalog.v1 import AccessToken, User
from headrace_proto.errors import Status
from headrace_proto.metadata.v1 import Command, Reply, Transaction

Clock = Callable[[], int]
"""Returns microseconds since the Unix epoch."""


def wall_clock_micros() -> int:
    """Return microseconds since the Unix epoch."""
    return time.time_ns() // 1000


class Proposer(Protocol):
    """Takes commands."""

    async def propose(self, command: Command) -> Reply:
        """Return what came of a command, once it is durable and everybody knows.

        Raises:
            CodedError: It was not taken, or it is not known whether it was.
        """


class Credentials(Protocol):
    """What a login is checked against."""

    @property
    def user_id(self) -> int:
        """Whose they are."""

    @property
    def password_hash(self) -> str:
        """Argon2id in PHC string form."""

    @property
    def is_active(self) -> bool:
        """Whether the user may log in."""

    @property
    def password_version(self) -> int:
        """Which of the user's passwords it is, as `User.password_version` says."""


class AccessTokenCredentials(Protocol):
    """What a login with an access token is checked against."""

    @property
    def user_id(self) -> int:
        """Whose token it is."""

    @property
    def digest(self) -> bytes:
        """SHA-256 of its text."""

    @property
    def expires_at_micros(self) -> int:
        """Microseconds since the Unix epoch; 0 if it never expires."""

    @property
    def is_active(self) -> bool:
        """Whether its owner may log in."""

    @property
    def name(self) -> str:
        """Under which its owner has it."""

    @property
    def incarnation(self) -> int:
        """Tells it from another one of this owner and name."""


class CredentialsReader(Protocol):
    """Answers that have seen every command which anybody was answered before the question.

    When there is an answer, `Accounts` says nothing older. Each question raises `NoAnswer` when nobody answers.
    """

    async def credentials_of(self, user_id: int) -> Credentials | None:
        """Return the credentials of a user, if there is such a user."""

    async def credentials_named(self, username: str) -> Credentials | None:
        """Return the credentials of the user with this name, if there is one."""

    async def access_token(self, digest: bytes) -> AccessTokenCredentials | None:
        """Return the access token whose text has this SHA-256 digest, if there is one, expired or not."""


class TransactionReader(Protocol):
    """Knows what was committed; an answer has seen every command which anybody was answered before the question."""

    async def transaction(self, stream_id: int, name: str) -> Transaction | None:
        """Return what was committed last under a name, if anything was.

        Raises:
            NoAnswer: Nobody answers.
        """


class Accounts(Protocol):
    """What the catalogue says of users, without waiting: asked with every request. It holds no secret."""

    @property
    def version(self) -> int:
        """Of the catalogue."""

    def user(self, user_id: int) -> User | None:
        """Return a user, if there is such a user."""

    def user_named(self, username: str) -> User | None:
        """Return the user with this name, if there is one."""

    def token_of(self, user_id: int, name: str) -> AccessToken | None:
        """Return the access token that a user has under this name, if there is one, expired or not."""

    def has_expired_access_tokens(self, now_micros: int) -> bool:
        """Say whether a command that deletes expired access tokens would find any."""


class StreamNames(Protocol):
    """What the catalogue says of streams, without waiting."""

    def stream_name(self, stream_id: int) -> str | None:
        """Return the name of a stream, if there is such a stream."""


class TopicPlaces(NamedTuple):
    """A topic, and where its partitions are."""

    stream_id: int
    stream_name: str
    id: int
    name: str
    incarnation: int
    grpc_addresses: Sequence[str]
    """Of each partition, where it can be read and written in whole batches; empty where that is nowhere."""


class Topics(Protocol):
    """What the catalogue says of topics, without waiting. Streams and topics go by their ids or their names."""

    def find_topic(self, stream: int | str, topic: int | str) -> TopicPlaces | None:
        """Return a topic, if there is such a topic."""

    def topics_of(self, stream: int | str) -> Sequence[TopicPlaces] | None:
        """Return the topics of a stream, ascending by id, if there is such a stream."""


class Revocations(Protocol):
    """Tokens of logins that were taken back before their time."""

    def holds(self, token_id: str) -> bool:
        """Whether this token was taken back, here or at another gateway of the cluster."""

    async def add(self, token_id: str, expires_at: int, *, expired_before: int) -> bool:
        """Take a token back; when this returns, over a crash as well.

        Args:
            token_id: Whose.
            expires_at: When it would end by itself (Unix seconds).
            expired_before: Tokens that have ended before then (Unix seconds) need not be remembered.

        Returns:
            Whether it was good until now: of all who take back the same one, at whichever gateways, one is told so.
        """


class MembershipReader(Protocol):
    """Knows the members of consumer groups, from the state of all committed commands, without waiting."""

    def has_members(self, gateway_id: int) -> bool:
        """Say whether a connection of this gateway is a member of any group."""

    def is_member(self, gateway_id: int, client_id: int) -> bool:
        """Say whether this connection is a member of any group."""

    def awaits_partitions(self, gateway_id: int, client_id: int) -> bool:
        """Say whether partitions are to move to this connection."""

    def has_earlier_gateway(self, name: str, gateway_id: int) -> bool:
        """Say whether a gateway of this name but with another id has members."""

    def is_pulse_due(self, now_micros: int) -> bool:
        """Say whether a gateway or a revocation is over at this time."""


CatchUp = Callable[[], Awaitable[None]]
"""Returns when the catalogue here has all that anybody was answered before, or when that takes too long."""


class NoAnswer(Exception):
    """Nobody in the metadata service has answered in time. Nothing was changed; the same may succeed later."""

    code = Status.DISCONNECTED
    is_in_doubt = False


@runtime_checkable
class CodedError(Protocol):
    """An exception that knows the status a client is answered with."""

    code: int
    """A code of ``proto/errors.toml``."""
