"""One request during its handler, and the services available to handlers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from aiohttp import web

import headrace_core as core
from headrace_core import CodecError
from headrace_gateway.access.logins import Logins
from headrace_gateway.access.proxies import NONE, Proxies
from headrace_gateway.access.tokens import Bearer, Tokens
from headrace_gateway.connectors.reach import Reach
from headrace_gateway.http.admission.supervision import UNSUPERVISED, Supervision
from headrace_gateway.http.config import HttpConfig
from headrace_gateway.http.sizes import size_text
from headrace_gateway.json_api.errors import Refused, Rejected
from headrace_gateway.json_api.memory import Held
from headrace_gateway.ports import Clock, GroupPath
from headrace_node.connections.sessions import Response, Session, Sessions
from headrace_proto.errors import Status
from headrace_proto.limits import NAME_BYTES
from headrace_proto.rights import lacking
from headrace_settings import ShownSetting

if TYPE_CHECKING:
    from headrace_gateway.connectors.client import ConnectorsClient
    from headrace_gateway.console import Console
    from headrace_gateway.http.idempotency import IdempotencyKeys
    from headrace_gateway.http.metrics import Metrics
    from headrace_gateway.http.sessions.members import Members
    from headrace_gateway.http.sessions.waits import Waits
    from headrace_gateway.http.turns import Turns
    from headrace_gateway.observability.cluster_state import ReadClusterState
    from headrace_gateway.observability.recent_logs import RecentLogs
    from headrace_gateway.observability.statistics_history import StatisticsHistory
    from headrace_node.tracing import Tracing

Query = TypeVar("Query")
Body = TypeVar("Body")

SOURCE: Final = web.RequestKey("source", str)
"""Source address of a request, without port."""
_U32_MAX = 2**32 - 1
_NO_CLIENT = _U32_MAX
# A large answer of the node is held with its conversion to JSON, which takes 4/3 of it and a little for each message.
_COPIES: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpServices:
    """Services behind the HTTP API."""

    config: HttpConfig
    sessions: Sessions
    logins: Logins
    tokens: Tokens
    members: Members
    idempotency: IdempotencyKeys
    metrics: Metrics
    waits: Waits
    turns: Turns
    clock: Clock
    console: Console
    logs: RecentLogs
    settings: Callable[[], Sequence[ShownSetting]]
    """Lists the effective settings."""
    history: StatisticsHistory
    """Statistics of the last hour."""
    cluster: ReadClusterState
    """Returns the state of the cluster."""
    member_ids: Callable[[int], Mapping[GroupPath, int]]
    """Returns the ids of a connection as a member, by group."""
    connectors: ConnectorsClient
    """Calls a process with connectors."""
    tracing: Tracing | None = None
    """Creates spans of requests, if enabled."""
    supervision: Supervision = UNSUPERVISED
    """Access for supervisors that are not users."""
    proxies: Proxies = NONE
    """Trusted proxies, which forward the address of their clients."""


@dataclass(slots=True, kw_only=True)
class Call(Generic[Query, Body]):
    """A decoded request with its authenticated user."""

    services: HttpServices
    request: web.Request
    bearer: Bearer | None
    prepare: Callable[[web.StreamResponse], None]
    """Adds the common headers for a handler that writes its answer itself."""
    held: Held
    """Memory that the request and its answer hold; released when the client has taken the answer."""
    query: Query
    body: Body

    @property
    def user_id(self) -> int:
        """User id of the caller. Only available on routes that require a token."""
        if self.bearer is None:
            raise Refused(Status.UNAUTHENTICATED)
        return self.bearer.user_id

    @property
    def address(self) -> str:
        """Source address of the request, without port."""
        return self.request[SOURCE]

    async def ask(self, encoded: tuple[int, bytes]) -> bytes:
        """Execute a command on behalf of the user; return the payload of its answer.

        Raises:
            Refused: The answer is an error.
        """
        return answered(await self.services.sessions.call(self.user_id, *encoded, admit=self.admit))

    def admit(self, size_bytes: int) -> None:
        """Hold memory for a large answer of the node before it is received, and for what is made of it.

        Raises:
            Exhausted: There is none.
        """
        self.held.grow(_COPIES * size_bytes)

    async def may_read_server(self) -> None:
        """Require the permission to read the server, for requests that execute no command.

        Raises:
            Refused: The user lacks the permission.
        """
        # This is the cheapest command that requires the permission; the client id need not exist.
        await self.ask(core.encode_get_client(client_id=_NO_CLIENT))

    async def may_manage_server(self) -> str:
        """Require the permission to manage the server, for changes that are no command; return the user's name.

        Raises:
            Refused: The user lacks the permission.
        """
        username, everywhere = await self._rights_everywhere()
        if not everywhere.manage_servers:
            raise Refused(Status.UNAUTHORIZED, lacking(username, "manage_servers"))
        return username

    async def may_connect(self, reach: Reach) -> None:
        """Require the permissions for what a connector reads and writes, which uses a login of its own.

        Raises:
            Refused: The user lacks one of them.
        """
        username, everywhere = await self._rights_everywhere()
        creates = everywhere.manage_streams or everywhere.manage_topics
        reads = creates or everywhere.read_streams or everywhere.read_topics or everywhere.poll_messages
        if (reach.reads_any and not reads) or (reach.writes_any and not creates):
            missing = lacking(username, "manage_topics" if reach.writes_any else "read_topics")
            raise Refused(
                Status.UNAUTHORIZED, f"The connector may use any topic: that needs the rights on all of them. {missing}"
            )
        for stream, topic in () if reads else reach.reads:
            # Commands that need the right, and do nothing to a partition that does not exist.
            encoded = core.encode_get_consumer_offset(stream=stream, topic=topic, partition=_U32_MAX)
            await self._may_use(encoded, f"read {stream}/{topic}")
        for stream, topic in () if creates else reach.writes:
            encoded = core.encode_flush_unsaved_buffer(stream=stream, topic=topic, partition=_U32_MAX)
            await self._may_use(encoded, f"write to {stream}/{topic}, or to create it")

    async def _may_use(self, encoded: tuple[int, bytes], what: str) -> None:
        try:
            await self.ask(encoded)
        except Refused as refusal:
            # A topic that does not exist is created with the rights of the connectors.
            if refusal.status != Status.PARTITION_NOT_FOUND:
                text = f"The connector needs a user who has the right to {what}."
                if refusal.status == Status.UNAUTHORIZED and refusal.reason is not None:
                    text = f"{text} {refusal.reason}"
                raise Refused(Status.UNAUTHORIZED, text) from None

    async def _rights_everywhere(self) -> tuple[str, core.GlobalPermissions]:
        # A user may read itself, with its permissions.
        user = core.decode_user(await self.ask(core.encode_get_user(user=self.user_id)))
        if user is None:
            raise Refused(Status.UNAUTHORIZED)
        return user.username, user.permissions.everywhere if user.permissions else core.GlobalPermissions()

    def check_token(self) -> None:
        """Check again that the token is valid, during a long answer.

        Raises:
            InvalidToken: The token is no longer valid.
        """
        if self.bearer is not None:
            self.services.tokens.check(self.bearer.text)

    def identifier(self, name: str) -> int | str:
        """Return a number or a name from the path."""
        return identifier(self.request.match_info[name], name)

    @property
    def stream(self) -> int | str:
        """Stream in the path."""
        return self.identifier("stream_id")

    @property
    def topic(self) -> int | str:
        """Topic in the path."""
        return self.identifier("topic_id")

    @property
    def group(self) -> int | str:
        """Consumer group in the path."""
        return self.identifier("group_id")

    def number(self, name: str) -> int:
        """Return a number from the path."""
        text = self.request.match_info[name]
        value = _number(text)
        if value is None:
            raise Rejected(400, f"Invalid URL: {name} is a number below 2^32, not {text[:64]!r}.")
        return value

    def size(self, size_bytes: int) -> str | int:
        """Return a number of bytes in the form the caller requested."""
        return size_bytes if self.request.query.get("sizes") == "bytes" else size_text(size_bytes)


async def ask(session: Session, encoded: tuple[int, bytes]) -> bytes:
    """Execute a command over a given session.

    Raises:
        Refused: The answer is an error.
    """
    return answered(await session.call(*encoded))


def answered(response: Response) -> bytes:
    """Return the payload of an answer.

    Raises:
        Refused: The answer is an error.
    """
    if response.status != Status.OK:
        raise Refused(response.status, response.explanation)
    return response.payload


def identifier(text: str, field: str) -> int | str:
    """Return a number if the text is a 32-bit number, else a name.

    Raises:
        Refused: The text is neither.
    """
    number = _number(text)
    if number is not None:
        return number
    if len(text.encode()) not in NAME_BYTES:
        raise Refused(Status.INVALID_IDENTIFIER, "A name has 1 to 255 bytes.", field=field)
    return text


def _number(text: str) -> int | None:
    if not text.isascii() or not text.removeprefix("+").isdigit():
        return None
    number = int(text) if len(text) < 40 else _U32_MAX + 1
    return number if number <= _U32_MAX else None


def refusal_of(error: CodecError) -> Refused | Rejected:
    """Return the refusal for an encoding error of the codec."""
    match error.defect:
        case "syntax":
            return Rejected(400, f"The body does not have the expected form: {error}.")
        case "shape":
            return Rejected(422, f"The body does not have the expected form: {error}.")
        case "too_large":
            return Rejected(413, str(error))
        case _:
            return Refused(error.code, str(error), field=error.field)
