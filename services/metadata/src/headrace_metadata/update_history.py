"""The newest updates of the catalogue, for those who follow it from elsewhere."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

from headrace_proto.catalog.v1 import Snapshot, Update

UPDATES_MAX: Final = 8192
"""How many updates are kept at most."""
BYTES_MAX: Final = 16 * 1024 * 1024
"""How many encoded bytes they may have together."""


class UpdateHistory:
    """A bounded window on the updates, which any number of followers read at a pace of their own.

    Nothing is kept per follower: one that falls behind the window begins again with a snapshot, so a slow one costs
    no memory. All methods belong to the thread of the event loop.
    """

    def __init__(self, version: int, *, updates_max: int = UPDATES_MAX, bytes_max: int = BYTES_MAX) -> None:
        """Start empty.

        Args:
            version: Of the catalogue at the beginning.
            updates_max: How many updates are kept at most.
            bytes_max: How many encoded bytes they may have together.
        """
        self._version = version
        self._updates: deque[tuple[Update, int]] = deque()
        self._bytes = 0
        self._updates_max = updates_max
        self._bytes_max = bytes_max
        self._changed = asyncio.Event()

    @property
    def version(self) -> int:
        """Of the newest update."""
        return self._version

    def append(self, update: Update) -> None:
        """Keep the next update, give up the oldest if need be, and wake the followers."""
        size_bytes = update.ByteSize()
        self._updates.append((update, size_bytes))
        self._bytes += size_bytes
        while len(self._updates) > self._updates_max or self._bytes > self._bytes_max:
            self._bytes -= self._updates.popleft()[1]
        self._version = update.version
        self._wake()

    def restart(self, snapshot: Snapshot) -> None:
        """Go on from another version of the catalogue, which was reached without updates."""
        self._updates.clear()
        self._bytes = 0
        self._version = snapshot.version
        self._wake()

    def after(self, version: int, *, count_max: int) -> list[Update] | None:
        """Return the oldest updates after ``version``; none of them if that one is the newest or still to come.

        Returns:
            At most ``count_max`` updates without a gap, or ``None`` if the first of them is not kept any more.
        """
        if version >= self._version:
            return []
        missing = self._version - version
        if missing > len(self._updates):
            return None
        first = len(self._updates) - missing
        return [self._updates[index][0] for index in range(first, min(first + count_max, len(self._updates)))]

    async def wait_beyond(self, version: int) -> None:
        """Return when there is an update after ``version``."""
        while self._version <= version:
            await self._changed.wait()

    def _wake(self) -> None:
        # A new event each time: whoever waits on the old one is woken, whoever comes later waits for the next.
        self._changed.set()
        self._changed = asyncio.Event()
