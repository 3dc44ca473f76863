"""Interfaces that the gateway needs from the metadata service, local or remote."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from headrace_proto.catalog.v1 import AccessToken, User
from headrace_proto.errors import Status
from headrace_proto.metadata.v1 import Command, Reply, Transaction

GroupPath = tuple[int, int, int]
"""Ids of a stream, a topic in it, and a consumer group of the topic."""

Clock = Callable[[], int]
"""Returns microseconds since the Unix epoch."""


def wall_clock_micros() -> int:
    """Return microseconds since the Unix epoch."""
    return time.time_ns() // 1000


class Proposer(Protocol):
    """Proposes commands."""

    async def propose(self, command: Command) -> Reply:
        """Return the result of a command once it is durable and visible at this gateway.

        Raises:
            CodedError: The command was not accepted, or its outcome is unknown.
        """


class Credentials(Protocol):
    """Credentials that a login is checked against."""

    @property
    def user_id(self) -> int:
        """Id of the user."""

    @property
    def password_hash(self) -> str:
        """Argon2id in PHC string form."""

    @property
    def is_active(self) -> bool:
        """True if the user may log in."""

    @property
    def password_version(self) -> int:
        """Version of the password, see `User.password_version`."""


class AccessTokenCredentials(Protocol):
    """Credentials that a login with an access token is checked against."""

    @property
    def user_id(self) -> int:
        """Id of the owner."""

    @property
    def digest(self) -> bytes:
        """SHA-256 of its text."""

    @property
    def expires_at_micros(self) -> int:
        """Expiry in microseconds since the Unix epoch; 0: never."""

    @property
    def is_active(self) -> bool:
        """True if the owner may log in."""

    @property
    def name(self) -> str:
        """Name of the token, unique for the owner."""

    @property
    def incarnation(self) -> int:
        """Incarnation, which distinguishes tokens of the same owner and name."""


class CredentialsReader(Protocol):
    """Linearizable reads of credentials.

    An answer reflects every command acknowledged to any client before the request. After an answer, `AccountDirectory`
    returns nothing older. Each read raises `NoAnswer` if the metadata service is unavailable.
    """

    async def credentials_of(self, user_id: int) -> Credentials | None:
        """Return the credentials of a user, if there is such a user."""

    async def credentials_named(self, username: str) -> Credentials | None:
        """Return the credentials of the user with this name, if there is one."""

    async def access_token(self, digest: bytes) -> AccessTokenCredentials | None:
        """Return the access token whose text has this SHA-256 digest, if there is one, expired or not."""


class TransactionReader(Protocol):
    """Linearizable reads of transactions: an answer reflects every command acknowledged before the request."""

    async def transaction(self, stream_id: int, name: str) -> Transaction | None:
        """Return the last transaction committed under a name, if any.

        Raises:
            NoAnswer: The metadata service is unavailable.
        """


class AccountDirectory(Protocol):
    """Users in the catalog, read locally with every request. Contains no secrets."""

    @property
    def version(self) -> int:
        """Version of the catalog."""

    def user(self, user_id: int) -> User | None:
        """Return a user; None if the user does not exist."""

    def user_named(self, username: str) -> User | None:
        """Return the user with this name; None if there is none."""

    def token_of(self, user_id: int, name: str) -> AccessToken | None:
        """Return the user's access token with this name, expired or not; None if there is none."""

    def has_expired_access_tokens(self, now_micros: int) -> bool:
        """Return whether any access token has expired and can be deleted."""


class StreamNames(Protocol):
    """Streams in the catalog, read locally."""

    def stream_name(self, stream_id: int) -> str | None:
        """Return the name of a stream; None if the stream does not exist."""


class TopicPlaces(NamedTuple):
    """A topic with the placement of its partitions."""

    stream_id: int
    stream_name: str
    id: int
    name: str
    incarnation: int
    grpc_addresses: Sequence[str]
    """Addresses for raw batches, by partition; empty if there is none."""


class Topics(Protocol):
    """Topics in the catalog, read locally. Streams and topics are given by id or name."""

    def find_topic(self, stream: int | str, topic: int | str) -> TopicPlaces | None:
        """Return a topic; None if it does not exist."""

    def topics_of(self, stream: int | str) -> Sequence[TopicPlaces] | None:
        """Return the topics of a stream, ascending by id; None if the stream does not exist."""


class Revocations(Protocol):
    """Login tokens revoked before their expiry."""

    def holds(self, token_id: str) -> bool:
        """Return whether this token was revoked, here or at another gateway of the cluster."""

    async def add(self, token_id: str, expires_at: int, *, expired_before: int) -> bool:
        """Revoke a token; the revocation is durable when this returns.

        Args:
            token_id: Id of the token.
            expires_at: Expiry of the token (Unix seconds).
            expired_before: Tokens that expired before this time (Unix seconds) need not be remembered.

        Returns:
            True if the token was valid until now. Of concurrent revocations, at whichever gateways, exactly one returns
                true.
        """


class MembershipReader(Protocol):
    """Members of consumer groups, from the local state of all committed commands."""

    def has_members(self, gateway_id: int) -> bool:
        """Return whether a connection of this gateway is a member of any group."""

    def is_member(self, gateway_id: int, client_id: int) -> bool:
        """Return whether this connection is a member of any group."""

    def member_ids(self, gateway_id: int, client_id: int) -> Mapping[GroupPath, int]:
        """Return the ids of this connection as a member, by group."""

    def awaits_partitions(self, gateway_id: int, client_id: int) -> bool:
        """Return whether partitions are about to move to this connection."""

    def has_earlier_gateway(self, name: str, gateway_id: int) -> bool:
        """Return whether a gateway with this name but another id has members."""

    def is_pulse_due(self, now_micros: int) -> bool:
        """Return whether a gateway or a revocation has timed out."""


CatchUp = Callable[[], Awaitable[None]]
"""Returns when the catalog contains all changes acknowledged to any client before the call, or after a timeout."""


class NoAnswer(Exception):
    """The metadata service did not answer in time. Nothing was changed; a retry may succeed."""

    code = Status.DISCONNECTED
    is_in_doubt = False


@runtime_checkable
class CodedError(Protocol):
    """An exception with the status for the client."""

    code: int
    """A code of ``proto/errors.toml``."""
