"""How many bytes of batches all calls together may hold."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

# What all calls together may hold is counted; this is beside it, and little.
_SPARES_MAX: Final = 8
_SPARE_BYTES_MAX: Final = 4 * 1024 * 1024


class Memory:
    """So many bytes. Who wants some waits until they are there, in the order of coming."""

    def __init__(self, size_bytes: int) -> None:
        self._size_bytes = size_bytes
        self._used_bytes = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @property
    def used_bytes(self) -> int:
        """How many are held."""
        return self._used_bytes

    async def take(self, size_bytes: int) -> Held:
        """Hold so many; never more than there are, however many that is."""
        size_bytes = min(size_bytes, self._size_bytes)
        if self._waiting or self._used_bytes + size_bytes > self._size_bytes:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((size_bytes, turn))
            try:
                await turn
            except asyncio.CancelledError:
                if not turn.cancelled():
                    # Its turn came at the same moment.
                    self._used_bytes -= size_bytes
                self._next()
                raise
        else:
            self._used_bytes += size_bytes
        return Held(self, size_bytes)

    def take_now(self, size_bytes: int) -> Held | None:
        """Hold so many if they are there and nobody waits; else nothing."""
        if self._waiting or self._used_bytes + size_bytes > self._size_bytes:
            return None
        self._used_bytes += size_bytes
        return Held(self, size_bytes)

    @asynccontextmanager
    async def holding(self, size_bytes: int) -> AsyncIterator[Held]:
        """Hold so many for the length of an ``async with`` block."""
        held = await self.take(size_bytes)
        try:
            yield held
        finally:
            held.resize(0)

    def give(self, size_bytes: int) -> None:
        """Give so many back, or take them without waiting if there are fewer than none."""
        self._used_bytes -= size_bytes
        self._next()

    def _next(self) -> None:
        while self._waiting:
            size_bytes, turn = self._waiting[0]
            # Who has given up waiting is passed over.
            if not turn.done():
                if self._used_bytes + size_bytes > self._size_bytes:
                    return
                self._used_bytes += size_bytes
                turn.set_result(None)
            self._waiting.popleft()


class Held:
    """What one holds."""

    def __init__(self, memory: Memory, size_bytes: int) -> None:
        self._memory = memory
        self._size_bytes = size_bytes

    def resize(self, size_bytes: int) -> None:
        """Hold so many instead: what is there already is not waited for."""
        surplus, self._size_bytes = self._size_bytes - size_bytes, size_bytes
        if surplus:
            self._memory.give(surplus)


class Spares:
    """Memory that was used for a response and is used for another one: new memory costs more than what goes into it."""

    def __init__(self) -> None:
        """Begin with none."""
        self._spares: list[bytearray] = []

    def take(self) -> bytearray:
        """The one that was used last; empty if there is none."""
        return self._spares.pop() if self._spares else bytearray()

    def give(self, used: bytes | memoryview) -> None:
        """Take a response back that nobody looks at any more, unless it is small, or large, or one too many."""
        memory = used.obj if isinstance(used, memoryview) else None
        if isinstance(memory, bytearray) and len(memory) <= _SPARE_BYTES_MAX and len(self._spares) < _SPARES_MAX:
            self._spares.append(memory)
