"""What calls may hold in sum, in bytes: requests from before they are received, responses until they are sent.

How large a request is, is known when it is there. Until then it counts as the largest one that is allowed; calls that
last would so hold much that is not there, which is why they have a pool of their own.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from typing import Final, NamedTuple, Self

from headrace_proto.errors import Status
from headrace_shards.grpc_refusals import Refused

# Of each pool one user may have this part.
_SHARE: Final = 2
_RETRY_SECONDS: Final = 1.0


class _Waiting(NamedTuple):
    user: Hashable
    size_bytes: int
    turn: asyncio.Future[None]


class Pool:
    """So many bytes, of which nobody has more than half."""

    def __init__(self, size_bytes: int) -> None:
        self._size_bytes = size_bytes
        self._used_bytes = 0
        self._used_by: Counter[Hashable] = Counter()
        self._waiting: deque[_Waiting] = deque()

    @property
    def used_bytes(self) -> int:
        """How many are taken."""
        return self._used_bytes

    def held_by(self, user: Hashable) -> Held:
        """What a user holds, nothing at first."""
        return Held(self, user)

    async def take(self, user: Hashable, size_bytes: int) -> int:
        """Take so many when there are as many; returns how many are taken: never more than one user may have."""
        size_bytes = min(size_bytes, self._size_bytes // _SHARE)
        if not self._has(user, size_bytes):
            turn = asyncio.get_running_loop().create_future()
            waiting = _Waiting(user, size_bytes, turn)
            self._waiting.append(waiting)
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    # Its turn came at the same moment.
                    self.give(user, size_bytes)
                else:
                    self._waiting.remove(waiting)
                raise
            return size_bytes
        self._count(user, size_bytes)
        return size_bytes

    def give(self, user: Hashable, size_bytes: int) -> None:
        """Give so many back, to those who have waited longest first."""
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
    """What one call holds of a pool, until the end of an ``async with`` block."""

    def __init__(self, pool: Pool, user: Hashable) -> None:
        self._pool = pool
        self._user = user
        self._size_bytes = 0

    async def __aenter__(self) -> Self:
        """It holds nothing yet."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Give everything back."""
        self.shrink(0)

    async def grow(self, size_bytes: int, *, patience_seconds: float | None = None) -> None:
        """Hold so many more.

        Args:
            size_bytes: How many.
            patience_seconds: How long to wait for them; None: until they are there.

        Raises:
            Refused: They are not there in time.
        """
        try:
            async with asyncio.timeout(patience_seconds):
                self._size_bytes += await self._pool.take(self._user, size_bytes)
        except TimeoutError:
            reason = "other calls hold all the memory that there is for them"
            raise Refused(Status.TOO_MANY_WAITS, reason, retry_after_seconds=_RETRY_SECONDS) from None

    def shrink(self, size_bytes: int) -> None:
        """Hold no more than so many."""
        if size_bytes < self._size_bytes:
            surplus, self._size_bytes = self._size_bytes - size_bytes, size_bytes
            self._pool.give(self._user, surplus)

    @asynccontextmanager
    async def holding(self, size_bytes: int) -> AsyncIterator[None]:
        """Hold so many more for the length of an ``async with`` block."""
        before = self._size_bytes
        await self.grow(size_bytes)
        try:
            yield
        finally:
            self.shrink(before)


class Memory:
    """The pools of the door."""

    def __init__(self, size_bytes: int) -> None:
        """Divide so many bytes."""
        self.requests_of_streams = Pool(size_bytes // 2)
        self.responses_of_streams = Pool(size_bytes // 4)
        self.calls = Pool(size_bytes // 4)
