"""Memory budget of batches of all calls."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

# The spare buffers are not part of the budget; their total size is small.
_SPARES_MAX: Final = 8
_SPARE_BYTES_MAX: Final = 4 * 1024 * 1024


class Memory:
    """A budget of bytes, granted in FIFO order."""

    def __init__(self, size_bytes: int) -> None:
        self._size_bytes = size_bytes
        self._used_bytes = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @property
    def used_bytes(self) -> int:
        """Number of bytes in use."""
        return self._used_bytes

    async def take(self, size_bytes: int) -> Held:
        """Wait for and hold bytes, capped at the whole budget."""
        size_bytes = min(size_bytes, self._size_bytes)
        if self._waiting or self._used_bytes + size_bytes > self._size_bytes:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((size_bytes, turn))
            try:
                await turn
            except asyncio.CancelledError:
                if not turn.cancelled():
                    # The bytes were granted concurrently with the cancellation.
                    self._used_bytes -= size_bytes
                self._next()
                raise
        else:
            self._used_bytes += size_bytes
        return Held(self, size_bytes)

    def take_now(self, size_bytes: int) -> Held | None:
        """Hold bytes if they are free and there are no waiters; None otherwise."""
        if self._waiting or self._used_bytes + size_bytes > self._size_bytes:
            return None
        self._used_bytes += size_bytes
        return Held(self, size_bytes)

    @asynccontextmanager
    async def holding(self, size_bytes: int) -> AsyncIterator[Held]:
        """Hold bytes for the duration of an ``async with`` block."""
        held = await self.take(size_bytes)
        try:
            yield held
        finally:
            held.resize(0)

    def give(self, size_bytes: int) -> None:
        """Release bytes; a negative number takes bytes without waiting."""
        self._used_bytes -= size_bytes
        self._next()

    def _next(self) -> None:
        while self._waiting:
            size_bytes, turn = self._waiting[0]
            # Cancelled waiters are skipped.
            if not turn.done():
                if self._used_bytes + size_bytes > self._size_bytes:
                    return
                self._used_bytes += size_bytes
                turn.set_result(None)
            self._waiting.popleft()


class Held:
    """A holding of bytes."""

    def __init__(self, memory: Memory, size_bytes: int) -> None:
        self._memory = memory
        self._size_bytes = size_bytes

    def resize(self, size_bytes: int) -> None:
        """Change the number of bytes held, without waiting because the memory is already allocated."""
        surplus, self._size_bytes = self._size_bytes - size_bytes, size_bytes
        if surplus:
            self._memory.give(surplus)


class Spares:
    """Pool of response buffers for reuse: allocating new memory costs more than filling it."""

    def __init__(self) -> None:
        """Start empty."""
        self._spares: list[bytearray] = []

    def take(self) -> bytearray:
        """Return the most recently used buffer; an empty one if there is none."""
        return self._spares.pop() if self._spares else bytearray()

    def give(self, used: bytes | memoryview) -> None:
        """Return an unused buffer to the pool, unless it is too small, too large, or the pool is full."""
        memory = used.obj if isinstance(used, memoryview) else None
        if isinstance(memory, bytearray) and len(memory) <= _SPARE_BYTES_MAX and len(self._spares) < _SPARES_MAX:
            self._spares.append(memory)
