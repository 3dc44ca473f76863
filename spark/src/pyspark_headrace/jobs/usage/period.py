"""Months and days, and their hours. All times are UTC."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Self

from pyspark_headrace.options.values import Unsuitable

HOUR_MICROS: Final = 3_600_000_000
_DAY_HOURS: Final = 24
_PERIOD: Final = re.compile(r"(\d{4})-(\d\d)(?:-(\d\d))?")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def micros_of(when: datetime) -> int:
    """Convert a time to microseconds since 1970."""
    return (when - _EPOCH) // timedelta(microseconds=1)


def time_of(micros: int) -> datetime:
    """Convert microseconds since 1970 to a time."""
    return _EPOCH + timedelta(microseconds=micros)


@dataclass(frozen=True)
class Period:
    """Period of the measurement."""

    text: str
    """``2026-11``, or ``2026-11-21``."""
    start_micros: int
    end_micros: int
    """End, exclusive."""

    @classmethod
    def of(cls, text: str) -> Self:
        """Parse a month or a day."""
        found = _PERIOD.fullmatch(text)
        try:
            if found is None:
                raise ValueError(text)
            year, month, day = int(found[1]), int(found[2]), found[3]
            start = datetime(year, month, int(day or 1), tzinfo=UTC)
            end = start + timedelta(days=1) if day else datetime(year + month // 12, month % 12 + 1, 1, tzinfo=UTC)
        except (ValueError, OverflowError):
            raise Unsuitable("a month like 2026-11, or a day like 2026-11-21") from None
        return cls(text, micros_of(start), micros_of(end))

    def __str__(self) -> str:
        return self.text

    def hours(self, until_micros: int) -> list[int]:
        """Return the starts of its hours before a time, followed by the end.

        The end is the given time or the end of the period, whichever is earlier.
        """
        until = min(until_micros, self.end_micros)
        return [*range(self.start_micros, until, HOUR_MICROS), until]


def day_of(micros: int) -> int:
    """Return the start of the day of a time."""
    day = HOUR_MICROS * _DAY_HOURS
    return micros - micros % day
