"""How much of what is there becomes the next micro-batch."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TypeVar

_K = TypeVar("_K")


def shared_out(limit: int, backlog: Mapping[_K, int]) -> dict[_K, int]:
    """Share out what may be read among those who have something, in proportion to how much they have.

    Everybody who has something gets at least 1, while there is enough; what is left over by rounding goes to those who
    lost most by it. Nobody gets more than it has, and all together never more than the limit.

    Args:
        limit: How much may be read.
        backlog: How much there is, by whom. What has nothing is not in the result.
    """
    having = {key: amount for key, amount in backlog.items() if amount > 0}
    total = sum(having.values())
    if total <= limit:
        return having
    if limit <= len(having):
        # Not enough for everybody: the largest come first, then in the order given.
        first = sorted(having, key=lambda key: -having[key])[:limit]
        return {key: 1 for key in having if key in set(first)}
    # Whoever's part is less than 1 gets 1; the others share what that leaves, which may bring more of them below.
    shares: dict[_K, int] = {}
    rest = dict(having)
    while small := [key for key, amount in rest.items() if limit * amount < total]:
        for key in small:
            shares[key] = 1
            total -= rest.pop(key)
        limit -= len(small)
    shares |= {key: limit * amount // total for key, amount in rest.items()}
    left_over = limit - sum(shares[key] for key in rest)
    for key in sorted(rest, key=lambda key: -(limit * rest[key] % total))[:left_over]:
        shares[key] += 1
    return {key: shares[key] for key in having}


class Patience:
    """Waits for enough messages, but only so long: ``minOffsetsPerTrigger`` and ``maxTriggerDelay``."""

    def __init__(self, minimum: int | None, delay_ms: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._minimum = minimum
        self._delay_seconds = delay_ms / 1000
        self._clock = clock
        self._waiting_since = clock()

    def is_over(self, available: int) -> bool:
        """Whether a micro-batch begins now, with so many messages there. Never with none."""
        if available <= 0:
            return False
        now = self._clock()
        is_late = now - self._waiting_since >= self._delay_seconds
        if self._minimum is None or available >= self._minimum or is_late:
            self._waiting_since = now
            return True
        return False
