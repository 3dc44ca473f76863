"""Connections of this process to its node, on which a user is logged in already.

APIs other than the binary protocol (HTTP, gRPC, the push for browsers) authenticate the user, translate the request
into a command of the binary protocol, and send it over such a session. Permissions are therefore checked in one place,
with one set of statuses and one path into the log, for all APIs.
"""

from __future__ import annotations

import asyncio
import socket
from collections import OrderedDict, defaultdict, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from struct import Struct
from types import TracebackType
from typing import Final, NamedTuple, Protocol, Self

import headrace_core as core
from headrace_chassis.shares import Shares
from headrace_node.connections.answers import Answer, Answers
from headrace_node.connections.caller import CALLER, Caller
from headrace_proto.commands import Attribute, commands_with
from headrace_proto.errors import Status
from headrace_proto.trace_context import context_of_command


class OpenSession(Protocol):
    """Opens a connection to the node on behalf of a user; the caller closes the socket."""

    def __call__(self, user_id: int, caller: Caller | None = None, /) -> socket.socket:
        """Connect.

        Args:
            user_id: The user.
            caller: Origin of the request, if the connection is for one request.
        """


Admit = Callable[[int], None]
"""Takes memory for an answer of this size in bytes, or raises."""

_CHANGES: Final = commands_with(Attribute.AUDITED)
"""Commands whose callers the audit trail records; a shared connection does not identify the caller."""


_REQUEST_HEADER = Struct("<II")
# The length of a request includes its code.
_CODE_BYTES = 4
# Maximum size of a payload that is sent together with its header.
_JOINED_BYTES = 64 * 1024
_SAMPLED = 1
_WAIT_SECONDS_MAX: Final = 5.0
# A session that watches partitions only takes these commands, and also receives notifications, which answer none of
# them.
_NOT_TRACED = commands_with(Attribute.WHILE_WATCHING)


class Response(NamedTuple):
    """Answer to a command."""

    status: int
    """Status code of ``proto/errors.toml``; 0 is success."""
    payload: bytes
    """Payload in the form of the binary protocol; if ``status`` is not 0, the explanation."""

    @property
    def explanation(self) -> str | None:
        """Explanation of a refusal by the node, if it gives one."""
        return self.payload.decode(errors="replace") or None if self.status != Status.OK else None


class SessionLost(Exception):
    """The node closed the session: it shuts down, or has no room for another one."""

    code = Status.DISCONNECTED

    def __init__(self, reason: str, *, is_in_doubt: bool = True) -> None:
        """Describe the loss.

        Args:
            reason: Message for the log or the user.
            is_in_doubt: Whether a command may have been executed; otherwise nothing was sent.
        """
        super().__init__(reason)
        self.is_in_doubt = is_in_doubt


