"""Keys whose values have several texts, such as 1.0 and 1.00: the database decides which are equal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from psycopg import sql

from headrace_connectors.postgresql.connection import Connection
from headrace_connectors.sinks.postgres.moves import Key

_OF_ONE_TEXT: Final = frozenset((
    "smallint", "integer", "bigint", "oid", "boolean", "uuid", "text", "character varying", "name", "bytea", "date",
    "timestamp without time zone",
))  # fmt: skip


def has_many_texts(kind: str, collation: str | None) -> bool:
    """Return True if values of a column may be equal and have several texts.

    Args:
        kind: Name of its type, without a length; of a domain, that of the type below it.
        collation: Its collation, if texts that differ may be equal in it.
    """
    return kind not in _OF_ONE_TEXT or collation is not None


async def one_text_of_each(
    connection: Connection, types: Sequence[str], collations: Sequence[str | None], keys: Iterable[Key]
) -> Mapping[Key, Key]:
    """Return for each key the first one that is equal to it.

    Args:
        connection: Connection for the query.
        types: Types of the columns of the key.
        collations: Their collations, of those columns in which texts that differ may be equal.
        keys: The keys.
    """
    wanted = list(dict.fromkeys(keys))
    values = [
        f"CAST(t{number} AS {name}){'' if collation is None else f' COLLATE {collation}'}".replace("%", "%%")
        for number, (name, collation) in enumerate(zip(types, collations, strict=True))
    ]
    numbers = range(len(values))
    text = sql.SQL(
        "SELECT n, dense_rank() OVER (ORDER BY {}) AS value FROM unnest({}) WITH ORDINALITY AS given ({}, n)"
    )
    statement = text.format(
        sql.SQL(", ").join(map(sql.SQL, values)),
        sql.SQL(", ").join(sql.SQL("%s::text[]") for _ in numbers),
        sql.SQL(", ").join(sql.Identifier(f"t{number}") for number in numbers),
    )
    cursor = await connection.execute(statement, [[key[number] for key in wanted] for number in numbers])
    firsts: dict[int, Key] = {}
    found: dict[Key, Key] = {}
    for row in sorted(await cursor.fetchall(), key=lambda row: int(row["n"])):
        key = wanted[row["n"] - 1]
        found[key] = firsts.setdefault(row["value"], key)
    return found
