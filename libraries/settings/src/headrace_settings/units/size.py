"""Sizes of memory and storage."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import ClassVar, Final, Self

from headrace_settings.units.duration import U64_MAX
from headrace_settings.units.quantity import Quantity

# Largest first. A decimal and a binary unit may both be exact; the larger gives the shorter text.
_UNITS: Final = (
    ("EiB", 1024**6),
    ("EB", 1000**6),
    ("PiB", 1024**5),
    ("PB", 1000**5),
    ("TiB", 1024**4),
    ("TB", 1000**4),
    ("GiB", 1024**3),
    ("GB", 1000**3),
    ("MiB", 1024**2),
    ("MB", 1000**2),
    ("KiB", 1024),
    ("KB", 1000),
)
_BYTES_BY_UNIT: Final = {**dict(_UNITS), "B": 1, "": 1}
_BYTES_BY_LOWER_CASE: Final = {unit.lower(): unit_bytes for unit, unit_bytes in _BYTES_BY_UNIT.items()}
_SIZE: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)")
_UNLIMITED = frozenset({"0", "unlimited", "none"})


def parse_size(text: str, *, any_case: bool = False) -> Decimal:
    """Return the number of bytes, perhaps not a whole one, in a text such as ``3136.5 KiB``.

    Raises:
        ValueError: The text is not a number with a unit or without one.
    """
    match = _SIZE.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a size")
    unit = match[2]
    unit_bytes = _BYTES_BY_LOWER_CASE.get(unit.lower()) if any_case else _BYTES_BY_UNIT.get(unit)
    if unit_bytes is None:
        raise ValueError(f"{unit!r} is not a unit of size")
    return Decimal(match[1]) * unit_bytes


def print_size(size_bytes: int, decimals_max: int) -> str:
    """Return the size in the largest unit that represents it exactly with at most this number of decimals."""
    scale = 10**decimals_max
    for name, unit_bytes in _UNITS:
        if size_bytes >= unit_bytes and size_bytes * scale % unit_bytes == 0:
            whole, fraction = divmod(size_bytes * scale // unit_bytes, scale)
            decimals = f".{fraction:0{decimals_max}}".rstrip("0") if fraction else ""
            return f"{whole}{decimals} {name}"
    return f"{size_bytes} B"


def _parse_setting(text: str) -> int:
    size_bytes = parse_size(text.strip(), any_case=True)
    if size_bytes != size_bytes.to_integral_value():
        raise ValueError(f"{text!r} is not a whole number of bytes")
    if size_bytes >= U64_MAX:
        raise ValueError(f"{text!r} is larger than can be counted")
    return int(size_bytes)


@dataclass(frozen=True, slots=True, order=True)
class Size(Quantity):
    """A number of bytes, 0 to 2^64-2."""

    ALLOWED: ClassVar[str] = 'a size such as "100 KB" (1000 bytes each), "1 MiB" (1024 x 1024) or a number of bytes'
    EXAMPLES: ClassVar[tuple[str, ...]] = ("100 KB", "1 MiB", "4096")

    bytes: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``1 KB`` (1000 bytes), ``1 KiB`` (1024 bytes) or a plain number of bytes."""
        return cls(_parse_setting(text))

    def __str__(self) -> str:
        return print_size(self.bytes, decimals_max=0)


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
        size_bytes = _parse_setting(text)
        return cls(size_bytes or U64_MAX)

    @property
    def is_unlimited(self) -> bool:
        """True if there is no bound."""
        return self.bytes == U64_MAX

    def __str__(self) -> str:
        return "unlimited" if self.is_unlimited else print_size(self.bytes, decimals_max=0)
