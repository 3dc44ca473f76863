"""Values of PostgreSQL as values of JSON-like payloads."""

from __future__ import annotations

import datetime
import decimal
import uuid
from collections.abc import Callable
from typing import Any, Final

import psycopg
from psycopg.abc import AdaptContext
from psycopg.adapt import AdaptersMap, Loader
from psycopg.pq import Format

from headrace_connectors.json_errors import NOT_JSON
from headrace_connectors.json_values import json_value

# Types that payloads may have; what PostgreSQL has beyond them, such as addresses and ranges, is passed on as text.
_PLAIN: Final = (
    bool,
    int,
    float,
    str,
    bytes,
    datetime.date,
    datetime.time,
    datetime.timedelta,
    decimal.Decimal,
    uuid.UUID,
)


def plain(value: Any) -> Any:
    """Return a value that the driver has decoded as one that codecs know."""
    if value is None or isinstance(value, _PLAIN):
        return value
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    return str(value)


class _Time(Loader):
    """Leaves a value as the server has written it if Python has none for it: `infinity`, or a year before 1."""

    format = Format.TEXT

    def __init__(self, oid: int, context: AdaptContext | None = None) -> None:
        super().__init__(oid, context)
        usual = psycopg.adapters.get_loader(oid, Format.TEXT)
        if usual is None:
            raise AssertionError("the driver knows all types of times")
        self._usual = usual(oid, context)

    def load(self, data: Any) -> Any:
        try:
            return self._usual.load(data)
        except psycopg.DataError:
            return bytes(data).decode()


class _Interval(_Time):
    """Leaves infinite intervals as they are: the driver takes them for 0."""

    def load(self, data: Any) -> Any:
        text = bytes(data).decode()
        return text if text.endswith("infinity") else super().load(data)


def register_times(adapters: AdaptersMap) -> None:
    """Let all dates, times and intervals be read that PostgreSQL can have."""
    for name in ("date", "time", "timetz", "timestamp", "timestamptz"):
        adapters.register_loader(name, _Time)
    adapters.register_loader("interval", _Interval)


_WITH_INFINITY: Final = frozenset(
    psycopg.adapters.types[name].oid
    for name in ("date", "timestamp", "timestamptz", "interval", "float4", "float8", "numeric")
)


def is_last_of_all(value: Any, oid: int) -> bool:
    """Return True for values that PostgreSQL sorts after all others of their type: infinity, and NaN."""
    return oid in _WITH_INFINITY and str(value).lower() in ("infinity", "inf", "nan")


def _boolean(text: str) -> bool:
    return text in ("t", "true")


def _json(text: str) -> Any:
    # A column `json` keeps whatever text it was given, such as half a character, or a number that no double can have.
    try:
        return json_value(text)
    except NOT_JSON:
        return text


def _number(text: str) -> float | str:
    number = float(text)
    # JSON has no infinity and no NaN.
    return number if number - number == 0 else text


_BY_NAME: Final[dict[str, Callable[[str], Any]]] = {
    "boolean": _boolean,
    "smallint": int,
    "integer": int,
    "bigint": int,
    "oid": int,
    "real": _number,
    "double precision": _number,
    "json": _json,
    "jsonb": _json,
}
# Object identifiers of the same types, which never change (pg_type.dat of PostgreSQL).
_BY_OID: Final[dict[int, Callable[[str], Any]]] = {
    16: _boolean,
    20: int,
    21: int,
    23: int,
    26: int,
    114: _json,
    700: _number,
    701: _number,
    3802: _json,
}


def of_type_name(text: str, type_name: str) -> Any:
    """Return a value from its text; decimals, times and all other types stay text, which keeps them exact."""
    convert = _BY_NAME.get(type_name)
    return text if convert is None else convert(text)


def of_oid(text: str, oid: int) -> Any:
    """Return a value from its text, by the identifier of its type. As `of_type_name`."""
    convert = _BY_OID.get(oid)
    return text if convert is None else convert(text)
