"""Values of PostgreSQL as values of JSON-like payloads: the text that the server has written, or what it says.

All ways of reading use these functions, so that a value has one form: rows that are read again and again, snapshots,
and changes that are streamed or asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec
from psycopg import Column
from psycopg.pq.abc import PGresult

from headrace_connectors.json_errors import NOT_JSON
from headrace_connectors.json_values import json_value

# Object identifiers of date, timestamp, timestamptz, interval, float4, float8 and numeric.
_WITH_INFINITY: Final = frozenset((1082, 1114, 1184, 1186, 700, 701, 1700))


def text_rows(columns: Sequence[Column], result: PGresult) -> list[dict[str, str | None]]:
    """Return the rows of a result as the server has written them.

    The driver would make values of Python, by the type below a domain, and refuse what Python has no value for.
    """
    names = list(enumerate(one.name for one in columns))
    return [
        {name: None if (text := result.get_value(row, at)) is None else text.decode() for at, name in names}
        for row in range(result.ntuples)
    ]


def is_last_of_all(text: str | None, oid: int) -> bool:
    """Return True for values that PostgreSQL sorts after all others of their type: infinity, and NaN."""
    return oid in _WITH_INFINITY and text in ("infinity", "Infinity", "NaN")


def _boolean(text: str) -> bool:
    return text in ("t", "true")


def _json(text: str) -> Any:
    # A column `json` keeps whatever text it was given, such as half a character: it is passed on unread.
    try:
        return json_value(text)
    except NOT_JSON:
        return msgspec.Raw(text.encode())


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
