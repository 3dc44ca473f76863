"""Memory budget of calls in bytes: requests from before their reception, responses until they are sent.

The size of a request is known only after its reception; until then the maximum size is accounted. Long-lived calls
would therefore reserve much unused memory, so they have a pool of their own.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from typing import Final, NamedTuple, Self

from headrace_chassis.grpc.status import Refused
from headrace_proto.errors import Status

# One user may hold 1/2 of each pool.
_SHARE: Final = 2
_RETRY_SECONDS: Final = 1.0


class _Waiting(NamedTuple):
    user: Hashable
    size_bytes: int
    turn: asyncio.Future[None]


class Pool:
    """A pool of bytes of which one user holds at most half."""

    def __init__(self, size_bytes: int) -> None:
        self._size_bytes = size_bytes
        self._used_bytes = 0
        self._used_by: Counter[Hashable] = Counter()
        self._waiting: deque[_Waiting] = deque()

    @property
    def used_bytes(self) -> int:
        """Number of bytes in use."""
        return self._used_bytes

    def held_by(self, user: Hashable) -> Held:
        """Return an empty holding of a user."""
        return Held(self, user)

    async def take(self, user: Hashable, size_bytes: int) -> int:
        """Wait for and take bytes; return the number taken, which is capped at one user's share."""
        size_bytes = min(size_bytes, self._size_bytes // _SHARE)
        if not self._has(user, size_bytes):
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
                raise
            return size_bytes
        self._count(user, size_bytes)
        return size_bytes

    def give(self, user: Hashable, size_bytes: int) -> None:
        """Release bytes; waiters are served in FIFO order."""
        self._count(user, -size_bytes)
        for waiting in [waiting for waiting in self._waiting if not waiting.turn.done()]:
            if self._has(waiting.user, waiting.size_bytes):
                self._waiting.remove(waiting)
                self._count(waiting.user, waiting.size_bytes)
                waiting.turn.set_result(None)

    def _has(self, user: Hashable, size_bytes: int) -> bool:
        share = self._size_bytes // _SHARE
        return (
            self._used_bytes + size_bytes <= self._size_bytes and self._used_by[user] + size_bytes <= share
        ) or size_bytes == 0

    def _count(self, user: Hashable, size_bytes: int) -> None:
        self._used_bytes += size_bytes
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

    def shrink(self, size_bytes: int) -> None:
        """Release everything beyond this number of bytes."""
        if size_bytes < self._size_bytes:
            surplus, self._size_bytes = self._size_bytes - size_bytes, size_bytes
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


class Memory:
    """Memory pools of the gRPC listener."""

    def __init__(self, size_bytes: int) -> None:
        """Split the budget into pools."""
        self.requests_of_streams = Pool(size_bytes // 2)
        self.responses_of_streams = Pool(size_bytes // 4)
        self.calls = Pool(size_bytes // 4)
