"""Rate limit of a job."""

from __future__ import annotations

import time
from collections.abc import Callable


class Pace:
    """Token bucket with one token per message.

    A writer takes one token per message and waits until they are available. Unused tokens are kept for a limited time:
    a short stall is compensated, but a long stop does not cause a burst.
    """

    def __init__(self, per_second: float, *, kept_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        """Create the bucket. Tokens accrue after `begin`.

        Args:
            per_second: Rate.
            kept_seconds: Time for which unused tokens are kept.
            clock: Clock, in seconds.
        """
        self._per_second = per_second
        self._kept_seconds = kept_seconds
        self._clock = clock
        self._taken_until: float | None = None
        self._is_first = True

    def begin(self) -> None:
        """Start the accrual of tokens."""
        if self._taken_until is None:
            self._taken_until = self._clock()

    def take(self, count: int) -> float:
        """Take tokens; returns the time in seconds until they are available."""
        self.begin()
        now = self._clock()
        assert self._taken_until is not None  # noqa: S101 - begun above
        lasts = count / self._per_second
        if self._is_first:
            # The first batch is slow because of loading. This is not compensated like a stall.
            self._is_first = False
            self._taken_until = max(self._taken_until + lasts, now)
        else:
            self._taken_until = max(self._taken_until, now - self._kept_seconds) + lasts
        return max(self._taken_until - now, 0.0)
