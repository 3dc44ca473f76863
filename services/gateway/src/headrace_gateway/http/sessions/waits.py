"""Long polls: each has a session of its own, and ends with its caller and with the server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final

from aiohttp import web

from headrace_chassis.shares import Shares
from headrace_gateway.http.call import answered
from headrace_gateway.json_api.errors import Limited
from headrace_node.connections.sessions import Admit, Session, Sessions

VERIFY: Final[web.RequestKey[Callable[[], None]]] = web.RequestKey("verify")
"""Raises ``InvalidToken`` if the token of the request is no longer valid."""

_RETRY_SECONDS: Final = 1.0
# Interval at which a disconnected caller is detected.
_LOOK_SECONDS: Final = 0.5


class WaitEnded(Exception):
    """The wait was abandoned: the caller disconnected, or the server stops."""


class Waits:
    """A limited number of waiting requests; one user has at most half of them."""

    def __init__(self, sessions: Sessions, *, count_max: int) -> None:
        self._sessions = sessions
        self._places = Shares(count_max)
        self._closing = asyncio.Event()

    def close(self) -> None:
        """End all waits soon."""
        self._closing.set()

    @asynccontextmanager
    async def session(self, user_id: int) -> AsyncIterator[Session]:
        """Lend a session for the duration of a wait.

        Raises:
            Limited: The maximum number of waits is reached.
        """
        with self._place(user_id):
            session = await self._sessions.open(user_id)
            try:
                yield session
            finally:
                session.close()

    @contextmanager
    def _place(self, user_id: int) -> Iterator[None]:
        if not self._places.take(user_id):
            raise Limited(_RETRY_SECONDS)
        try:
            yield
        finally:
            self._places.give_back(user_id)

    async def until(self, request: web.Request, user_id: int, has_happened: Callable[[], bool], seconds: float) -> None:
        """Wait for a local condition on behalf of a user, up to a timeout.

        Raises:
            Limited: The maximum number of waits is reached.
            WaitEnded: The caller disconnected, or the server stops.
            InvalidToken: The token is no longer valid.
        """
        if has_happened() or seconds <= 0:
            return
        with self._place(user_id):
            deadline = asyncio.get_running_loop().time() + seconds
            while not has_happened() and asyncio.get_running_loop().time() < deadline:
                if self._closing.is_set() or has_gone(request):
                    raise WaitEnded
                _verify(request)
                await asyncio.sleep(_LOOK_SECONDS / 2)

    async def ask(self, request: web.Request, session: Session, encoded: tuple[int, bytes], admit: Admit) -> bytes:
        """Execute a waiting command; return the payload of its answer.

        Args:
            request: Request to answer.
            session: Session, not shared during the wait.
            encoded: The command.
            admit: Takes memory for a large answer, or raises.

        Raises:
            WaitEnded: The caller disconnected or the server stops; the session is unusable afterwards.
            InvalidToken: The token is no longer valid; the session is unusable afterwards.
            Refused: The answer is an error.
        """
        answer = asyncio.ensure_future(session.call(*encoded, admit=admit))
        closing = asyncio.ensure_future(self._closing.wait())
        try:
            while not answer.done():
                if closing.done() or has_gone(request):
                    raise WaitEnded
                _verify(request)
                await asyncio.wait({answer, closing}, timeout=_LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            return answered(answer.result())
        finally:
            closing.cancel()
            if not answer.done():
                answer.cancel()
                await asyncio.wait({answer})


def _verify(request: web.Request) -> None:
    verify = request.get(VERIFY)
    if verify is not None:
        verify()


def has_gone(request: web.Request) -> bool:
    """Return whether the caller has disconnected."""
    return request.transport is None or request.transport.is_closing()
