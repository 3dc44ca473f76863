"""Circuit breaker of one destination."""

from __future__ import annotations

from enum import StrEnum


class BreakerState(StrEnum):
    """State of a breaker."""

    CLOSED = "closed"
    """Records pass."""
    OPEN = "open"
    """Records are refused until the cool-down is over."""
    HALF_OPEN = "half_open"
    """One attempt is made; its result closes or opens the breaker."""


class Breaker:
    """Opens after consecutive failures, and tries once after a while. Times are of a monotonic clock, in seconds."""

    __slots__ = ("_cool_down", "_failures", "_opened_at", "_threshold")

    def __init__(self, failure_threshold: int, cool_down: float) -> None:
        self._threshold = failure_threshold
        self._cool_down = cool_down
        self._failures = 0
        self._opened_at: float | None = None

    def state(self, now: float) -> BreakerState:
        """Current state."""
        if self._opened_at is None:
            return BreakerState.CLOSED
        return BreakerState.OPEN if now < self._opened_at + self._cool_down else BreakerState.HALF_OPEN

    def admits(self, now: float) -> bool:
        """Return whether records may be sent now."""
        return self.state(now) is not BreakerState.OPEN

    def succeeded(self) -> None:
        """Records were stored."""
        self._failures = 0
        self._opened_at = None

    def failed(self, now: float, *, opens: bool = False) -> None:
        """Records were not stored, for a reason of this destination; `opens`: it will not be over soon."""
        self._failures += 1
        if opens or self._opened_at is not None or self._failures >= self._threshold:
            self._opened_at = now
