"""Sizes as the API writes them: readable, and still exact."""

from __future__ import annotations

from headrace_proto.well_known import UNLIMITED
from headrace_settings import parse_size, print_size


def size_text(size_bytes: int) -> str:
    """Return the size in the largest unit that represents it exactly with at most three decimals: ``3136.5 KiB``."""
    return print_size(size_bytes, decimals_max=3)


def size_bytes(text: str) -> int:
    """Return the number of bytes in such a text, rounded down; ``unlimited`` is a number that no size can have.

    Raises:
        ValueError: The text is not a size.
    """
    return UNLIMITED if text == "unlimited" else int(parse_size(text))
