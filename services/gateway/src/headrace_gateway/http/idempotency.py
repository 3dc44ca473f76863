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
    """Recently used keys of batches; beyond the maximum the oldest are dropped."""

    def __init__(self, *, count_max: int, ttl_seconds: float, now: Callable[[], float]) -> None:
        self._count_max = count_max
        self._ttl_seconds = ttl_seconds
        self._now = now
        self._entries: OrderedDict[Key, _Entry] = OrderedDict()

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
        while (entry := self._entries.get(key)) is not None and not self._is_over(entry):
            if entry.digest != digest:
                raise Rejected(422, "The Idempotency-Key was used for another batch.")
            await entry.finished.wait()
            if entry.is_appended:
                return True
            if self._entries.get(key) is entry:
                del self._entries[key]
        await self._first(key, digest, append)
        return False

    async def _first(self, key: Key, digest: bytes, append: Callable[[], Awaitable[None]]) -> None:
        entry = self._entries[key] = _Entry(digest, self._now() + self._ttl_seconds)
        self._entries.move_to_end(key)
        self._forget()
        try:
            await append()
            entry.is_appended = True
        finally:
            entry.finished.set()
            if not entry.is_appended and self._entries.get(key) is entry:
                del self._entries[key]

    def _is_over(self, entry: _Entry) -> bool:
        return entry.finished.is_set() and entry.expires_at <= self._now()

    def _forget(self) -> None:
        forgotten: list[Key] = []
        for key, entry in self._entries.items():
            if len(self._entries) - len(forgotten) <= self._count_max and entry.expires_at > self._now():
                break
            # An unfinished entry is kept because its duplicates wait for it; their number is limited by the number of
            # requests.
            if entry.finished.is_set():
                forgotten.append(key)
        for key in forgotten:
            del self._entries[key]


def _digest(batch: bytes) -> bytes:
    return hashlib.blake2b(batch, digest_size=16).digest()
