"""Implementation of the gateway's ports by a remote metadata service."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable
from typing import Final, TypeVar

from grpc import aio

from headrace_gateway.catalog.follower import Catalog
from headrace_gateway.ports import NoAnswer
from headrace_metadata_client import Connections, MetadataClientError, OutcomeUnknownError, Reads, SessionPool
from headrace_proto.errors import Status
from headrace_proto.limits import LOGIN_DIGEST_BYTES
from headrace_proto.metadata.v1 import AccessTokenRecord, Command, CredentialsRecord, Reply, RevokeLogin, Transaction
from headrace_proto.well_known import ROOT_USER_ID

_Answer = TypeVar("_Answer")

# Time after which a token is refused everywhere by its expiry, given a `clock_skew` of up to an hour and clock drift.
_FORGET_SECONDS: Final = 2 * 3600


class CommandFailed(Exception):
    """A command was not accepted, its outcome is unknown, or its effect is not visible here yet.

    Attributes:
        code: Status for the client. `Disconnected` makes clients send the command again.
        is_in_doubt: True if the command may have been applied.
    """

    def __init__(self, reason: str, *, is_in_doubt: bool) -> None:
        super().__init__(reason)
        self.code: Final = Status.OUTCOME_UNKNOWN if is_in_doubt else Status.DISCONNECTED
        self.is_in_doubt = is_in_doubt


class RemoteProposer:
    """Proposes commands, and answers once their effect is visible at this gateway."""

    def __init__(self, sessions: SessionPool, catalog: Catalog) -> None:
        self._sessions = sessions
        self._catalog = catalog

    async def propose(self, command: Command) -> Reply:
        """Return the result of a command.

        Raises:
            CommandFailed: It was not accepted, its outcome is unknown, or its effect did not become visible here in
                time.
        """
        try:
            response = await self._sessions.propose(command)
        except MetadataClientError as error:
            raise CommandFailed(str(error), is_in_doubt=isinstance(error, OutcomeUnknownError)) from error
        except aio.AioRpcError as error:
            raise CommandFailed(f"{error.code().name.lower()}: {error.details()}", is_in_doubt=False) from error
        try:
            # Read your writes: the caller sees the change with the next request.
            await self._catalog.reach(response.version)
        except NoAnswer as error:
            raise CommandFailed(f"it was applied, but {error}", is_in_doubt=True) from error
        return response.reply


class RemoteCredentials:
    """Queries credentials at each login: this process stores none."""

    def __init__(self, connections: Connections, catalog: Catalog) -> None:
        self._reads = Reads(connections, reached=catalog.reach)

    async def credentials_of(self, user_id: int) -> CredentialsRecord | None:
        """Return the credentials of a user; None if the user does not exist."""
        return await _answered(self._reads.credentials_of(user_id))

    async def credentials_named(self, username: str) -> CredentialsRecord | None:
        """Return the credentials of the user with this name; None if there is none."""
        return await _answered(self._reads.credentials_named(username))

    async def access_token(self, digest: bytes) -> AccessTokenRecord | None:
        """Return the access token whose text has this SHA-256 digest, expired or not; None if there is none."""
        return await _answered(self._reads.access_token(digest))


class RemoteNewest:
    """Queries the newest catalog version, and waits for it here."""

    def __init__(self, connections: Connections, catalog: Catalog) -> None:
        self._reads = Reads(connections, reached=catalog.reach)

    async def reach(self) -> None:
        """Wait until the local catalog contains all changes acknowledged to any client before.

        Raises:
            NoAnswer: The metadata service did not answer, or the version did not arrive.
        """
        await _answered(self._reads.version())


class RemoteTransactions:
    """Queries committed transactions, which are not part of the catalog."""

    def __init__(self, connections: Connections) -> None:
        self._reads = Reads(connections)

    async def transaction(self, stream_id: int, name: str) -> Transaction | None:
        """Return the last transaction committed under a name, if any."""
        return await _answered(self._reads.transaction(stream_id, name))


class ClusterRevocations:
    """Login tokens revoked at any gateway, distributed by the catalog."""

    def __init__(self, proposer: RemoteProposer, catalog: Catalog) -> None:
        self._proposer = proposer
        self._catalog = catalog
        # Revocations between the call and the catalog update.
        self._under_way: set[bytes] = set()

    def holds(self, token_id: str) -> bool:
        """Return whether this token was revoked."""
        digest = _digest(token_id)
        return digest in self._under_way or self._catalog.view.is_login_revoked(digest)

    async def add(self, token_id: str, expires_at: int, *, expired_before: int) -> bool:  # noqa: ARG002
        """Revoke a token at all gateways; the revocation is durable when this returns.

        Args:
            token_id: Id of the token.
            expires_at: Expiry of the token (Unix seconds).
            expired_before: Unused: the metadata service itself drops expired revocations.

        Returns:
            True if the token was valid until now, at every gateway.

        Raises:
            NoAnswer: The metadata service did not accept the revocation, or its outcome is unknown.
        """
        digest = _digest(token_id)
        revoke = RevokeLogin(digest=digest, expires_at_micros=(expires_at + _FORGET_SECONDS) * 1_000_000, once=True)
        self._under_way.add(digest)
        try:
            reply = await self._proposer.propose(Command(actor_user_id=ROOT_USER_ID, revoke_login=revoke))
        except CommandFailed as error:
            raise NoAnswer(str(error)) from error
        finally:
            self._under_way.discard(digest)
        return reply.status == Status.OK


async def _answered(question: Awaitable[_Answer]) -> _Answer:
    try:
        return await question
    except MetadataClientError as error:
        raise NoAnswer(str(error)) from error
    except aio.AioRpcError as error:
        raise NoAnswer(f"{error.code().name.lower()}: {error.details()}") from error


def _digest(token_id: str) -> bytes:
    return hashlib.sha256(token_id.encode("utf-8", "surrogatepass")).digest()[:LOGIN_DIGEST_BYTES]
