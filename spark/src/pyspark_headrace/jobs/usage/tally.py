"""What was counted, before it has prices: sums of whole numbers, so that no order of adding makes a difference."""

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
        """What messages call it."""
        return f"{self.stream}/{self.topic}"


@dataclass(frozen=True)
class Counted:
    """What there is of one partition, or of a part of it."""

    place: Place
    line: str
    """Which partition, and which one of those that had its number over time."""
    before_bytes: int
    """Of messages before the period."""
    hours: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Messages and bytes of each hour that has some, by the microsecond in which it begins."""
    lacks_first: bool = False
    """Messages were there before the first one that is left."""
    unknown_headers: int = 0
    """Messages whose headers could not be read, and were not counted."""


@dataclass
class Hour:
    """What a topic had in an hour."""

    messages: int = 0
    bytes: int = 0
    stored_bytes: int = 0
    """At its end."""
    is_complete: bool = True
    """All messages of the hour are counted."""
    is_stored_complete: bool = True
    """All that was stored at its end is counted."""


def merged(parts: Iterable[Counted]) -> list[Counted]:
    """Add up what was counted of the same partition."""
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
    """Add partitions of one topic up.

    Args:
        partitions: All that it has, each once.
        bounds: When hours begin, and where counting ends.
        unknown: From when to when messages may be missing.

    Returns:
        Hours, by the microsecond in which they begin.
    """
    found = {start: Hour() for start in bounds[:-1]}
    for counted in partitions:
        stored = counted.before_bytes
        # Messages of a partition never go back in time: all are there from the first hour on that has some, but for
        # that hour itself.
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
    """What was stored at the end of an hour, for as much of it as is counted; rounded down."""
    return hour.stored_bytes * (min(start + HOUR_MICROS, end) - start) // HOUR_MICROS
