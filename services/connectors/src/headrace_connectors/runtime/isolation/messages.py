"""Messages between the process of the connectors and the process of one connector, over a pair of sockets.

Both ends are the same program, started by the same user; the pair has no name that another process could open.
"""

from __future__ import annotations

import pickle
import struct
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Final, Self

from headrace_connectors.contract import Lag
from headrace_connectors.pipeline_file.models import ServerSettings
from headrace_connectors.pipeline_file.pipeline import SinkSpec, SourceSpec
from headrace_connectors.runtime.counters import Counters, SinkCounters
from headrace_connectors.runtime.status import Failure, State, Status

LENGTH: Final = struct.Struct("!I")
"""Length of a message, in front of it."""


@dataclass(frozen=True, slots=True)
class Task:
    """The first message: the connector to run."""

    spec: SourceSpec | SinkSpec
    server: ServerSettings
    state: bytes | None
    """State of a source."""
    until: float | None
    """End of the lease by the monotonic clock, which all processes of a machine share; None: there is no end."""


@dataclass(frozen=True, slots=True)
class Until:
    """Message to the child: the lease ends at this time."""

    until: float


@dataclass(frozen=True, slots=True)
class Ask:
    """Message to the child: give up the pending batch."""


@dataclass(frozen=True, slots=True)
class Save:
    """Message to the parent: save the state."""

    state: bytes


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer to the last `Save`, or to the first `Ask` without one."""

    value: str | None
    error: Exception | None


@dataclass(frozen=True, slots=True)
class Failed:
    """Message to the parent: the process could not begin, and ends."""

    text: str


@dataclass(frozen=True, slots=True)
class Progress:
    """Fields of `Status` that the parent shows as its own."""

    state: State
    reason: str | None
    error_code: str | None
    last_error: str | None
    last_error_at: datetime | None
    consecutive_failures: int
    batches_count: int
    records_count: int
    last_commit_at: datetime | None
    last_abandon_at: datetime | None
    last_abandoned: str | None
    errors: tuple[Failure, ...]

    @classmethod
    def of(cls, status: Status) -> Self:
        """Return those of a status."""
        own = {one.name: getattr(status, one.name) for one in fields(cls) if one.name not in ("reason", "errors")}
        reason = status.history[-1].reason if status.history else None
        return cls(**own, reason=reason, errors=tuple(status.errors))


@dataclass(frozen=True, slots=True)
class Report:
    """Message to the parent: what the connector does."""

    document: dict[str, Any]
    progress: Progress
    counters: Counters | SinkCounters
    destinations: list[dict[str, Any]] | None
    """Destinations of a source; None: as in the report before."""
    open_circuits_count: int
    lag: Lag | None


Message = Task | Until | Ask | Save | Answer | Failed | Report


def to_bytes(message: Message) -> bytes:
    """Return a message with its length."""
    data = pickle.dumps(message)
    return LENGTH.pack(len(data)) + data


def from_bytes(data: bytes) -> Message:
    """Return the message in its bytes."""
    message: Message = pickle.loads(data)  # noqa: S301 - of a process of our own
    return message
