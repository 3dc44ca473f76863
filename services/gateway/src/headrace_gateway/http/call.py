"""One request on its way through a handler, and what handlers have at hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from aiohttp import web

import headrace_core as core
from headrace_core import CodecError
from headrace_gateway.http.config import HttpConfig
from headrace_gateway.http.errors import Refused, Rejected
from headrace_gateway.http.sizes import size_text
from headrace_gateway.http.supervision import UNSUPERVISED, Supervision
from headrace_gateway.logins import Logins
from headrace_gateway.ports import Clock
from headrace_gateway.proxies import NONE, Proxies
from headrace_gateway.tokens import Bearer, Tokens
from headrace_proto.errors import Status
from headrace_proto.limits import NAME_BYTES
from headrace_settings import ShownSetting
from headrace_shards.sessions import Response, Session, Sessions

if TYPE_CHECKING:
    from headrace_gateway.console import Console
    from headrace_gateway.http.idempotency import IdempotencyKeys
    from headrace_gateway.http.members import Members
    from headrace_gateway.http.metrics import Metrics
    from headrace_gateway.http.waits import Waits
    from headrace_gateway.recent_logs import RecentLogs
    from headrace_shards.tracing import Tracing

Query = TypeVar("Query")
Body = TypeVar("Body")

SOURCE: Final = web.RequestKey("source", str)
"""Where a request comes from, without the port."""
_U32_MAX = 2**32 - 1
_NO_CLIENT = _U32_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    """What is behind the HTTP interface."""

    config: HttpConfig
    sessions: Sessions
    logins: Logins
    tokens: Tokens
    members: Members
    idempotency: IdempotencyKeys
    metrics: Metrics
    waits: Waits
    clock: Clock
    console: Console
    logs: RecentLogs
    settings: Callable[[], Sequence[ShownSetting]]
    """Those in force."""
    tracing: Tracing | None = None
    """Makes spans of requests, where that is on."""
    supervision: Supervision = UNSUPERVISED
    """By those who are no users."""
    proxies: Proxies = NONE
    """Those that say for whom they ask."""


@dataclass(slots=True, kw_only=True)
class Call(Generic[Query, Body]):
    """A request that was understood, and who asks."""

    door: Door
    request: web.Request
    bearer: Bearer | None
    prepare: Callable[[web.StreamResponse], None]
    """Puts in the headers of every answer, where a handler begins to write by itself."""
    query: Query
    body: Body

    @property
    def user_id(self) -> int:
        """Who asks. Only of routes that need a token."""
        if self.bearer is None:
            raise Refused(Status.UNAUTHENTICATED)
        return self.bearer.user_id

    @property
    def address(self) -> str:
        """Where the request comes from, without the port."""
        return self.request[SOURCE]

    async def ask(self, encoded: tuple[int, bytes]) -> bytes:
        """Execute a command in the name of the user; the payload of its answer.

        Raises:
            Refused: The answer is an error.
        """
        return answered(await self.door.sessions.call(self.user_id, *encoded))

    async def may_read_server(self) -> None:
        """Go on only with the right to read the server, for what no command is asked for.

        Raises:
            Refused: The user does not have it.
        """
        # The cheapest command that needs it; whether there is such a connection does not matter.
        await self.ask(core.encode_get_client(client_id=_NO_CLIENT))

    def check_token(self) -> None:
        """Look again whether the token is good, in an answer that takes long.

        Raises:
            InvalidToken: It is not any more.
        """
        if self.bearer is not None:
            self.door.tokens.check(self.bearer.text)

    def identifier(self, name: str) -> int | str:
        """A number or a name out of the path."""
        return identifier(self.request.match_info[name], name)

    @property
    def stream(self) -> int | str:
        """The stream that the path names."""
        return self.identifier("stream_id")

    @property
    def topic(self) -> int | str:
        """The topic that the path names."""
        return self.identifier("topic_id")

    @property
    def group(self) -> int | str:
        """The consumer group that the path names."""
        return self.identifier("group_id")

    def number(self, name: str) -> int:
        """A number out of the path."""
        text = self.request.match_info[name]
        value = _number(text)
        if value is None:
            raise Rejected(400, f"Invalid URL: {name} is a number below 2^32, not {text[:64]!r}.")
        return value

    def size(self, size_bytes: int) -> str | int:
        """A number of bytes in the form that the caller wants."""
        return size_bytes if self.request.query.get("sizes") == "bytes" else size_text(size_bytes)


async def ask(session: Session, encoded: tuple[int, bytes]) -> bytes:
    """Execute a command over a certain session.

    Raises:
        Refused: The answer is an error.
    """
    return answered(await session.call(*encoded))


def answered(response: Response) -> bytes:
    """The payload of an answer.

    Raises:
        Refused: It is an error.
    """
    if response.status != Status.OK:
        raise Refused(response.status, response.explanation)
    return response.payload


def identifier(text: str, field: str) -> int | str:
    """A number if the text is one of 32 bits, else a name.

    Raises:
        Refused: It is neither.
    """
    number = _number(text)
    if number is not None:
        return number
    if len(text.encode(errors="surrogateescape")) not in NAME_BYTES:
        raise Refused(Status.INVALID_IDENTIFIER, "A name has 1 to 255 bytes.", field=field)
    return text


def _number(text: str) -> int | None:
    if not text.isascii() or not text.removeprefix("+").isdigit():
        return None
    number = int(text) if len(text) < 40 else _U32_MAX + 1
    return number if number <= _U32_MAX else None


def refusal_of(error: CodecError) -> Refused | Rejected:
    """What a defect that the codec has found means for the request."""
    match error.defect:
        case "syntax":
            return Rejected(400, f"The body is not what it should be: {error}.")
        case "shape":
            return Rejected(422, f"The body is not of the form that it should have: {error}.")
        case "too_large":
            return Rejected(413, str(error))
        case _:
            return Refused(error.code, str(error), field=error.field)
