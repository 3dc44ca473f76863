"""Sizes as the API writes them: readable, and still exact."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

from headrace_proto.well_known import UNLIMITED

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
_DECIMALS: Final = 3
_SIZE: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?([A-Za-z]*)")


def size_text(size_bytes: int) -> str:
    """Return the size in the largest unit that represents it exactly with at most three decimals: ``3136.5 KiB``."""
    scale = 10**_DECIMALS
    for name, unit in _UNITS:
        if size_bytes >= unit and size_bytes * scale % unit == 0:
            whole, fraction = divmod(size_bytes * scale // unit, scale)
            decimals = f".{fraction:0{_DECIMALS}}".rstrip("0") if fraction else ""
            return f"{whole}{decimals} {name}"
    return f"{size_bytes} B"


def size_bytes(text: str) -> int:
    """Return the number of bytes in such a text, rounded down; ``unlimited`` is a number that no size can have.

    Raises:
        ValueError: The text is not a size.
    """
    if text == "unlimited":
        return UNLIMITED
    match = _SIZE.fullmatch(text)
    unit = {**dict(_UNITS), "B": 1, "": 1}.get(match[2]) if match is not None else None
    if match is None or unit is None:
        raise ValueError(f"{text!r} is no size")
    return int(Decimal(match[1]) * unit)
