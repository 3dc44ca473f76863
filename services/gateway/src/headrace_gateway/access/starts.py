"""Starts of requests: few requests of one user in each turn of the loop, so that many of one user delay no other."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Hashable
from typing import Final

STARTS_MAX: Final = 2
"""Number of requests of one user that start in one turn: a few hundred microseconds each, so a turn stays short."""


class Starts:
    """Requests that may start in the present turn of the event loop, and those that wait for the next, by user."""

    def __init__(self) -> None:
        self._started: Counter[Hashable] = Counter()
        self._waiting: dict[Hashable, deque[asyncio.Future[None]]] = {}
        self._is_due = False

    async def take(self, user: Hashable) -> None:
        """Wait until a request of this user may start; those of one user start in the order in which they came."""
        if user not in self._waiting and self._started[user] < STARTS_MAX:
            self._started[user] += 1
            self._end_soon()
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(user, deque()).append(turn)
        self._end_soon()
        await turn

    def _end_soon(self) -> None:
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._begin)

    def _begin(self) -> None:
        self._is_due = False
        self._started.clear()
        for user, waiting in list(self._waiting.items()):
            while waiting and self._started[user] < STARTS_MAX:
                turn = waiting.popleft()
                # The caller of a cancelled one has disconnected.
                if not turn.done():
                    self._started[user] += 1
                    turn.set_result(None)
            if not waiting:
                del self._waiting[user]
        if self._started:
            self._end_soon()
