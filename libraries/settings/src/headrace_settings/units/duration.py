"""Durations, and the expiry of messages."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar, Self

from headrace_settings.units.quantity import Quantity

_MICROS = 1
_MILLIS = 1_000
_SECOND = 1_000_000
_MINUTE = 60 * _SECOND
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR
_WEEK = 7 * _DAY

_UNITS = {
    "us": _MICROS,
    "µs": _MICROS,
    "usec": _MICROS,
    "ms": _MILLIS,
    "msec": _MILLIS,
    "s": _SECOND,
    "sec": _SECOND,
    "secs": _SECOND,
    "second": _SECOND,
    "seconds": _SECOND,
    "m": _MINUTE,
    "min": _MINUTE,
    "mins": _MINUTE,
    "minute": _MINUTE,
    "minutes": _MINUTE,
    "h": _HOUR,
    "hr": _HOUR,
    "hrs": _HOUR,
    "hour": _HOUR,
    "hours": _HOUR,
    "d": _DAY,
    "day": _DAY,
    "days": _DAY,
    "w": _WEEK,
    "week": _WEEK,
    "weeks": _WEEK,
}
# Weeks are read but not printed: "8 d" is easier to compare with "10 d" than "1 w 1 d".
_PRINTED = (
    ("d", _DAY),
    ("h", _HOUR),
    ("m", _MINUTE),
    ("s", _SECOND),
    ("ms", _MILLIS),
    ("us", _MICROS),
)
_PART = re.compile(r"([0-9]+)\s*([a-zµ]+)\s*")
_ZERO = frozenset({"0", "none", "unlimited", "disabled"})

U64_MAX = 2**64 - 1


def _parse_micros(text: str) -> int:
    position, total = 0, 0
    while position < len(text):
        part = _PART.match(text, position)
        if part is None:
            raise ValueError(f"{text!r} is not a duration")
        unit = _UNITS.get(part[2])
        if unit is None:
            raise ValueError(f"{part[2]!r} is not a unit of time")
        total += int(part[1]) * unit
        position = part.end()
    if not text:
        raise ValueError("an empty text is not a duration")
    if total > U64_MAX:
        raise ValueError(f"{text!r} is longer than can be counted")
    return total


def _print_micros(micros: int) -> str:
    parts = []
    for name, unit in _PRINTED:
        count, micros = divmod(micros, unit)
        if count:
            parts.append(f"{count} {name}")
    return " ".join(parts) or "0 s"


@dataclass(frozen=True, slots=True, order=True)
class Duration(Quantity):
    """A duration in whole microseconds, 0 to 2^64-1."""

    ALLOWED: ClassVar[str] = 'a duration such as "10 s", "500 ms" or "1 h 30 m"'
    EXAMPLES: ClassVar[tuple[str, ...]] = ("10 s", "1 h 30 m", "500 ms", "7 days")

    micros: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``10 s`` or ``1 h 30 m``; ``0``, ``none``, ``unlimited`` and ``disabled`` are zero."""
        lowered = text.strip().lower()
        return cls(0 if lowered in _ZERO else _parse_micros(lowered))

    def __str__(self) -> str:
        return _print_micros(self.micros)

    def __bool__(self) -> bool:
        return self.micros != 0

    @property
    def seconds(self) -> float:
        """Duration in seconds."""
        return self.micros / _SECOND

    @property
    def timedelta(self) -> timedelta:
        """Duration as a type of the standard library."""
        return timedelta(microseconds=self.micros)


@dataclass(frozen=True, slots=True)
class Expiry(Quantity):
    """Expiry of messages: a duration, never, or the server's default.

    ``micros`` is the form of the binary protocol: 0 is the server's default, 2^64-1 is never.
    """

    ALLOWED: ClassVar[str] = 'a duration such as "7 days" (at most 2^32-1 s), or "never"'
    EXAMPLES: ClassVar[tuple[str, ...]] = ("7 days", "never")
    MICROS_MAX: ClassVar[int] = (2**32 - 1) * _SECOND

    micros: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a duration, a name for never, or a name for the server's default.

        Never: ``none``, ``unlimited``, ``never``, ``never_expire``. Default: ``default``,
        ``server_default``.
        """
        lowered = text.strip().lower()
        if lowered in {"none", "unlimited", "never", "never_expire"}:
            return cls(U64_MAX)
        if lowered in {"default", "server_default"}:
            return cls(0)
        micros = _parse_micros(lowered)
        if micros == 0:
            raise ValueError('an expiry of 0 would delete every message at once; "never" keeps messages')
        if micros > cls.MICROS_MAX:
            raise ValueError(f"{text!r} is more than 2^32-1 seconds")
        return cls(micros)

    @property
    def is_never(self) -> bool:
        """True if messages never expire."""
        return self.micros == U64_MAX

    @property
    def is_server_default(self) -> bool:
        """True if the server's setting applies."""
        return self.micros == 0

    def __str__(self) -> str:
        if self.is_never:
            return "never"
        return "server_default" if self.is_server_default else _print_micros(self.micros)