class Session:
    """One connection, used by one caller at a time."""

    def __init__(self, answers: Answers, transport: asyncio.Transport) -> None:
        self._answers = answers
        self._transport = transport
        self._unanswered = 0
        self._is_over = False
        # For each unanswered command: whether the answer to its trace context comes first.
        self._announced: deque[bool] = deque()

    async def call(self, code: int, payload: bytes = b"", *, admit: Admit | None = None) -> Response:
        """Execute one command.

        Args:
            code: Code of the command.
            payload: Its encoded fields.
            admit: Asked for memory before a large answer is received. If it raises, the session is closed, and the
                exception is that of the call.

        Raises:
            SessionLost: No answer came.
        """
        self._answers.admit = admit
        try:
            await self.send(code, payload)
            return await self.receive()
        finally:
            self._answers.admit = None

    async def call_into(self, memory: bytearray, code: int, payload: bytes = b"") -> Answer:
        """Execute a command whose answer is large and short-lived.

        Args:
            memory: Memory for the answer, if that fits; must not be used otherwise until this returns.
            code: Code of the command.
            payload: Its encoded fields.

        Raises:
            SessionLost: No answer came.
        """
        self._answers.lent = memory
        await self.send(code, payload)
        answer = await self._received()
        self._answers.lent = None
        return answer

    async def send(self, code: int, payload: bytes | memoryview = b"", *, head: bytes = b"") -> None:
        """Send one command without waiting for its answer; the answers come in the order of the commands.

        Args:
            code: Code of the command.
            payload: Its encoded fields.
            head: A few bytes in front of the payload, sent without copying a large payload.

        Raises:
            SessionLost: It cannot be sent.
        """
        try:
            self.begin(code, payload, head=head)
            await self._answers.written()
        except OSError as error:
            raise SessionLost("the node closed the session") from error

    def begin(self, code: int, payload: bytes | memoryview = b"", *, head: bytes = b"") -> None:
        """Send a small command without waiting for room to write; only for a small number of unanswered commands."""
        # Until its answer has been received: if that never happens, the answer must not be taken for another command's.
        self._unanswered += 1
        context = context_of_command() if code not in _NOT_TRACED else None
        self._announced.append(context is not None)
        if context is not None:
            announcement, announced = core.encode_set_trace_context(
                trace_id=context.trace_id, span_id=context.span_id, flags=_SAMPLED
            )
            self._transport.write(_REQUEST_HEADER.pack(_CODE_BYTES + len(announced), announcement) + announced)
        header = _REQUEST_HEADER.pack(_CODE_BYTES + len(head) + len(payload), code) + head
        if len(payload) <= _JOINED_BYTES:
            self._transport.write(header + payload)
        else:
            # Separate writes, as joining would copy the payload.
            self._transport.write(header)
            self._transport.write(payload)

    async def receive(self) -> Response:
        """Return the answer to the oldest unanswered command.

        Raises:
            SessionLost: None came.
        """
        status, payload = await self._received()
        return Response(status, bytes(payload))

    async def _received(self) -> Answer:
        try:
            # Notifications of a watching session answer no command.
            if self._announced and self._announced[0]:
                await self._answer()
            answer = await self._answer()
        except OSError as error:
            raise SessionLost("the node closed the session before it answered") from error
        if self._announced:
            self._announced.popleft()
        self._unanswered -= 1
        return answer

    async def _answer(self) -> Answer:
        answer = await self._answers.take()
        # The node disconnects: it answers no further commands.
        self._is_over = self._is_over or answer.status == Status.DISCONNECTED
        return answer

    @property
    def is_reusable(self) -> bool:
        """Return whether the next answer will be that of the next command."""
        if self._unanswered or self._is_over or self._transport.is_closing():
            return False
        # Unsolicited data is a disconnect notice, and would be taken for an answer.
        return self._answers.is_quiet

    def close(self) -> None:
        """Close the session; memberships in consumer groups end with it."""
        self._transport.close()


