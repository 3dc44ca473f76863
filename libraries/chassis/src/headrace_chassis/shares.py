"""Limits that users share: one of them has at most half of what the others leave."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable


def share_of(count_max: int) -> int:
    """Return the part of a limit that one user may have: half, but at least one place if there is any."""
    return max(count_max // 2, min(count_max, 1))


class Shares:
    """Places up to a maximum. One owner has at most half of what the others leave, and one while one is free."""

    def __init__(self, count_max: int, *, each_max: int | None = None) -> None:
        """Set the limits.

        Args:
            count_max: Number of places.
            each_max: Maximum number of places of one owner; None: no other limit than the share.
        """
        self._count_max = count_max
        self._each_max = count_max if each_max is None else each_max
        self._counts: Counter[Hashable] = Counter()
        self.count = 0
        """Number of places that are taken."""

    def take(self, owner: Hashable) -> bool:
        """Take one more place; return whether the owner may have it."""
        own = self._counts.get(owner, 0)
        left = self._count_max - (self.count - own)
        if own >= min(share_of(left), self._each_max):
            return False
        self.count += 1
        self._counts[owner] += 1
        return True

    def holds(self, owner: Hashable) -> bool:
        """Return whether an owner has any place."""
        return owner in self._counts

    def give_back(self, owner: Hashable) -> None:
        """Give back one place of an owner."""
        self.count -= 1
        self._counts[owner] -= 1
        if self._counts[owner] <= 0:
            del self._counts[owner]
