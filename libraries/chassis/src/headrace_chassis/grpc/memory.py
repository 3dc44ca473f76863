"""Memory of calls in bytes, which users share."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from typing import Final, NamedTuple, Self

from headrace_chassis.grpc.status import Refused
from headrace_proto.errors import Status

_RETRY_SECONDS: Final = 1.0


class _Waiting(NamedTuple):
    user: Hashable
    size_bytes: int
    turn: asyncio.Future[None]


class Pool:
    """A pool of bytes of which one user holds at most half of what the others leave.

    Who holds nothing gets what fits into the rest, up to half of the pool. Calls of one user wait for each other, in
    order, and never behind those of other users, who may not give anything back for long.
    """

    def __init__(self, size_bytes: int) -> None:
        self._size_bytes = size_bytes
        self._used_by: Counter[Hashable] = Counter()
        self._waiting: deque[_Waiting] = deque()
        self.used_bytes = 0
        """Number of bytes in use."""

    def held_by(self, user: Hashable) -> Held:
        """Return an empty holding of a user."""
        return Held(self, user)

    async def take(self, user: Hashable, size_bytes: int) -> int:
        """Wait for and take bytes; return the number taken, which is half of the pool at most."""
        size_bytes = min(size_bytes, self._size_bytes // 2)
        if self.take_now(user, size_bytes):
            return size_bytes
        turn = asyncio.get_running_loop().create_future()
        waiting = _Waiting(user, size_bytes, turn)
        self._waiting.append(waiting)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                # The bytes were granted concurrently with the cancellation.
                self.give(user, size_bytes)
            else:
                self._waiting.remove(waiting)
                self._grant()
            raise
        return size_bytes

    def take_now(self, user: Hashable, size_bytes: int) -> bool:
        """Take bytes, if the user may have them and no call of his waits; return whether."""
        if any(waiting.user == user for waiting in self._waiting) or not self._has(user, size_bytes):
            return False
        self._count(user, size_bytes)
        return True

    def give(self, user: Hashable, size_bytes: int) -> None:
        """Release bytes; a negative number takes bytes without waiting."""
        self._count(user, -size_bytes)
        self._grant()

    def _grant(self) -> None:
        short: set[Hashable] = set()
        for waiting in [waiting for waiting in self._waiting if not waiting.turn.done()]:
            if waiting.user in short:
                continue
            if self._has(waiting.user, waiting.size_bytes):
                self._waiting.remove(waiting)
                self._count(waiting.user, waiting.size_bytes)
                waiting.turn.set_result(None)
            else:
                short.add(waiting.user)

    def _has(self, user: Hashable, size_bytes: int) -> bool:
        own = self._used_by.get(user, 0)
        left = self._size_bytes - (self.used_bytes - own)
        return size_bytes == 0 or own + size_bytes <= (left // 2 if own else left)

    def _count(self, user: Hashable, size_bytes: int) -> None:
        self.used_bytes += size_bytes
        self._used_by[user] += size_bytes
        if self._used_by[user] == 0:
            del self._used_by[user]


class Held:
    """Memory of a pool held by one call, until the end of an ``async with`` block."""

    def __init__(self, pool: Pool, user: Hashable) -> None:
        self._pool = pool
        self._user = user
        self._size_bytes = 0

    async def __aenter__(self) -> Self:
        """Enter without holding anything."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Release everything."""
        self.shrink(0)

    async def grow(self, size_bytes: int, *, timeout_seconds: float | None = None) -> None:
        """Hold additional bytes.

        Args:
            size_bytes: Number of bytes.
            timeout_seconds: Timeout; None: no timeout.

        Raises:
            Refused: The timeout expired.
        """
        try:
            async with asyncio.timeout(timeout_seconds):
                taken_bytes = await self._pool.take(self._user, size_bytes)
        except TimeoutError:
            reason = "the memory budget is in use by other calls"
            raise Refused(Status.TOO_MANY_WAITS, reason, retry_after_seconds=_RETRY_SECONDS) from None
        # Added after the wait, as other tasks of the call may have changed the sum meanwhile.
        self._size_bytes += taken_bytes

    def grow_now(self, size_bytes: int) -> bool:
        """Hold additional bytes if nothing has to be waited for; return whether."""
        if not self._pool.take_now(self._user, size_bytes):
            return False
        self._size_bytes += size_bytes
        return True

    def shrink(self, size_bytes: int) -> None:
        """Release everything beyond this number of bytes."""
        self.resize(min(size_bytes, self._size_bytes))

    def resize(self, size_bytes: int) -> None:
        """Hold this number of bytes, without a wait for more: these are allocated already."""
        surplus, self._size_bytes = self._size_bytes - size_bytes, size_bytes
        if surplus:
            self._pool.give(self._user, surplus)

    @asynccontextmanager
    async def holding(self, size_bytes: int) -> AsyncIterator[None]:
        """Hold additional bytes for the duration of an ``async with`` block."""
        before = self._size_bytes
        await self.grow(size_bytes)
        try:
            yield
        finally:
            self.shrink(before)
