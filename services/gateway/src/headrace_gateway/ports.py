"""What the gateway needs from the metadata service, wherever that runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol, runtime_checkable

from headrace_proto.metadata.v1 import Command, Reply

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


class MetadataReader(Protocol):
    """Answers from the state of all committed commands, without waiting."""

    def credentials_of(self, user_id: int) -> Credentials | None:
        """Return the credentials of a user, if there is such a user."""

    def credentials_named(self, username: str) -> Credentials | None:
        """Return the credentials of the user with this name, if there is one."""

    def access_token(self, digest: bytes) -> AccessTokenCredentials | None:
        """Return the access token whose text has this SHA-256 digest, if there is one, expired or not."""

    def stream_name(self, stream_id: int) -> str | None:
        """Return the name of a stream, if there is such a stream."""

    def has_expired_access_tokens(self, now_micros: int) -> bool:
        """Say whether a command that deletes expired access tokens would find any."""


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


@runtime_checkable
class CodedError(Protocol):
    """An exception that knows the status a client is answered with."""

    code: int
    """A code of ``proto/errors.toml``."""
