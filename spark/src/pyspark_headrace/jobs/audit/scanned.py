"""Result of a task that has read a range."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Piece(NamedTuple):
    """Part of a range that no file boundary of the archive divides."""

    start: int
    end: int
    rows: int
    digest: int
    first_timestamp: int
    """Microseconds since 1970."""


class Unreadable(NamedTuple):
    """Range of messages that no node returns."""

    start: int
    end: int
    """Offset after the last one."""
    reason: str


@dataclass(kw_only=True)
class Scanned:
    """A range and its contents."""

    stream: str
    topic: str
    partition: int
    start: int
    end: int
    """End offset, exclusive."""
    rows: int = 0
    first_offset: int = -1
    """Offset of the first message that was read."""
    first_timestamp: int = 0
    """Microseconds since 1970."""
    last_timestamp: int = 0
    digest: int = 0
    pieces: list[Piece] = field(default_factory=list)
    removed: int = 0
    """Number of messages at the start that retention has removed since planning."""
    unreadable: list[Unreadable] = field(default_factory=list)
    backwards: list[tuple[int, int]] = field(default_factory=list)
    """First offsets with a timestamp below that of the preceding message, with the difference in microseconds."""
    backwards_count: int = 0
    null_keys: int = 0
    first_null_key: int = -1
    large: list[tuple[int, int]] = field(default_factory=list)
    """First offsets of oversized values, with their sizes in bytes."""
    large_count: int = 0

    @property
    def unreadable_count(self) -> int:
        """Number of unreadable messages."""
        return sum(one.end - one.start for one in self.unreadable)

    @property
    def place(self) -> dict[str, Any]:
        """Return the location for findings."""
        return {"stream": self.stream, "topic": self.topic, "partition": self.partition}
