"""Sizes of memory and storage."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import ClassVar, Self

from headrace_settings.units.duration import U64_MAX
from headrace_settings.units.quantity import Quantity

_UNITS = {
    "": 1,
    "b": 1,
    "kb": 1000,
    "kib": 1024,
    "mb": 1000**2,
    "mib": 1024**2,
    "gb": 1000**3,
    "gib": 1024**3,
    "tb": 1000**4,
    "tib": 1024**4,
}
# Largest first; of two units that divide the size, the larger one gives the shorter text.
_PRINTED = (
    ("TiB", 1024**4),
    ("TB", 1000**4),
    ("GiB", 1024**3),
    ("GB", 1000**3),
    ("MiB", 1024**2),
    ("MB", 1000**2),
    ("KiB", 1024),
    ("KB", 1000),
)
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([a-z]*)")
_UNLIMITED = frozenset({"0", "unlimited", "none"})


def _parse_bytes(text: str) -> int:
    match = _SIZE.fullmatch(text.strip().lower())
    if match is None:
        raise ValueError(f"{text!r} is not a size")
    unit = _UNITS.get(match[2])
    if unit is None:
        raise ValueError(f"{match[2]!r} is not a unit of size")
    size_bytes = Decimal(match[1]) * unit
    if size_bytes != size_bytes.to_integral_value():
        raise ValueError(f"{text!r} is not a whole number of bytes")
    if size_bytes >= U64_MAX:
        raise ValueError(f"{text!r} is larger than can be counted")
    return int(size_bytes)


def _print_bytes(size_bytes: int) -> str:
    for name, unit in _PRINTED:
        if size_bytes and size_bytes % unit == 0:
            return f"{size_bytes // unit} {name}"
    return f"{size_bytes} B"


@dataclass(frozen=True, slots=True, order=True)
class Size(Quantity):
    """A number of bytes, 0 to 2^64-2."""

    ALLOWED: ClassVar[str] = 'a size such as "100 KB" (1000 bytes each), "1 MiB" (1024 x 1024) or a number of bytes'
    EXAMPLES: ClassVar[tuple[str, ...]] = ("100 KB", "1 MiB", "4096")

    bytes: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``1 KB`` (1000 bytes), ``1 KiB`` (1024 bytes) or a plain number of bytes."""
        return cls(_parse_bytes(text))

    def __str__(self) -> str:
        return _print_bytes(self.bytes)


@dataclass(frozen=True, slots=True, order=True)
class SizeLimit(Quantity):
    """An upper bound in bytes, or none.

    Unlimited compares as larger than any size: it is 2^64-1, as on the wire.
    """

    ALLOWED: ClassVar[str] = 'a size such as "10 GiB", or "unlimited"'
    EXAMPLES: ClassVar[tuple[str, ...]] = ("10 GiB", "unlimited")

    bytes: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a size; ``0``, ``none`` and ``unlimited`` mean no bound."""
        if text.strip().lower() in _UNLIMITED:
            return cls(U64_MAX)
        size_bytes = _parse_bytes(text)
        return cls(size_bytes or U64_MAX)

    @property
    def is_unlimited(self) -> bool:
        """True if there is no bound."""
        return self.bytes == U64_MAX

    def __str__(self) -> str:
        return "unlimited" if self.is_unlimited else _print_bytes(self.bytes)
