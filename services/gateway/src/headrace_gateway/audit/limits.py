"""How many failures are written: a flood of them must neither fill the disk nor keep it busy."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

_ADDRESSES_MAX: Final = 10_000
_BURST_OF_ADDRESS: Final = 20
_BURST_OF_ALL: Final = 200
# Microseconds until one more is written.
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
    """Counts what is written of each address, and of all."""

    def __init__(self) -> None:
        self._all: _Bucket | None = None
        self._of: OrderedDict[str, _Bucket] = OrderedDict()
        self._suppressed = 0

    def take(self, host: str, now: int) -> int | None:
        """Take the place of one event; returns how many before it had none.

        Args:
            host: Where it comes from.
            now: Microseconds.

        Returns:
            None: It is not to be written.
        """
        every = self._all = self._all or _Bucket(_BURST_OF_ALL, _INTERVAL_OF_ALL, now)
        one = self._of.pop(host, None) or _Bucket(_BURST_OF_ADDRESS, _INTERVAL_OF_ADDRESS, now)
        self._of[host] = one
        if len(self._of) > _ADDRESSES_MAX:
            self._of.popitem(last=False)
        # Both are filled, whatever comes of it.
        if not all([every.fill(now), one.fill(now)]):
            self._suppressed += 1
            return None
        every.take()
        one.take()
        suppressed, self._suppressed = self._suppressed, 0
        return suppressed
