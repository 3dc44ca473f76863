"""Calls that last: each has sessions of its own, and all of them together are limited."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from headrace_gateway.grpc.refused import Refused
from headrace_gateway.sessions import Session, Sessions
from headrace_proto.errors import Status

_RETRY_SECONDS = 1.0


class Streams:
    """Places for calls that last, and their sessions."""

    def __init__(self, sessions: Sessions, *, count_max: int) -> None:
        self._sessions = sessions
        self._count_max = count_max
        self._count = 0
        self._opened: set[Session] = set()
        self._is_closed = False

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """A place, for the length of an ``async with`` block.

        Raises:
            Refused: There is none left.
        """
        if self._count >= self._count_max:
            raise Refused(Status.TOO_MANY_WAITS, "too many calls last already", retry_after_seconds=_RETRY_SECONDS)
        self._count += 1
        try:
            yield
        finally:
            self._count -= 1

    @asynccontextmanager
    async def session(self, user_id: int) -> AsyncIterator[Session]:
        """A session that nobody else uses, for the length of an ``async with`` block.

        Raises:
            SessionLost: The node takes none, or the server stops.
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
        """End all of them: whoever waits for an answer learns that there is none."""
        self._is_closed = True
        for session in self._opened:
            session.close()
