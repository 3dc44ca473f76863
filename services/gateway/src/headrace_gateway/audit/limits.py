"""Rate limits for recorded failures: a flood of failures must not fill the disk or keep it busy."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

_ADDRESSES_MAX: Final = 10_000
_BURST_OF_ADDRESS: Final = 20
_BURST_OF_ALL: Final = 200
# Microseconds until one more failure may be written.
_INTERVAL_OF_ADDRESS: Final = 5_000_000
_INTERVAL_OF_ALL: Final = 100_000


class _Bucket:
    __slots__ = ("_burst", "_filled_at", "_interval", "_left")

    def __init__(self, burst: int, interval: int, now: int) -> None:
        self._burst, self._interval, self._left, self._filled_at = burst, interval, burst, now

    def fill(self, now: int) -> bool:
        gained, rest = divmod(max(0, now - self._filled_at), self._interval)
        self._left = min(self._burst, self._left + gained)
        self._filled_at = now - rest
        return self._left > 0

    def take(self) -> None:
        self._left -= 1


class FailureLimits:
    """Limits the failures written for each address and for all addresses together."""

    def __init__(self) -> None:
        self._all: _Bucket | None = None
        self._of: OrderedDict[str, _Bucket] = OrderedDict()
        self._suppressed = 0

    def take(self, host: str, now: int) -> int | None:
        """Take a slot for one event; return the number of events suppressed since the last slot.

        Args:
            host: Source address.
            now: Time in microseconds.

        Returns:
            None if the event must not be written.
        """
        every = self._all = self._all or _Bucket(_BURST_OF_ALL, _INTERVAL_OF_ALL, now)
        one = self._of.pop(host, None) or _Bucket(_BURST_OF_ADDRESS, _INTERVAL_OF_ADDRESS, now)
        self._of[host] = one
        if len(self._of) > _ADDRESSES_MAX:
            self._of.popitem(last=False)
        # Refill both buckets regardless of the result.
        if not all([every.fill(now), one.fill(now)]):
            self._suppressed += 1
            return None
        every.take()
        one.take()
        suppressed, self._suppressed = self._suppressed, 0
        return suppressed
