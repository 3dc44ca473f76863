"""Values of payloads as values of columns: each by itself, so that none depends on those beside it."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import partial
from typing import Any, Final, Literal
from uuid import UUID

import pyarrow as pa

from headrace_connectors.json_values import HugeNumber

ColumnType = Literal[
    "bool", "int64", "float64", "string", "date", "timestamp", "timestamp_s", "timestamp_ms", "timestamp_us",
    "timestamp_ns", "json",
]  # fmt: skip
"""Type of a column. `timestamp` takes texts, of which those without a zone are in UTC, and the others also whole or
decimal numbers of that unit since 1970; all are stored in microseconds. `json` is a text with any value.
"""
TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
TYPES: Final[Mapping[ColumnType, pa.DataType]] = {
    "bool": pa.bool_(),
    "int64": pa.int64(),
    "float64": pa.float64(),
    "string": pa.string(),
    "date": pa.date32(),
    "timestamp": TIMESTAMP,
    "timestamp_s": TIMESTAMP,
    "timestamp_ms": TIMESTAMP,
    "timestamp_us": TIMESTAMP,
    "timestamp_ns": TIMESTAMP,
    "json": pa.string(),
}
_MICROS: Final[Mapping[ColumnType, Decimal]] = {
    "timestamp_s": Decimal(1_000_000),
    "timestamp_ms": Decimal(1000),
    "timestamp_us": Decimal(1),
    "timestamp_ns": Decimal("0.001"),
}
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICRO: Final = datetime.timedelta(microseconds=1)
_INT64: Final = range(-(2**63), 2**63)
_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,40}")
_DECIMAL: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_INFINITE: Final = re.compile(r"[+-]?(inf|infinity|nan)", re.IGNORECASE)
_DAY: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIME: Final = re.compile(rf"({_DAY.pattern})([T ].+)?", re.IGNORECASE)
_BOOLS: Final[Mapping[Any, bool]] = {"true": True, "false": False, "1": True, "0": False}


def _bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _BOOLS[value.lower()]
    if isinstance(value, int | float) and value in (0, 1):
        return bool(value)
    raise ValueError("it is neither true nor false")


def _int64(value: Any) -> int:
    if isinstance(value, str):
        if not _WHOLE.fullmatch(value):
            raise ValueError("it is no whole number")
        found = int(value)
    elif isinstance(value, int):
        found = int(value)
    elif isinstance(value, float | Decimal):
        # Numbers beyond the type are not looked at closely: a few characters may stand for many digits.
        found = int(value) if -(2**64) < value < 2**64 else 2**64
        if found != Decimal(str(value)):
            raise ValueError("it is no whole number of 64 bits")
    else:
        raise TypeError("it is no number")
    if found not in _INT64:
        raise ValueError("it has more than 64 bits")
    return found


def _float64(value: Any) -> float:
    if isinstance(value, str) and not (_DECIMAL.fullmatch(value) or _INFINITE.fullmatch(value)):
        raise ValueError("it is no number")
    if not isinstance(value, str | int | float | Decimal):
        raise ValueError("it is no number, or beyond all doubles")
    found = float(value)
    if isinstance(value, int) and found != value:
        raise ValueError("a double has not all of its digits")
    if isinstance(value, str | Decimal) and found in (float("inf"), float("-inf")) and _DECIMAL.fullmatch(str(value)):
        raise ValueError("it is beyond all doubles")
    return found


def _string(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float | Decimal | HugeNumber | UUID):
        return str(value)
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    raise TypeError(f"a {type(value).__name__} has no text: choose the type json")


def _date(value: Any) -> datetime.date:
    if isinstance(value, str) and _DAY.fullmatch(value):
        return datetime.date.fromisoformat(value)
    if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        return value
    raise ValueError("it is no day, such as 2026-01-31")


def _timestamp(value: Any) -> int:
    if isinstance(value, str):
        if not _TIME.fullmatch(value):
            raise ValueError("it is no time, such as 2026-01-31T12:00:00Z")
        # Digits after the microseconds are cut.
        value = datetime.datetime.fromisoformat(value)
    elif isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        value = datetime.datetime(value.year, value.month, value.day, tzinfo=datetime.UTC)
    if not isinstance(value, datetime.datetime):
        raise TypeError("a number has no unit: choose timestamp_s, timestamp_ms, timestamp_us or timestamp_ns")
    at = value if value.tzinfo is not None else value.replace(tzinfo=datetime.UTC)
    return (at - _EPOCH) // _MICRO


def _since_1970(factor: Decimal, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return _timestamp(value)
    # Digits after the microseconds are cut, towards the past as those of texts are.
    micros = Decimal(str(value)) * factor if -(2**64) < value < 2**64 else Decimal(2**64)
    found = int(micros.to_integral_value("ROUND_FLOOR"))
    if found not in _INT64:
        raise ValueError("it is beyond all times")
    return found


CONVERTERS: Final[Mapping[ColumnType, Callable[[Any], Any]]] = {
    "bool": _bool,
    "int64": _int64,
    "float64": _float64,
    "string": _string,
    "date": _date,
    "timestamp": _timestamp,
    **{kind: partial(_since_1970, factor) for kind, factor in _MICROS.items()},
}
"""Function that returns a value as the column has it, by type. Raises `ValueError` or `TypeError`, also `KeyError`."""
READY: Final[Mapping[ColumnType, frozenset[type]]] = {
    "bool": frozenset((bool, type(None))),
    "int64": frozenset((int, type(None))),
    "float64": frozenset((float, type(None))),
    "string": frozenset((str, type(None))),
}
"""Types of Python whose values are those of the column already."""
