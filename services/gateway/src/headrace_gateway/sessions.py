"""Connections of this process with its node, on which a user is logged in already.

Doors that do not speak the binary protocol (HTTP, gRPC, the push for browsers) find out who somebody is, translate what
is asked for into a command of the binary protocol, and send it over such a session. So there is one place that decides
what a user may do, one set of statuses, and one way into the log, whatever the door.
"""

from __future__ import annotations

import asyncio
import socket
from collections import OrderedDict, defaultdict, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from struct import Struct
from types import TracebackType
from typing import Any, NamedTuple, Self

import headrace_core as core
from headrace_gateway.trace_context import context_of_command
from headrace_proto.errors import Status

OpenSession = Callable[[int], socket.socket]
"""Connects with the node in the name of a user; the socket is the caller's to close."""

_REQUEST_HEADER = Struct("<II")
_RESPONSE_HEADER = Struct("<II")
# The length of a request counts its code.
_CODE_BYTES = 4
# What is sent with its header in one go.
_JOINED_BYTES = 64 * 1024
_SAMPLED = 1
# A session that watches partitions takes these alone, and is sent what answers none of them.
_NOT_TRACED = frozenset({core.encode_ping()[0], core.encode_watch_partitions(topics=())[0]})
# What one read takes at most before the answer is put together.
_READ_BYTES = 1024 * 1024


class Response(NamedTuple):
    """What a command was answered with."""

    status: int
    """A code of ``proto/errors.toml``; 0 is success."""
    payload: bytes
    """As the binary protocol has it; empty if ``status`` is not 0."""


class SessionLost(Exception):
    """The node closed the session: it stops, or it is too busy to take one more."""

    code = Status.DISCONNECTED

    def __init__(self, reason: str, *, is_in_doubt: bool = True) -> None:
        """Describe the loss.

        Args:
            reason: For people.
            is_in_doubt: Whether a command may have been executed; else nothing was sent.
        """
        super().__init__(reason)
        self.is_in_doubt = is_in_doubt


class _CountingReader(asyncio.StreamReader):
    """Knows how much has come, and so whether somebody has said something that nobody has taken."""

    received_bytes = 0

    def feed_data(self, data: Any) -> None:
        """Take what the transport brings."""
        self.received_bytes += len(data)
        super().feed_data(data)


