"""How fast a job may go."""

from __future__ import annotations

import time
from collections.abc import Callable


class Pace:
    """A bucket that tokens fall into at a rate, one for each message.

    Whoever publishes takes as many as he has messages, and waits until they are there. What was not used in time is
    kept for so many seconds: a hiccup is made good, and a long stop is no reason for a flood.
    """

    def __init__(self, per_second: float, *, kept_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        """Describe it; tokens come from `begin` on.

        Args:
            per_second: The rate.
            kept_seconds: For how long tokens are kept.
            clock: Seconds.
        """
        self._per_second = per_second
        self._kept_seconds = kept_seconds
        self._clock = clock
        self._taken_until: float | None = None
        self._is_first = True

    def begin(self) -> None:
        """Work begins."""
        if self._taken_until is None:
            self._taken_until = self._clock()

    def take(self, count: int) -> float:
        """Take tokens; returns after how many seconds they are there."""
        self.begin()
        now = self._clock()
        assert self._taken_until is not None  # noqa: S101 - begun above
        lasts = count / self._per_second
        if self._is_first:
            # That the first batch takes longer, since much is loaded for it, is no hiccup.
            self._is_first = False
            self._taken_until = max(self._taken_until + lasts, now)
        else:
            self._taken_until = max(self._taken_until, now - self._kept_seconds) + lasts
        return max(self._taken_until - now, 0.0)