class Sessions:
    """Pool of the sessions of this process, reused for the next command of the same user.

    ``async with`` closes them at its end: after the APIs have stopped, before the node stops.
    """

    def __init__(
        self,
        open_session: OpenSession,
        *,
        open_max: int = 2048,
        idle_max: int = 256,
        wait_seconds_max: float = _WAIT_SECONDS_MAX,
    ) -> None:
        """Describe the pool.

        Args:
            open_session: Opens a session.
            open_max: Maximum number of sessions in use at a time, of which one user has at most half of what the others
                leave; further callers wait.
            idle_max: Maximum number of idle sessions; not 0.
            wait_seconds_max: Maximum time that a caller waits for one of them.
        """
        self._open_session = open_session
        self._places = Shares(open_max)
        # Callers that wait for a place, by user, in the order in which they came.
        self._waiting: defaultdict[int, deque[asyncio.Future[None]]] = defaultdict(deque)
        self._idle_max = idle_max
        self._wait_seconds_max = wait_seconds_max
        self._is_closed = False
        self._idle: defaultdict[int, deque[Session]] = defaultdict(deque)
        # Idle sessions with their users, the longest idle first.
        self._idle_by_age: OrderedDict[Session, int] = OrderedDict()

    async def __aenter__(self) -> Self:
        """Start the pool; sessions are opened on demand."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the idle sessions."""
        self._is_closed = True
        for idle in self._idle_by_age:
            idle.close()
        self._idle.clear()
        self._idle_by_age.clear()

    @asynccontextmanager
    async def of(self, user_id: int) -> AsyncIterator[Session]:
        """Borrow a session of this user for the duration of an ``async with`` block.

        Raises:
            SessionLost: The node accepts none, or too many are in use for too long.
        """
        async with self._place(user_id):
            session = self._take_idle(user_id) or await self.open(user_id)
            try:
                yield session
            finally:
                if session.is_reusable and not self._is_closed:
                    self._keep(user_id, session)
                else:
                    session.close()

    async def call(self, user_id: int, code: int, payload: bytes = b"", *, admit: Admit | None = None) -> Response:
        """Execute one command on behalf of a user; see ``Session.call``."""
        caller = CALLER.get()
        if caller is not None and code in _CHANGES:
            return await self._call_alone(user_id, caller, code, payload)
        async with self.of(user_id) as session:
            return await session.call(code, payload, admit=admit)

    async def _call_alone(self, user_id: int, caller: Caller, code: int, payload: bytes) -> Response:
        async with self._place(user_id):
            session = await self._opened(user_id, caller)
            try:
                return await session.call(code, payload)
            finally:
                session.close()

    @asynccontextmanager
    async def _place(self, user_id: int) -> AsyncIterator[None]:
        """Count one more session in use by a user."""
        # Commands that wait for an unreachable node or for a quota may hold all places of their users; the callers
        # behind them get an answer.
        if user_id in self._waiting or not self._places.take(user_id):
            await self._wait_for_place(user_id)
        try:
            yield
        finally:
            self._places.give_back(user_id)
            self._pass_places_on()

    async def _wait_for_place(self, user_id: int) -> None:
        place = asyncio.get_running_loop().create_future()
        self._waiting[user_id].append(place)
        try:
            async with asyncio.timeout(self._wait_seconds_max):
                await place
        except BaseException as error:
            if place.done() and not place.cancelled():
                # It came at the same moment.
                self._places.give_back(user_id)
            self._forget(user_id, place)
            self._pass_places_on()
            if isinstance(error, TimeoutError):
                raise SessionLost("too many requests are in progress", is_in_doubt=False) from None
            raise

    def _pass_places_on(self) -> None:
        """Give places to the users who wait for them, to each as many as it may have."""
        for user_id, waiting in list(self._waiting.items()):
            while waiting and self._places.take(user_id):
                place = waiting.popleft()
                if place.done():
                    self._places.give_back(user_id)
                else:
                    place.set_result(None)
            if not waiting:
                del self._waiting[user_id]

    def _forget(self, user_id: int, place: asyncio.Future[None]) -> None:
        waiting = self._waiting.get(user_id)
        if waiting is not None and place in waiting:
            waiting.remove(place)
            if not waiting:
                del self._waiting[user_id]

    async def open(self, user_id: int) -> Session:
        """Open a dedicated session for a long-lived caller: a member of a consumer group, a reader that waits.

        Raises:
            SessionLost: The node accepts none.
        """
        return await self._opened(user_id, None)

    async def _opened(self, user_id: int, caller: Caller | None) -> Session:
        try:
            there = self._open_session(user_id, caller) if caller is not None else self._open_session(user_id)
        except Exception as error:
            raise SessionLost(f"the node refused the session: {error}", is_in_doubt=False) from error
        there.setblocking(False)  # noqa: FBT003 - it is the name of the method that says what it means
        transport, answers = await asyncio.get_running_loop().create_connection(Answers, sock=there)
        return Session(answers, transport)

    def _keep(self, user_id: int, session: Session) -> None:
        if len(self._idle_by_age) >= self._idle_max:
            # Evict the session that has been idle longest.
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
            # Reuse the session that was used last, so that the other end holds those that are superfluous in quiet
            # times.
            session = idle.pop()
            del self._idle_by_age[session]
            if session.is_reusable:
                return session
            session.close()
        self._idle.pop(user_id, None)
        return None


class LastingSessions:
    """Dedicated sessions of calls, which end together when the process shuts down."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._opened: set[Session] = set()
        self._is_closed = False

    @asynccontextmanager
    async def session(self, user_id: int) -> AsyncIterator[Session]:
        """Open a dedicated session for the duration of an ``async with`` block.

        Raises:
            SessionLost: The node accepts none, or the process shuts down.
        """
        session = await self._sessions.open(user_id)
        self._opened.add(session)
        if self._is_closed:
            session.close()
        try:
            yield session
        finally:
            self._opened.discard(session)
            session.close()

    def close(self) -> None:
        """Close all of them: waiting callers receive an error."""
        self._is_closed = True
        for session in self._opened:
            session.close()
