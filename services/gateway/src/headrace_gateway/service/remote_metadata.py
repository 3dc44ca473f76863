"""The metadata service in other processes, behind the ports of the gateway."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable
from typing import Final, TypeVar

from grpc import aio

from headrace_gateway.ports import NoAnswer
from headrace_gateway.service.catalogue import Catalogue
from headrace_metadata_client import Connections, MetadataClientError, OutcomeUnknownError, Reads, SessionPool
from headrace_proto.errors import Status
from headrace_proto.limits import LOGIN_DIGEST_BYTES
from headrace_proto.metadata.v1 import AccessTokenRecord, Command, CredentialsRecord, Reply, RevokeLogin, Transaction
from headrace_proto.well_known import ROOT_USER_ID

_Answer = TypeVar("_Answer")

# Until then a token is taken nowhere any more, although `clock_skew` may be an hour and clocks may differ.
_FORGET_SECONDS: Final = 2 * 3600


class CommandFailed(Exception):
    """A command was not taken, or nobody can say, or nobody can show it here.

    Attributes:
        code: The status that the client is answered with.
        is_in_doubt: Whether it may be applied.
    """

    code = Status.DISCONNECTED

    def __init__(self, reason: str, *, is_in_doubt: bool) -> None:
        super().__init__(reason)
        self.is_in_doubt = is_in_doubt


class RemoteProposer:
    """Has commands applied, and answers when this gateway shows what they have done."""

    def __init__(self, sessions: SessionPool, catalogue: Catalogue) -> None:
        self._sessions = sessions
        self._catalogue = catalogue

    async def propose(self, command: Command) -> Reply:
        """Return what came of a command.

        Raises:
            CommandFailed: It was not taken, or nobody can say, or this gateway cannot show it.
        """
        try:
            response = await self._sessions.propose(command)
        except MetadataClientError as error:
            raise CommandFailed(str(error), is_in_doubt=isinstance(error, OutcomeUnknownError)) from error
        except aio.AioRpcError as error:
            raise CommandFailed(f"{error.code().name.lower()}: {error.details()}", is_in_doubt=False) from error
        try:
            # Whoever has changed something sees it with the next request.
            await self._catalogue.reach(response.version)
        except NoAnswer as error:
            raise CommandFailed(f"it was applied, but {error}", is_in_doubt=True) from error
        return response.reply


class RemoteCredentials:
    """Asks for credentials when somebody logs in: this process holds none."""

    def __init__(self, connections: Connections, catalogue: Catalogue) -> None:
        self._reads = Reads(connections, reached=catalogue.reach)

    async def credentials_of(self, user_id: int) -> CredentialsRecord | None:
        """Return the credentials of a user, if there is such a user."""
        return await _answered(self._reads.credentials_of(user_id))

    async def credentials_named(self, username: str) -> CredentialsRecord | None:
        """Return the credentials of the user with this name, if there is one."""
        return await _answered(self._reads.credentials_named(username))

    async def access_token(self, digest: bytes) -> AccessTokenRecord | None:
        """Return the access token whose text has this SHA-256 digest, if there is one, expired or not."""
        return await _answered(self._reads.access_token(digest))


class RemoteNewest:
    """Asks how new the catalogue is, and waits until it is as new here."""

    def __init__(self, connections: Connections, catalogue: Catalogue) -> None:
        self._reads = Reads(connections, reached=catalogue.reach)

    async def reach(self) -> None:
        """Return when the catalogue here has all that anybody was answered before.

        Raises:
            NoAnswer: Nobody answers, or it does not come.
        """
        await _answered(self._reads.version())


class RemoteTransactions:
    """Asks what was committed: the catalogue does not say."""

    def __init__(self, connections: Connections) -> None:
        self._reads = Reads(connections)

    async def transaction(self, stream_id: int, name: str) -> Transaction | None:
        """Return what was committed last under a name, if anything was."""
        return await _answered(self._reads.transaction(stream_id, name))


class ClusterRevocations:
    """Tokens of logins that were taken back at any gateway: the catalogue tells it to all."""

    def __init__(self, proposer: RemoteProposer, catalogue: Catalogue) -> None:
        self._proposer = proposer
        self._catalogue = catalogue
        # Between the call and the update.
        self._under_way: set[bytes] = set()

    def holds(self, token_id: str) -> bool:
        """Whether this token was taken back."""
        digest = _digest(token_id)
        return digest in self._under_way or self._catalogue.picture.is_login_revoked(digest)

    async def add(self, token_id: str, expires_at: int, *, expired_before: int) -> bool:  # noqa: ARG002
        """Take a token back, at all gateways; when this returns, over a crash as well.

        Args:
            token_id: Whose.
            expires_at: When it would end by itself (Unix seconds).
            expired_before: What has ended before then need not be remembered: the metadata service knows when.

        Returns:
            Whether it was good until now, at every gateway.

        Raises:
            NoAnswer: The metadata service has not taken it, or nobody can say.
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
