"""Rate limits for events: a flood must not fill the disk, keep it busy, or displace other events."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Final, NamedTuple

# Maximum number of buckets, because clients can invent keys; the one that was used longest ago is dropped first.
_BUCKETS_MAX: Final = 10_000


class Rate(NamedTuple):
    """Rate of one kind of keys."""

    burst: int
    """Number of events that may come at once."""
    interval_micros: int
    """Time in microseconds until one more event is allowed."""


FAILURES: Final = (Rate(20, 5_000_000), Rate(200, 100_000))
"""Rates of failures: of one address, and of all."""
LOGINS: Final = (Rate(5, 60_000_000), Rate(200, 1_000_000))
"""Rates of successful logins: of one user at one address, and of one user."""


class _Bucket:
    __slots__ = ("_filled_at", "_left", "_rate")

    def __init__(self, rate: Rate, now: int) -> None:
        self._rate, self._left, self._filled_at = rate, rate.burst, now

    def fill(self, now: int) -> bool:
        gained, rest = divmod(max(0, now - self._filled_at), self._rate.interval_micros)
        self._left = min(self._rate.burst, self._left + gained)
        self._filled_at = now - rest
        return self._left > 0

    def take(self) -> None:
        self._left -= 1


class EventLimits:
    """Limits events by several keys at a time, each with a rate of its own."""

    def __init__(self, *rates: Rate) -> None:
        """Configure one rate for each key that `take` gets."""
        self._rates = rates
        self._buckets: OrderedDict[tuple[int, Hashable], _Bucket] = OrderedDict()
        self._suppressed = 0

    def take(self, now: int, *keys: Hashable) -> int | None:
        """Take a slot for one event; return the number of events suppressed since the last slot.

        Args:
            now: Time in microseconds.
            keys: What the event counts for, in the order of the rates.

        Returns:
            None if the event exceeds one of the rates.
        """
        buckets = [self._bucket(place, key, now) for place, key in enumerate(keys)]
        # Refill all buckets regardless of the result.
        if False in [bucket.fill(now) for bucket in buckets]:
            self._suppressed += 1
            return None
        for bucket in buckets:
            bucket.take()
        suppressed, self._suppressed = self._suppressed, 0
        return suppressed

    def _bucket(self, place: int, key: Hashable, now: int) -> _Bucket:
        bucket = self._buckets.setdefault((place, key), _Bucket(self._rates[place], now))
        self._buckets.move_to_end((place, key))
        if len(self._buckets) > _BUCKETS_MAX:
            self._buckets.popitem(last=False)
        return bucket
