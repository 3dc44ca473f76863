"""Status of a connector, and how it came to it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final, NamedTuple

_HISTORY_MAX: Final = 64
_ERRORS_MAX: Final = 32


class State(StrEnum):
    """State of a connector."""

    STARTING = "starting"
    RUNNING = "running"
    DEGRADED = "degraded"
    """Trying on, without progress: look at its last error."""
    STOPPING = "stopping"
    STOPPED = "stopped"
    STANDBY = "standby"
    """Another process of the group runs it, or will in a moment."""
    ERROR = "error"
    """Ended with an error; it does not start again by itself."""


class Change(NamedTuple):
    """A change of the state."""

    at: datetime
    state: State
    reason: str | None


@dataclass(slots=True)
class Failure:
    """An error, and how often it was repeated without another one in between."""

    first_at: datetime
    at: datetime
    """Time of the last repetition."""
    code: str | None
    message: str
    count: int = 1


@dataclass(slots=True)
class Status:
    """State and progress of a connector."""

    on_change: Callable[[Change], object] = lambda _change: None
    state: State = State.STOPPED
    history: deque[Change] = field(default_factory=lambda: deque(maxlen=_HISTORY_MAX))
    """Newest changes, the oldest first."""
    errors: deque[Failure] = field(default_factory=lambda: deque(maxlen=_ERRORS_MAX))
    """Newest errors, the oldest first."""
    error_code: str | None = None
    last_error: str | None = None
    last_error_at: datetime | None = None
    consecutive_failures: int = 0
    batches_count: int = 0
    """Batches that were stored and committed."""
    records_count: int = 0
    """Records in them that were stored."""
    last_commit_at: datetime | None = None
    last_abandon_at: datetime | None = None
    last_abandoned: str | None = None
    """Position that was given up to."""

    def become(self, state: State, reason: str | None = None) -> None:
        """Change the state; nothing happens if it is the same."""
        if state is self.state:
            return
        self.state = state
        change = Change(datetime.now(UTC), state, reason)
        self.history.append(change)
        self.on_change(change)

    def failed(self, error: BaseException) -> None:
        """Record a failure."""
        self.noted(error)
        self.consecutive_failures += 1

    def noted(self, error: BaseException) -> int:
        """Record an error that holds nothing up; return how often it was repeated without another one in between."""
        self.error_code = getattr(error, "code", None) if isinstance(getattr(error, "code", None), str) else None
        self.last_error = str(error) or type(error).__name__
        now = self.last_error_at = datetime.now(UTC)
        last = self.errors[-1] if self.errors else None
        if last is not None and (last.code, last.message) == (self.error_code, self.last_error):
            last.at, last.count = now, last.count + 1
            return last.count
        self.errors.append(Failure(now, now, self.error_code, self.last_error))
        return 1

    def follow(self, earlier: Status) -> None:
        """Take over the history of the connector that this one replaces."""
        self.history.extend(earlier.history)
        self.errors.extend(earlier.errors)

    def committed(self, records_count: int, batches_count: int = 1) -> None:
        """Record that batches are stored and committed."""
        self.consecutive_failures = 0
        self.batches_count += batches_count
        self.records_count += records_count
        self.last_commit_at = datetime.now(UTC)

    def abandoned(self, position: str | None) -> None:
        """Record that a batch was given up."""
        self.consecutive_failures = 0
        self.last_abandon_at = datetime.now(UTC)
        self.last_abandoned = position

    def document(self) -> dict[str, Any]:
        """Describe it, for the status API; times in RFC 3339."""
        return {
            "state": self.state,
            "error_code": self.error_code,
            "last_error": self.last_error,
            "last_error_at": _text(self.last_error_at),
            "consecutive_failures": self.consecutive_failures,
            "batches_count": self.batches_count,
            "records_count": self.records_count,
            "last_commit_at": _text(self.last_commit_at),
            "last_abandon_at": _text(self.last_abandon_at),
            "last_abandoned": self.last_abandoned,
            "errors": [
                {
                    "first_at": _text(one.first_at),
                    "at": _text(one.at),
                    "code": one.code,
                    "message": one.message,
                    "count": one.count,
                }
                for one in self.errors
            ],
            "history": [{"at": _text(one.at), "state": one.state, "reason": one.reason} for one in self.history],
        }


def _text(time: datetime | None) -> str | None:
    return None if time is None else time.isoformat(timespec="milliseconds")
