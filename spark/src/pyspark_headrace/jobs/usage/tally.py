"""Counts: sums of integers, so that the order of additions does not matter."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from pyspark_headrace.jobs.usage.period import HOUR_MICROS


class Place(NamedTuple):
    """A topic."""

    stream: str
    topic: str

    @property
    def title(self) -> str:
        """Name of the topic in messages."""
        return f"{self.stream}/{self.topic}"


@dataclass(frozen=True)
class Counted:
    """Counts of one partition, or of a part of it."""

    place: Place
    line: str
    """Partition with its log generation."""
    before_bytes: int
    """Size of messages before the period."""
    hours: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Messages and bytes of each non-empty hour, by the start of the hour in microseconds."""
    lacks_first: bool = False
    """True if messages before the first remaining one were removed."""
    unknown_headers: int = 0
    """Number of messages with unreadable headers, which were not measured."""


@dataclass
class Hour:
    """Counts of a topic in an hour."""

    messages: int = 0
    bytes: int = 0
    stored_bytes: int = 0
    """Stored bytes at the end of the hour."""
    is_complete: bool = True
    """True if all messages of the hour are counted."""
    is_stored_complete: bool = True
    """True if everything stored at the end of the hour is counted."""


def merged(parts: Iterable[Counted]) -> list[Counted]:
    """Add up the counts of equal partitions."""
    lines: dict[tuple[Place, str], list[Counted]] = {}
    for part in parts:
        lines.setdefault((part.place, part.line), []).append(part)
    found = []
    for (place, line), of_it in sorted(lines.items(), key=lambda entry: entry[0]):
        hours: dict[int, tuple[int, int]] = {}
        for part in of_it:
            for start, (messages, size) in part.hours.items():
                before = hours.get(start, (0, 0))
                hours[start] = (before[0] + messages, before[1] + size)
        found.append(
            Counted(
                place,
                line,
                sum(part.before_bytes for part in of_it),
                hours,
                any(part.lacks_first for part in of_it),
                sum(part.unknown_headers for part in of_it),
            )
        )
    return found


def hours_of(
    partitions: Iterable[Counted], bounds: Sequence[int], unknown: Iterable[tuple[int, int]] = ()
) -> dict[int, Hour]:
    """Add up the partitions of one topic.

    Args:
        partitions: Counts of all partitions, each once.
        bounds: Starts of hours, and the end of the measurement.
        unknown: Time ranges with possibly missing messages.

    Returns:
        Hours by their start in microseconds.
    """
    found = {start: Hour() for start in bounds[:-1]}
    for counted in partitions:
        stored = counted.before_bytes
        # Timestamps of a partition never decrease: every hour after the first non-empty one is complete. The first one
        # itself may not be.
        is_known = not counted.lacks_first or counted.before_bytes > 0
        for start, hour in found.items():
            messages, size = counted.hours.get(start, (0, 0))
            hour.messages += messages
            hour.bytes += size
            stored += size
            hour.stored_bytes += stored
            hour.is_complete &= is_known
            hour.is_stored_complete &= not counted.lacks_first
            is_known |= messages > 0
    spans = [(bounds[-1], bounds[-1] + HOUR_MICROS), *unknown]
    for start, hour in found.items():
        if any(start < until and since < start + HOUR_MICROS for since, until in spans):
            hour.is_complete = hour.is_stored_complete = False
    return found


def stored_byte_hours(start: int, hour: Hour, end: int) -> int:
    """Return the byte hours stored, from the size at the end of an hour and the measured part of it; rounded down."""
    return hour.stored_bytes * (min(start + HOUR_MICROS, end) - start) // HOUR_MICROS
