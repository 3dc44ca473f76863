"""Recent updates of the catalog, for remote followers."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

from headrace_proto.catalog.v1 import Snapshot, Update

UPDATES_MAX: Final = 8192
"""Maximum number of updates kept."""
BYTES_MAX: Final = 16 * 1024 * 1024
"""Maximum size of their encoded bytes."""


class UpdateHistory:
    """A bounded window of updates, which any number of followers read at their own pace.

    There is no state per follower: a follower that falls behind the window restarts with a snapshot, so a slow one
    costs no memory. All methods must be called on the thread of the event loop.
    """

    def __init__(self, version: int, *, updates_max: int = UPDATES_MAX, bytes_max: int = BYTES_MAX) -> None:
        """Start empty.

        Args:
            version: Initial version of the catalog.
            updates_max: Maximum number of updates.
            bytes_max: Maximum size of their encoded bytes.
        """
        self._version = version
        self._updates: deque[tuple[Update, int]] = deque()
        self._bytes = 0
        self._updates_max = updates_max
        self._bytes_max = bytes_max
        self._changed = asyncio.Event()

    @property
    def version(self) -> int:
        """Version of the newest update."""
        return self._version

    def append(self, update: Update) -> None:
        """Append an update, drop the oldest ones beyond the limits, and wake the followers."""
        size_bytes = update.ByteSize()
        self._updates.append((update, size_bytes))
        self._bytes += size_bytes
        while len(self._updates) > self._updates_max or self._bytes > self._bytes_max:
            self._bytes -= self._updates.popleft()[1]
        self._version = update.version
        self._wake()

    def restart(self, snapshot: Snapshot) -> None:
        """Continue from another catalog version, which was reached without updates."""
        self._updates.clear()
        self._bytes = 0
        self._version = snapshot.version
        self._wake()

    def after(self, version: int, *, count_max: int) -> list[Update] | None:
        """Return the oldest updates after ``version``; an empty list if there are none yet.

        Returns:
            At most ``count_max`` updates without a gap, or ``None`` if the first of them is no longer kept.
        """
        if version >= self._version:
            return []
        missing = self._version - version
        if missing > len(self._updates):
            return None
        first = len(self._updates) - missing
        return [self._updates[index][0] for index in range(first, min(first + count_max, len(self._updates)))]

    async def wait_beyond(self, version: int) -> None:
        """Wait for an update after ``version``."""
        while self._version <= version:
            await self._changed.wait()

    def _wake(self) -> None:
        # Replace the event: current waiters are woken, later ones wait for the next update.
        self._changed.set()
        self._changed = asyncio.Event()
