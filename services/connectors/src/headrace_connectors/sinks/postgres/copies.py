"""Tables of a copy, as the catalog has them."""

from __future__ import annotations

from typing import Final, NamedTuple

from headrace_connectors.contract import ConnectorError
from headrace_connectors.postgresql.connection import Connection, failures
from headrace_connectors.postgresql.tables import TableName
from headrace_connectors.sinks.postgres.writers import KIND

# Servers before version 12 have no generated columns, and no collations in which texts that differ are equal.
_COLUMNS: Final = f"""SELECT attname AS name, format_type(atttypid, atttypmod) AS type, {KIND} AS kind,
coalesce(attnum = ANY(indkey), false) AS is_key,
attnotnull AND NOT atthasdef AND attidentity = '' AS is_required,
attidentity = 'a' AS is_always,
(SELECT quote_ident(nspname) || '.' || quote_ident(collname)
FROM pg_collation c JOIN pg_namespace n ON n.oid = collnamespace
WHERE c.oid = attcollation AND to_jsonb(c) ->> 'collisdeterministic' = 'false') AS collation,
coalesce(to_jsonb(a) ->> 'attgenerated', '') <> '' AS is_generated
FROM pg_attribute a LEFT JOIN pg_index ON indrelid = attrelid AND indisprimary
WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped ORDER BY attnum"""  # noqa: S608 - a constant
_HAS_FOREIGN_KEYS: Final = """SELECT FROM pg_constraint
WHERE contype = 'f' AND to_regclass(%s) IN (conrelid, confrelid) LIMIT 1"""
_IS_IMMEDIATE: Final = """SELECT FROM pg_index
WHERE indrelid = to_regclass(%s) AND indisunique AND indimmediate AND indpred IS NULL AND indexprs IS NULL
AND ARRAY(SELECT attname::text FROM pg_attribute WHERE attrelid = indrelid
AND attnum = ANY((indkey::int2[])[0:indnkeyatts - 1]) ORDER BY 1) = %s LIMIT 1"""


class Copy(NamedTuple):
    """A table that changes are done to."""

    types: dict[str, str]
    """Name of the type by column."""
    kinds: dict[str, str]
    """Name of the type without a length, by column; of a domain, that of the type below it."""
    keys: tuple[str, ...]
    """Columns that identify a row."""
    required: frozenset[str]
    """Columns that an insertion has to name: `NOT NULL`, without a default."""
    generated: frozenset[str]
    """Columns that the server computes, which no statement may set."""
    always: frozenset[str]
    """Columns `GENERATED ALWAYS AS IDENTITY`: insertions may set them, updates may not."""
    collations: dict[str, str | None]
    """Collations of those columns in which texts that differ may be equal."""
    has_immediate_key: bool
    """True if the key is checked at once: `ON CONFLICT` knows no others."""
    has_foreign_keys: bool
    """True if it refers to tables, or tables refer to it."""


async def copy_of(connection: Connection, table: TableName, key_columns: tuple[str, ...]) -> Copy:
    """Look a table up.

    Args:
        connection: Connection for the queries.
        table: The table.
        key_columns: Columns that identify a row; empty: those of the primary key.

    Raises:
        ConnectorError: It does not exist, or has no key.
        Unavailable: PostgreSQL is not reached.
    """
    name, identifier = f"{table.schema}.{table.name}", table.identifier.as_string()
    with failures(f"reading the columns of {name}"):
        rows = await (await connection.execute(_COLUMNS, (identifier,))).fetchall()
        if not rows:
            raise ConnectorError(f"there is no table {name}: create it, or correct settings.tables")
        keys = key_columns or tuple(row["name"] for row in rows if row["is_key"])
        if not keys:
            raise ConnectorError(f"{name} has no primary key: add one, or set key_columns")
        types = {row["name"]: row["type"] for row in rows}
        missing = sorted(set(keys) - set(types))
        if missing:
            raise ConnectorError(f"{name} has no column {', '.join(missing)}; it has {', '.join(types)}")
        immediate = await connection.execute(_IS_IMMEDIATE, (identifier, sorted(keys)))
        foreign = await connection.execute(_HAS_FOREIGN_KEYS, (identifier,))
        return Copy(
            types,
            {row["name"]: row["kind"] for row in rows},
            keys,
            frozenset(row["name"] for row in rows if row["is_required"]),
            frozenset(row["name"] for row in rows if row["is_generated"]),
            frozenset(row["name"] for row in rows if row["is_always"]),
            {row["name"]: row["collation"] for row in rows},
            await immediate.fetchone() is not None,
            await foreign.fetchone() is not None,
        )
