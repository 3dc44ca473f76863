"""Starts of requests: few requests of one user in each turn of the loop, so that many of one user delay no other."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Hashable
from typing import Final

STARTS_MAX: Final = 2
"""Number of requests of one user that start in one turn: a few hundred microseconds each, so a turn stays short."""


class Starts:
    """Requests that may start in the present turn, and those that wait for the next, by user."""

    def __init__(
        self, starts_max: int = STARTS_MAX, *, quiet_seconds: float = 0.0, turn_seconds_max: float = 0.0
    ) -> None:
        """Set the length of a turn: by default one pass of the event loop.

        Args:
            starts_max: Number of requests of one user that start in one turn.
            quiet_seconds: A turn lasts until nothing has arrived for this time.
            turn_seconds_max: A turn lasts no longer than this, whatever arrives.
        """
        self._starts_max = starts_max
        self._quiet_seconds = quiet_seconds
        self._turn_seconds_max = turn_seconds_max
        self._began_at = self._arrived_at = 0.0
        self._started: Counter[Hashable] = Counter()
        self._waiting: dict[Hashable, deque[asyncio.Future[None]]] = {}
        self._is_due = False

    async def take(self, user: Hashable) -> None:
        """Wait until a request of this user may start; those of one user start in the order in which they came."""
        if not self._is_due and not self._lasts():
            self._begin()
        self._arrived_at = time.monotonic()
        if user not in self._waiting and self._started[user] < self._starts_max:
            self._started[user] += 1
            self._end_soon()
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(user, deque()).append(turn)
        self._end_soon()
        await turn

    def _lasts(self) -> bool:
        now = time.monotonic()
        return now < self._arrived_at + self._quiet_seconds and now < self._began_at + self._turn_seconds_max

    def _end_soon(self) -> None:
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._end)

    def _end(self) -> None:
        self._is_due = False
        if not self._lasts():
            self._begin()
        elif self._waiting:
            self._is_due = True
            pause_seconds = min(self._quiet_seconds, self._turn_seconds_max)
            asyncio.get_running_loop().call_later(pause_seconds, self._end)

    def _begin(self) -> None:
        self._began_at = time.monotonic()
        self._started.clear()
        for user, waiting in list(self._waiting.items()):
            while waiting and self._started[user] < self._starts_max:
                turn = waiting.popleft()
                # The caller of a cancelled one has disconnected.
                if not turn.done():
                    self._started[user] += 1
                    turn.set_result(None)
            if not waiting:
                del self._waiting[user]
        if self._started:
            self._end_soon()
