"""Turns for the hashing of passwords: known users first, then newcomers, of whom few may wait."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from typing import Final

NEWCOMERS_MAX: Final = 64
"""Maximum number of newcomers that wait, which is a few seconds of hashing."""


class Crowded(Exception):
    """Too many newcomers wait for a turn."""


class Turns:
    """A limited number of turns at the same time.

    Known users come before newcomers, whatever the number of newcomers. Within each kind the owners take turns: who
    waits many times delays mostly itself.
    """

    def __init__(self, count: int, *, newcomers_max: int = NEWCOMERS_MAX) -> None:
        """Set the limits.

        Args:
            count: Number of turns at the same time.
            newcomers_max: Maximum number of newcomers that wait. One more takes the place of an address that waits more
                often than its own, or is refused.
        """
        self._free = count
        self._newcomers_max = newcomers_max
        self._known = _Queue()
        self._newcomers = _Queue()

    @asynccontextmanager
    async def of(self, owner: Hashable, *, is_known: bool) -> AsyncIterator[None]:
        """Wait for a turn, and have it for the duration of an ``async with`` block.

        Args:
            owner: Who waits: a user, or the address of a newcomer.
            is_known: Whether it is a user who has logged in before.

        Raises:
            Crowded: Too many newcomers wait.
        """
        if self._free > 0:
            self._free -= 1
        else:
            await self._wait(self._known if is_known else self._newcomers, owner)
        try:
            yield
        finally:
            self._pass_on()

    async def _wait(self, queue: _Queue, owner: Hashable) -> None:
        if queue is self._newcomers and queue.count >= self._newcomers_max:
            queue.make_room_for(owner)
        turn = queue.add(owner)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                # The turn came at the same time.
                self._pass_on()
            else:
                queue.remove(owner, turn)
            raise

    def _pass_on(self) -> None:
        turn = self._known.take() or self._newcomers.take()
        if turn is None:
            self._free += 1
        else:
            turn.set_result(None)


class _Queue:
    """Turns by owner; the owners come one after the other."""

    def __init__(self) -> None:
        self.count = 0
        self._waiting: OrderedDict[Hashable, deque[asyncio.Future[None]]] = OrderedDict()

    def add(self, owner: Hashable) -> asyncio.Future[None]:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(owner, deque()).append(turn)
        self.count += 1
        return turn

    def take(self) -> asyncio.Future[None] | None:
        while self._waiting:
            owner, turns = self._waiting.popitem(last=False)
            turn = turns.popleft()
            self.count -= 1
            if turns:
                self._waiting[owner] = turns
            # A cancelled one has not removed itself yet.
            if not turn.done():
                return turn
        return None

    def remove(self, owner: Hashable, turn: asyncio.Future[None]) -> None:
        turns = self._waiting.get(owner)
        if turns is not None and turn in turns:
            turns.remove(turn)
            self.count -= 1
            if not turns:
                del self._waiting[owner]

    def make_room_for(self, owner: Hashable) -> None:
        """Refuse the last turn of the owner that waits most often.

        Raises:
            Crowded: No other owner waits more often than this one does.
        """
        most = max(self._waiting, key=lambda other: len(self._waiting[other]))
        if len(self._waiting[most]) <= len(self._waiting.get(owner, ())) + 1:
            raise Crowded
        turn = self._waiting[most].pop()
        self.count -= 1
        if not turn.done():
            turn.set_exception(Crowded())