class Session:
    """One connection, used by one caller at a time."""

    def __init__(self, reader: _CountingReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._unanswered = 0
        self._taken_bytes = 0
        self._is_over = False
        # Of each of these: whether the answer to the context of its trace comes first.
        self._announced: deque[bool] = deque()

    async def call(self, code: int, payload: bytes = b"") -> Response:
        """Execute one command.

        Args:
            code: Of the command.
            payload: Its encoded fields.

        Raises:
            SessionLost: No answer came.
        """
        await self.send(code, payload)
        return await self.receive()

    async def send(self, code: int, payload: bytes = b"") -> None:
        """Begin one command without waiting for its answer; the answers come in the order of the commands.

        Raises:
            SessionLost: It cannot be sent.
        """
        try:
            self.begin(code, payload)
            await self._writer.drain()
        except OSError as error:
            raise SessionLost("the node closed the session") from error

    def begin(self, code: int, payload: bytes = b"") -> None:
        """As ``send``, of a small command among few that are not answered: it is not waited for that there is room."""
        # Until its answer has been received: if that never happens, it must not be taken for another's.
        self._unanswered += 1
        context = context_of_command() if code not in _NOT_TRACED else None
        self._announced.append(context is not None)
        if context is not None:
            announcement, announced = core.encode_set_trace_context(
                trace_id=context.trace_id, span_id=context.span_id, flags=_SAMPLED
            )
            self._writer.write(_REQUEST_HEADER.pack(_CODE_BYTES + len(announced), announcement) + announced)
        header = _REQUEST_HEADER.pack(_CODE_BYTES + len(payload), code)
        if len(payload) <= _JOINED_BYTES:
            self._writer.write(header + payload)
        else:
            # Not together, which would copy all of it.
            self._writer.write(header)
            self._writer.write(payload)

    async def receive(self) -> Response:
        """Return the answer to the oldest command that was sent and not answered.

        Raises:
            SessionLost: None came.
        """
        try:
            # What a watching session is notified of answers nothing.
            if self._announced and self._announced[0]:
                await self._response()
            response = await self._response()
        except (asyncio.IncompleteReadError, OSError) as error:
            raise SessionLost("the node closed the session before it answered") from error
        if self._announced:
            self._announced.popleft()
        self._unanswered -= 1
        return response

    async def _response(self) -> Response:
        status, length = _RESPONSE_HEADER.unpack(await self._reader.readexactly(_RESPONSE_HEADER.size))
        payload = await self._reader.readexactly(length) if length else b""
        self._taken_bytes += _RESPONSE_HEADER.size + length
        # The node says goodbye; whatever it is asked now, it does not answer.
        self._is_over = self._is_over or status == Status.DISCONNECTED
        return Response(status, payload)

    @property
    def is_reusable(self) -> bool:
        """Whether the next answer will be that of the next command."""
        if self._unanswered or self._is_over or self._writer.is_closing() or self._reader.at_eof():
            return False
        # What came unasked is a goodbye, and would be taken for an answer.
        return self._reader.received_bytes == self._taken_bytes

    def close(self) -> None:
        """Close it; memberships in consumer groups end with it."""
        self._writer.close()


class Sessions:
    """The sessions of this process, kept for the next command of the same user.

    ``async with`` closes them at its end: after the doors, before the node.
    """

    def __init__(self, open_session: OpenSession, *, open_max: int = 1024, idle_max: int = 256) -> None:
        """Describe the pool.

        Args:
            open_session: Makes one more.
            open_max: How many are in use at a time at most; one more waits.
            idle_max: How many wait for the next command of their users at most; not 0.
        """
        self._open_session = open_session
        self._in_use = asyncio.Semaphore(open_max)
        self._idle_max = idle_max
        self._is_closed = False
        self._idle: defaultdict[int, deque[Session]] = defaultdict(deque)
        # The same with their users, those that have waited longest first.
        self._idle_by_age: OrderedDict[Session, int] = OrderedDict()

    async def __aenter__(self) -> Self:
        """Sessions are opened when they are needed."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close those that nobody uses."""
        self._is_closed = True
        for idle in self._idle_by_age:
            idle.close()
        self._idle.clear()
        self._idle_by_age.clear()

    @asynccontextmanager
    async def of(self, user_id: int) -> AsyncIterator[Session]:
        """A session of this user, for the length of an ``async with`` block."""
        async with self._in_use:
            session = self._take_idle(user_id) or await self.open(user_id)
            try:
                yield session
            finally:
                if session.is_reusable and not self._is_closed:
                    self._keep(user_id, session)
                else:
                    session.close()

    async def call(self, user_id: int, code: int, payload: bytes = b"") -> Response:
        """Execute one command in the name of a user; see ``Session.call``."""
        async with self.of(user_id) as session:
            return await session.call(code, payload)

    async def open(self, user_id: int) -> Session:
        """A session of its own, for a caller who stays: a member of a consumer group, a reader that waits.

        Raises:
            SessionLost: The node takes none.
        """
        try:
            there = self._open_session(user_id)
        except Exception as error:
            raise SessionLost(f"the node takes no session: {error}", is_in_doubt=False) from error
        there.setblocking(False)  # noqa: FBT003 - it is the name of the method that says what it means
        loop = asyncio.get_running_loop()
        reader = _CountingReader(limit=_READ_BYTES, loop=loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        transport, _ = await loop.create_connection(lambda: protocol, sock=there)
        return Session(reader, asyncio.StreamWriter(transport, protocol, reader, loop))

    def _keep(self, user_id: int, session: Session) -> None:
        if len(self._idle_by_age) >= self._idle_max:
            # Whoever does not come back makes room for those who do.
            oldest, owner = self._idle_by_age.popitem(last=False)
            self._idle[owner].popleft()
            if not self._idle[owner]:
                del self._idle[owner]
            oldest.close()
        self._idle[user_id].append(session)
        self._idle_by_age[session] = user_id

    def _take_idle(self, user_id: int) -> Session | None:
        idle = self._idle.get(user_id)
        while idle:
            # The one that was used last: what is left over in quiet times is found at the other end.
            session = idle.pop()
            del self._idle_by_age[session]
            if session.is_reusable:
                return session
            session.close()
        self._idle.pop(user_id, None)
        return None
