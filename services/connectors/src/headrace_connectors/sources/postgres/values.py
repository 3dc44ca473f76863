"""Values of PostgreSQL as values of JSON-like payloads."""

from __future__ import annotations

import datetime
import decimal
import uuid
from collections.abc import Callable
from typing import Any, Final

import msgspec

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


def _boolean(text: str) -> bool:
    return text in ("t", "true")


def _json(text: str) -> Any:
    return msgspec.json.decode(text)


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
