"""Token buckets: so many requests at once, and so many a second after that."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable

_CALLERS_MAX = 10_000


class RateLimits:
    """One bucket for each caller; of callers who have not been seen for longest the bucket is taken to be full."""

    def __init__(self, *, per_second: int, burst: int, now: Callable[[], float]) -> None:
        """Limit nothing yet.

        Args:
            per_second: How fast a bucket fills; 0 is no limit.
            burst: How much it holds.
            now: Returns seconds of a clock that never goes back.
        """
        self._per_second = per_second
        self._burst = float(burst)
        self._now = now
        self._buckets: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()

    def take(self, caller: Hashable) -> float:
        """Count one request; returns the seconds after which to try again, 0 if it may go on."""
        if self._per_second == 0:
            return 0.0
        now = self._now()
        level, filled_at = self._buckets.pop(caller, (self._burst, now))
        level = min(self._burst, level + (now - filled_at) * self._per_second)
        wait_seconds = 0.0 if level >= 1 else (1 - level) / self._per_second
        self._buckets[caller] = (level - 1 if level >= 1 else level, now)
        if len(self._buckets) > _CALLERS_MAX:
            self._buckets.popitem(last=False)
        return wait_seconds
