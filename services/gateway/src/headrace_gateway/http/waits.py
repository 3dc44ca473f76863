"""Requests that wait for messages: each has a session of its own, and ends with its caller and with the server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from aiohttp import web

import headrace_core as core
from headrace_gateway.http.call import answered
from headrace_gateway.http.errors import Limited
from headrace_shards.sessions import Session, Sessions

VERIFY: Final[web.RequestKey[Callable[[], None]]] = web.RequestKey("verify")
"""Raises ``InvalidToken`` when the token of the request is not good any more."""

_RETRY_SECONDS: Final = 1.0
# How soon it is noticed that the caller has gone.
_LOOK_SECONDS: Final = 0.5


Commit = Callable[[int, int], tuple[int, bytes]]
"""Makes the command that stores an offset: of a partition, this offset."""


class Over(Exception):
    """Nobody waits for the answer any more: the caller has gone, or the server stops."""


class Waits:
    """Sessions for those who wait, up to a number of them."""

    def __init__(self, sessions: Sessions, *, count_max: int) -> None:
        self._sessions = sessions
        self._count_max = count_max
        self._count = 0
        self._closing = asyncio.Event()

    def close(self) -> None:
        """End all of them soon."""
        self._closing.set()

    @asynccontextmanager
    async def session(self, user_id: int) -> AsyncIterator[Session]:
        """A session for as long as somebody waits.

        Raises:
            Limited: Too many do.
        """
        if self._count >= self._count_max:
            raise Limited(_RETRY_SECONDS)
        self._count += 1
        try:
            session = await self._sessions.open(user_id)
            try:
                yield session
            finally:
                session.close()
        finally:
            self._count -= 1

    async def until(self, request: web.Request, has_happened: Callable[[], bool], seconds: float) -> None:
        """Wait for something that nobody has to be asked for, for so long at most.

        Raises:
            Limited: Too many wait.
            Over: The caller has gone or the server stops.
            InvalidToken: The token is not good any more.
        """
        if has_happened() or seconds <= 0:
            return
        if self._count >= self._count_max:
            raise Limited(_RETRY_SECONDS)
        self._count += 1
        try:
            deadline = asyncio.get_running_loop().time() + seconds
            while not has_happened() and asyncio.get_running_loop().time() < deadline:
                if self._closing.is_set() or _has_gone(request):
                    raise Over
                _verify(request)
                await asyncio.sleep(_LOOK_SECONDS / 2)
        finally:
            self._count -= 1

    async def poll(
        self, request: web.Request, session: Session, encoded: tuple[int, bytes], commit: Commit | None
    ) -> bytes:
        """Execute a poll that waits, and store its last offset if there is still somebody who gets the messages.

        The command could store it by itself, but also for a caller who has just gone.

        Args:
            request: Whose answer it is.
            session: Nobody else uses it meanwhile.
            encoded: The command.
            commit: Makes the command that stores an offset of a partition; None: nothing is stored.

        Raises:
            Over: The caller has gone or the server stops; the session is of no use then.
            InvalidToken: The token is not good any more; nor is the session then.
            Refused: An answer is an error.
        """
        payload = await self.ask(request, session, encoded)
        if commit is not None:
            batch = core.decode_polled(payload, names_gap=True)
            if batch.last_offset is not None:
                if _has_gone(request):
                    raise Over
                answered(await session.call(*commit(batch.partition_id, batch.last_offset)))
        return payload

    async def ask(self, request: web.Request, session: Session, encoded: tuple[int, bytes]) -> bytes:
        """Execute a command that waits; the payload of its answer.

        Raises:
            Over: The caller has gone or the server stops; the session is of no use then.
            InvalidToken: The token is not good any more; nor is the session then.
            Refused: The answer is an error.
        """
        answer = asyncio.ensure_future(session.call(*encoded))
        closing = asyncio.ensure_future(self._closing.wait())
        try:
            while not answer.done():
                if closing.done() or _has_gone(request):
                    raise Over
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


def _has_gone(request: web.Request) -> bool:
    return request.transport is None or request.transport.is_closing()
