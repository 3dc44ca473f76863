"""Idempotent appends: a batch with a key is appended once, even if it is sent repeatedly.

Keys are kept in the memory of this process: after a restart a repeated batch is appended again. A batch with an unknown
outcome is not remembered: repeating it may append it twice, as without a key.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from headrace_chassis.shares import share_of
from headrace_gateway.json_api.errors import Rejected

Key = tuple[int, str, str]
"""User, topic as in the path, and the client's key of the batch."""


@dataclass(slots=True)
class _Entry:
    digest: bytes
    expires_at: float
    finished: asyncio.Event = field(default_factory=asyncio.Event)
    is_appended: bool = False


class IdempotencyKeys:
    """Recently used keys of batches.

    Beyond the maximum the oldest key of the user with the most keys is dropped, and beyond half of the maximum a user's
    own oldest: no other user's key is forgotten early because of one who makes many.
    """

    def __init__(self, *, count_max: int, ttl_seconds: float, now: Callable[[], float]) -> None:
        self._count_max = count_max
        self._ttl_seconds = ttl_seconds
        self._now = now
        self._count = 0
        # By user, each from the oldest to the newest.
        self._entries: dict[int, OrderedDict[Key, _Entry]] = {}

    @property
    def count(self) -> int:
        """Number of remembered keys."""
        return self._count

    async def once(self, key: Key, batch: bytes, append: Callable[[], Awaitable[None]]) -> bool:
        """Append a batch unless its key was appended before; return whether it was.

        A concurrent duplicate waits for the first append, and is appended in its place if that fails.

        Raises:
            Rejected: The key was used for another batch.
        """
        if self._count_max == 0:
            await append()
            return False
        digest = await asyncio.to_thread(_digest, batch)
        while (entry := self._of(key).get(key)) is not None and not self._is_over(entry):
            if entry.digest != digest:
                raise Rejected(422, "The Idempotency-Key was used for another batch.")
            await entry.finished.wait()
            if entry.is_appended:
                return True
            self._drop(key, entry)
        await self._first(key, digest, append)
        return False

    async def _first(self, key: Key, digest: bytes, append: Callable[[], Awaitable[None]]) -> None:
        entry = _Entry(digest, self._now() + self._ttl_seconds)
        self._add(key, entry)
        try:
            await append()
            entry.is_appended = True
        finally:
            entry.finished.set()
            if not entry.is_appended:
                self._drop(key, entry)

    def _of(self, key: Key) -> OrderedDict[Key, _Entry]:
        return self._entries.get(key[0], OrderedDict())

    def _add(self, key: Key, entry: _Entry) -> None:
        mine = self._entries.setdefault(key[0], OrderedDict())
        self._count += key not in mine
        mine[key] = entry
        mine.move_to_end(key)
        self._forget(mine, share_of(self._count_max))
        if self._count > self._count_max:
            for other in list(self._entries.values()):
                self._forget(other, len(other))
            if self._count > self._count_max:
                most = max(self._entries.values(), key=len)
                self._forget(most, len(most) - 1)

    def _drop(self, key: Key, entry: _Entry) -> None:
        mine = self._of(key)
        if mine.get(key) is entry:
            del mine[key]
            self._count -= 1
            if not mine:
                del self._entries[key[0]]

    def _forget(self, entries: OrderedDict[Key, _Entry], count_max: int) -> None:
        """Drop what has expired, and the oldest beyond a number."""
        forgotten: list[tuple[Key, _Entry]] = []
        now = self._now()
        for key, entry in entries.items():
            if len(entries) - len(forgotten) <= count_max and entry.expires_at > now:
                break
            # An unfinished entry is kept because its duplicates wait for it; their number is limited by the number of
            # requests.
            if entry.finished.is_set():
                forgotten.append((key, entry))
        for key, entry in forgotten:
            self._drop(key, entry)

    def _is_over(self, entry: _Entry) -> bool:
        return entry.finished.is_set() and entry.expires_at <= self._now()


def _digest(batch: bytes) -> bytes:
    return hashlib.blake2b(batch, digest_size=16).digest()
