"""Values of payloads as PostgreSQL reads them: text, which the type of the column decides about."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any, Final

from headrace_connectors.contract import InvalidRecord
from headrace_connectors.json_values import HugeNumber
from headrace_connectors.sinks.json_values import json_text

_JSON: Final = ("json", "jsonb")
_WHOLE: Final = ("smallint", "integer", "bigint", "oid")
_NUMBERS: Final = (*_WHOLE, "numeric", "real", "double precision")
_TEXTS: Final = ("text", "character varying", "character", "bpchar", "name", "citext")
_EXACT: Final = 2**53
"""Doubles below it have all whole numbers."""
_PLAIN: Final = re.compile(r"[^\s{}\",\\]+")
"""Element of an array that needs no quotes."""
_INFINITE: Final = {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}


def bound(column: str, kind: str, value: Any) -> Any:
    """Return a value as a parameter of a statement.

    Numbers are bound as text, which has all their digits: PostgreSQL makes 15 of those of a double on the way to a
    `numeric`. It would also read `20260102` as a day, so columns that are neither numbers nor text get a number, and
    refuse it.

    Args:
        column: Name of the column, for messages.
        kind: Name of its type, without a length; of a domain, that of the type below it.
        value: The value.

    Raises:
        InvalidRecord: The column cannot hold it.
    """
    if value is None or (isinstance(value, str) and kind not in _JSON):
        return value
    if kind in _JSON:
        return json_text(column, value)
    if isinstance(value, dict):
        raise InvalidRecord(f"{column} is an object, and the column has the type {kind}, not jsonb")
    if isinstance(value, list | tuple):
        return _array(column, kind, value)
    if isinstance(value, bool):
        return ("true" if value else "false") if kind == "boolean" or kind in _TEXTS else value
    if isinstance(value, int | float | Decimal | HugeNumber):
        return _number(kind, value)
    return value


def _number(kind: str, value: float | Decimal | HugeNumber) -> Any:
    text = str(value)
    if kind in _WHOLE and isinstance(value, float) and abs(value) < _EXACT and Decimal(text) == int(value):
        # A whole number that was written with a point.
        return str(int(value))
    if kind in _NUMBERS or kind in _TEXTS:
        return _INFINITE.get(text, text)
    return Decimal(text) if isinstance(value, float | HugeNumber) else value


def _array(column: str, kind: str, values: list[Any] | tuple[Any, ...]) -> Any:
    element = kind.removesuffix("[]")
    if element not in _JSON and _has_object(values):
        raise InvalidRecord(f"{column} contains an object, and the column has the type {kind}, not jsonb")
    if element == kind:
        # A type of an extension, such as a vector, may be made of an array.
        return _exact(values)
    return _literal(column, element, values)


def _literal(column: str, kind: str, values: list[Any] | tuple[Any, ...]) -> str:
    parts = []
    for value in values:
        if isinstance(value, list | tuple) and kind not in _JSON:
            parts.append(_literal(column, kind, value))
            continue
        item = bound(column, kind, value)
        if isinstance(item, bytes):
            item = rf"\x{item.hex()}"
        elif isinstance(item, bool | int | Decimal):
            raise InvalidRecord(f"{column} contains {value}, and the column has the type {kind}[]")
        parts.append("NULL" if item is None else _quoted(str(item)))
    return f"{{{','.join(parts)}}}"


def _quoted(text: str) -> str:
    if _PLAIN.fullmatch(text) and text.lower() != "null":
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _exact(values: list[Any] | tuple[Any, ...]) -> list[Any]:
    return [
        _exact(one)
        if isinstance(one, list | tuple)
        else Decimal(str(one))
        if isinstance(one, float | HugeNumber)
        else one
        for one in values
    ]


def _has_object(value: Any) -> bool:
    """Return True for an object, and for an array that contains one at any depth: the driver has no form for it."""
    left = [value]
    while left:
        one = left.pop()
        if isinstance(one, dict):
            return True
        if isinstance(one, list | tuple):
            left += one
    return False
