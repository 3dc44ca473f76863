"""Numbers as columns of SQLite take them: it would cut digits without a word."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Any, Final, Literal

from headrace_connectors.contract import InvalidRecord
from headrace_connectors.json_values import HugeNumber, Number

Affinity = Literal["integer", "text", "blob", "real", "numeric"]
"""Conversion of values of a column: https://sqlite.org/datatype3.html."""

_NUMBER: Final = re.compile(r"\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\s*")
_INT64: Final = range(-(2**63), 2**63)


def affinity(declared: str) -> Affinity:
    """Return the affinity of a column, by its declared type.

    Examples:
        >>> affinity("VARCHAR(20)"), affinity("DECIMAL(20, 2)"), affinity("")
        ('text', 'numeric', 'blob')
    """
    upper = declared.upper()
    if "INT" in upper:
        return "integer"
    if any(part in upper for part in ("CHAR", "CLOB", "TEXT")):
        return "text"
    if not upper or "BLOB" in upper:
        return "blob"
    return "real" if any(part in upper for part in ("REAL", "FLOA", "DOUB")) else "numeric"


def bound(column: str, kind: Affinity, value: Any) -> Any:
    """Return a number or text as a parameter of a statement.

    Args:
        column: Name of the column, for messages.
        kind: Its affinity.
        value: A number, a text, or bytes.

    Raises:
        InvalidRecord: The column would hold another number.
    """
    if isinstance(value, bool | bytes):
        return value
    if isinstance(value, float) and math.isnan(value):
        raise InvalidRecord(f"{column} is not a number, for which SQLite has no value")
    if kind == "text":
        # SQLite itself writes doubles with 15 digits.
        return value if isinstance(value, str) else str(value)
    if isinstance(value, HugeNumber):
        raise InvalidRecord(f"{column} = {value.text[:50]} is beyond all doubles: declare the column as TEXT")
    is_written = isinstance(value, Number) or (isinstance(value, str) and kind in ("integer", "numeric"))
    if is_written and kind != "real" and not _is_kept(str(value)):
        raise InvalidRecord(
            f"{column} = {str(value)[:50]} has more digits than SQLite keeps of a number: declare the column as TEXT"
        )
    return float(value) if isinstance(value, Number) else value


def _is_kept(text: str) -> bool:
    """Return whether a column of numbers keeps all of a text: it is no number, or one that SQLite has."""
    if not _NUMBER.fullmatch(text):
        return True
    exact, double = Decimal(text.strip()), float(text)
    return exact == Decimal(repr(double)) or (abs(double) < 2**64 and exact == int(exact) and int(exact) in _INT64)
