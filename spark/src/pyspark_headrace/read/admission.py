"""Limits on the size of the next micro-batch."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TypeVar

_K = TypeVar("_K")


def shared_out(limit: int, backlog: Mapping[_K, int]) -> dict[_K, int]:
    """Distribute a limit over backlogs, in proportion to their sizes.

    Every non-empty backlog gets at least 1, as long as the limit suffices. The remainder left by rounding goes to the
    backlogs that lost most by rounding. No backlog gets more than its size, and the sum never exceeds the limit.

    Args:
        limit: Maximum sum of all shares.
        backlog: Number of unread messages by key. Empty backlogs are left out of the result.
    """
    having = {key: amount for key, amount in backlog.items() if amount > 0}
    total = sum(having.values())
    if total <= limit:
        return having
    if limit <= len(having):
        # The limit is below one each: the largest backlogs come first, ties in the given order.
        first = sorted(having, key=lambda key: -having[key])[:limit]
        return {key: 1 for key in having if key in set(first)}
    # A share below 1 is rounded up to 1. The others divide the rest, which may push more of them below 1.
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


class TriggerDelay:
    """Trigger condition of ``minOffsetsPerTrigger`` and ``maxTriggerDelay``: enough messages, or enough time."""

    def __init__(self, minimum: int | None, delay_ms: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._minimum = minimum
        self._delay_seconds = delay_ms / 1000
        self._clock = clock
        self._waiting_since = clock()

    def is_over(self, available: int) -> bool:
        """Return whether a micro-batch starts now, given the number of available messages. Always false for none."""
        if available <= 0:
            return False
        now = self._clock()
        is_late = now - self._waiting_since >= self._delay_seconds
        if self._minimum is None or available >= self._minimum or is_late:
            self._waiting_since = now
            return True
        return False
