"""Limits of connections and of message rates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable


class Counted:
    """Counts items by owner, up to a maximum for each."""

    def __init__(self, count_max: int) -> None:
        self._count_max = count_max
        self._counts: Counter[Hashable] = Counter()

    def take(self, owner: Hashable) -> bool:
        """Count one more item unless the maximum is reached; return whether it was counted."""
        if self._counts.get(owner, 0) >= self._count_max:
            return False
        self._counts[owner] += 1
        return True

    def give_back(self, owner: Hashable) -> None:
        """Count one item less."""
        self._counts[owner] -= 1
        if self._counts[owner] <= 0:
            del self._counts[owner]


class Pace:
    """Rate limit: messages per second, with bursts of twice as many after a pause."""

    def __init__(self, per_second: int, now: Callable[[], float]) -> None:
        """Start with a full burst.

        Args:
            per_second: 0: unlimited.
            now: Seconds of a monotonic clock.
        """
        self._per_second = per_second
        self._now = now
        self._level = 2.0 * per_second
        self._filled_at = now()

    def take(self) -> bool:
        """Count one message; return whether the limit permits it."""
        if self._per_second == 0:
            return True
        now = self._now()
        self._level = min(2.0 * self._per_second, self._level + (now - self._filled_at) * self._per_second)
        self._filled_at = now
        if self._level < 1:
            return False
        self._level -= 1
        return True
