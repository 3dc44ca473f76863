"""Token buckets: a burst of requests, and a rate per second after that."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable

_CALLERS_MAX = 10_000


class RateLimits:
    """One bucket for each caller; the buckets of the least recently seen callers are dropped: reset to full."""

    def __init__(self, *, per_second: int, burst: int, now: Callable[[], float]) -> None:
        """Create the limiter.

        Args:
            per_second: Fill rate of a bucket; 0: unlimited.
            burst: Capacity of a bucket.
            now: Returns the seconds of a monotonic clock.
        """
        self._per_second = per_second
        self._burst = float(burst)
        self._now = now
        self._buckets: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()

    def take(self, caller: Hashable) -> float:
        """Count one request; return the seconds after which to retry, 0 if the request is allowed."""
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
