"""Values of JSON: decoded in a time that is proportional to their size, and encoded as they were written."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, Literal, Self

import msgspec

_FINITE: Final = frozenset((str, int, bool, type(None)))
_PLAIN_MIN: Final = 0.001
"""Numbers from here on are written without an exponent."""
_EXACT_CHARACTERS: Final = 16
"""Length of a number, with its point, up to which a double has all of its digits."""


class Number(float):
    """A number of JSON that a double would write in another way: with more digits, an exponent, or zeros at the end.

    It is the nearest double in calculations, and its text wherever it is passed on.

    Examples:
        >>> Number("0.12345678901234567890") > 0.1, str(Number("1.50"))
        (True, '1.50')
    """

    __slots__ = ("text",)

    text: str
    """The number as it was written."""

    def __new__(cls, text: str) -> Self:
        """Take a number in the form of JSON."""
        number = super().__new__(cls, text)
        number.text = text
        return number

    def __str__(self) -> str:
        """Return the text."""
        return self.text

    __repr__ = __str__

    def __reduce__(self) -> tuple[type[Self], tuple[str]]:
        """Return what a copy is made of."""
        return type(self), (self.text,)


class HugeNumber:
    """A number of JSON that is beyond all doubles, such as `1e400`: formats without a text for it refuse it.

    Args:
        text: The number as it was written.
    """

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __str__(self) -> str:
        """Return the text."""
        return self.text

    def __eq__(self, other: object) -> bool:
        """Return whether the other one was written in the same way."""
        return isinstance(other, HugeNumber) and self.text == other.text

    def __hash__(self) -> int:
        """Return the hash of the text."""
        return hash(self.text)


def json_decoder(kind: Any = Any) -> msgspec.json.Decoder[Any]:
    """Return a decoder for documents of a type, whose numbers are doubles.

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


def number(text: str) -> float | HugeNumber:
    """Return a number that was written in the form of JSON: a double if that is surely written in the same way."""
    value = float(text)
    if "e" in text or "E" in text:
        return HugeNumber(text) if math.isinf(value) else _with_text(value, text)
    # The last digit is no zero, unless it is the only one after the point.
    if (
        len(text) <= _EXACT_CHARACTERS and (text[-1] != "0" or text[-2] == ".") and not -_PLAIN_MIN < value < _PLAIN_MIN
    ) or text == "0.0":
        return value
    return HugeNumber(text) if math.isinf(value) else _with_text(value, text)


def _with_text(value: float, text: str) -> Number:
    # Half the time of the constructor: these may be all that a large document has.
    found = float.__new__(Number, value)
    found.text = text
    return found


json_value: Final = msgspec.json.Decoder(float_hook=number).decode
"""Return the value of a document, with each number as it was written. Raises those of `json_errors.NOT_JSON`."""


class JsonEncoder:
    """Encodes values that `json_value` has returned, or a source has made; decimals are text.

    Args:
        order: How the fields of objects are ordered; None: as they are.
    """

    def __init__(self, order: Literal["deterministic"] | None = None) -> None:
        self._encoder = msgspec.json.Encoder(decimal_format="string", order=order, enc_hook=written)

    def encode(self, value: Any) -> bytes:
        """Return a value as JSON. Raises the exceptions in `json_errors.NO_FORM_IN_JSON`, also for infinity and NaN."""
        encoded = self._encoder.encode(value)
        # The library writes null for numbers that JSON does not have.
        if b"null" in encoded:
            _refuse_not_finite(value)
        return encoded


def written(value: Any) -> msgspec.Raw:
    """Return a number as it was written, for encoders of JSON. Raises `TypeError` for other values."""
    if isinstance(value, Number | HugeNumber):
        return msgspec.Raw(value.text.encode())
    raise TypeError(f"Encoding objects of type {type(value).__name__} is unsupported")


def _refuse_not_finite(value: Any) -> None:
    kind = type(value)
    if kind is float:
        if not math.isfinite(value):
            raise ValueError(f"JSON has no number {value}")
        return
    if kind is dict:
        values = value.values()
    elif isinstance(value, list | tuple | set | frozenset):
        values = value
    elif isinstance(value, Mapping):
        values = value.values()
    else:
        return
    for one in values:
        if type(one) not in _FINITE:
            _refuse_not_finite(one)
