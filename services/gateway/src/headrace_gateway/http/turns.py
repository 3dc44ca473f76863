"""Polls of one consumer at the same time, each of which stores the offset of what it returns."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Iterator
from contextlib import contextmanager


class Turn:
    """The place of one consumer: messages are read, and their offset is stored, by one poll at a time."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.stored_count = 0
        """Number of offsets stored so far: what was read before the last one may be read twice."""
        self.polls_count = 0


class Turns:
    """Turns of all consumers with a poll in progress."""

    def __init__(self) -> None:
        self._turns: dict[Hashable, Turn] = {}

    @contextmanager
    def of(self, consumer: Hashable) -> Iterator[Turn]:
        """Return the turn of a consumer for the duration of a ``with`` block."""
        turn = self._turns.setdefault(consumer, Turn())
        turn.polls_count += 1
        try:
            yield turn
        finally:
            turn.polls_count -= 1
            if not turn.polls_count:
                del self._turns[consumer]
