"""Limits that users share: one of them has at most half."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable


def share_of(count_max: int) -> int:
    """Return the part of a limit that one user may have: half, but at least one place if there is any."""
    return max(count_max // 2, min(count_max, 1))


class Shares:
    """Places up to a maximum, of which one owner has at most half."""

    def __init__(self, count_max: int) -> None:
        self._count_max = count_max
        self._count = 0
        self._counts: Counter[Hashable] = Counter()

    def take(self, owner: Hashable) -> bool:
        """Take one more place; return whether the owner may have it."""
        if self._count >= self._count_max or self._counts.get(owner, 0) >= share_of(self._count_max):
            return False
        self._count += 1
        self._counts[owner] += 1
        return True

    def give_back(self, owner: Hashable) -> None:
        """Give back one place of an owner."""
        self._count -= 1
        self._counts[owner] -= 1
        if self._counts[owner] <= 0:
            del self._counts[owner]
