"""Values of JSON that others have written, decoded in a time that is proportional to their size."""

from __future__ import annotations

import math
from typing import Any

import msgspec


def json_decoder(kind: Any = Any) -> msgspec.json.Decoder[Any]:
    """Return a decoder.

    By itself the library takes up to 12 microseconds for a number at the ends of what a double can have, such as
    `1e308`, and holds all threads meanwhile: two seconds for 1 MB of them, a fiftieth of that here.

    Args:
        kind: Type of the document.
    """
    return msgspec.json.Decoder(kind, float_hook=_float)


def _float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError("Number out of range")
    return value


json_value = json_decoder().decode
"""Return the value of a document. Raises the exceptions in `json_errors.NOT_JSON`."""
