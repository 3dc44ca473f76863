"""Writing of messages to tables: what the modes of the sink have in common."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any, Final, Protocol

from psycopg import sql

from headrace_connectors.contract import ConnectorError, InvalidRecord, Place, Received
from headrace_connectors.postgresql.connection import Connection, failures
from headrace_connectors.postgresql.tables import Name, TableName
from headrace_connectors.sinks.postgres.rows import RowShape

KIND: Final = """(WITH RECURSIVE base AS (
    SELECT atttypid AS type UNION ALL SELECT typbasetype FROM pg_type JOIN base ON oid = base.type WHERE typtype = 'd'
) SELECT format_type(CASE WHEN base.type IN (114, 3802) THEN atttypid ELSE base.type END, NULL)
FROM base JOIN pg_type ON oid = base.type WHERE typtype <> 'd')"""
"""Name of the type of a column in a query of ``pg_attribute``: without a length; of a domain that of the type below it,
but for json and jsonb, of which values of a domain arrive as text.
"""
_COLUMNS: Final = f"""SELECT attname AS name, {KIND} AS kind FROM pg_attribute
WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped ORDER BY attnum"""  # noqa: S608 - a constant


async def columns_of(connection: Connection, table: str, setting: str) -> dict[str, str]:
    """Return the names of the types of a table by column: without a length, of a domain that of the type below it.

    Args:
        connection: Connection for the query.
        table: The table, as ``schema.table``.
        setting: Setting that names it, for the message.

    Raises:
        ConnectorError: It does not exist.
        Unavailable: PostgreSQL is not reached.
    """
    with failures(f"reading the columns of {table}"):
        cursor = await connection.execute(_COLUMNS, (TableName.parse(table).identifier.as_string(),))
        rows = await cursor.fetchall()
    if not rows:
        raise ConnectorError(f"there is no table {table}: create it, or correct {setting}")
    return {row["name"]: row["kind"] for row in rows}


class Writer(Protocol):
    """A mode of the sink."""

    what: str
    """Tables that are written to, for messages."""

    async def open(self, connection: Connection) -> None:
        """Look at the tables. Raises as `columns_of`."""

    def restore(self, place: Place, stored: Any) -> None:
        """Take up what was stored with the offset of a partition; None: nothing was."""

    def stored(self, place: Place) -> Any:
        """Return what is to be stored with the offset of a partition; None: nothing."""

    async def prepared(self, connection: Connection, messages: Sequence[tuple[int, Received]]) -> list[Any]:
        """Return what `execute` gets for messages, each with its number in the batch.

        Raises:
            InvalidRecord: A payload cannot be written.
            ConnectorError: As `columns_of`.
        """

    async def execute(self, connection: Connection, prepared: Sequence[Any]) -> None:
        """Write. Raises `psycopg.Error`."""


class RowWriter:
    """Inserts a row for each message, or replaces the one with the same key.

    Args:
        table: The table, as ``schema.table``.
        paths: Paths in the payload by column; empty: fields have the names of columns.
        key_columns: Columns that identify a row that is replaced; empty: rows are added.
        ignores_unknown: True: fields that are no columns are left out.
    """

    def __init__(
        self, table: str, paths: dict[str, str], key_columns: tuple[str, ...], *, ignores_unknown: bool
    ) -> None:
        self.what = table
        self._table = TableName.parse(table)
        self._paths = paths
        self._key_columns = key_columns
        self._ignores_unknown = ignores_unknown
        self._shape: RowShape | None = None
        self._statements: dict[tuple[str, ...], sql.Composed] = {}

    async def open(self, connection: Connection) -> None:
        """Look at the columns. Raises as `columns_of`."""
        kinds = await columns_of(connection, self.what, "settings.table")
        missing = sorted({*self._paths, *self._key_columns} - set(kinds))
        if missing:
            raise ConnectorError(f"{self.what} has no column {', '.join(missing)}; it has {', '.join(kinds)}")
        self._shape = RowShape(self.what, kinds, self._paths, ignores_unknown=self._ignores_unknown)

    def restore(self, place: Place, stored: Any) -> None:
        """Rows need nothing."""

    def stored(self, place: Place) -> Any:
        """Rows need nothing."""
        del place

    async def prepared(self, connection: Connection, messages: Sequence[tuple[int, Received]]) -> list[dict[str, Any]]:
        """Return rows."""
        del connection
        return [self._row(index, message.record.payload) for index, message in messages]

    def _row(self, index: int, payload: Any) -> dict[str, Any]:
        if self._shape is None:
            raise AssertionError("`open` has succeeded")
        try:
            row = self._shape.row(payload)
            missing = [name for name in self._key_columns if row.get(name) is None]
            if missing:
                raise InvalidRecord(f"the payload has no value for the key {', '.join(missing)}")
        except InvalidRecord as error:
            raise InvalidRecord(str(error), index=index) from error
        return row

    async def execute(self, connection: Connection, prepared: Sequence[dict[str, Any]]) -> None:
        """Write rows."""
        async with connection.cursor() as cursor:
            for columns, group in groupby(prepared, tuple):
                await cursor.executemany(self._statement(columns), [tuple(row.values()) for row in group])

    def _statement(self, columns: tuple[str, ...]) -> sql.Composed:
        found = self._statements.get(columns)
        if found is None:
            found = self._statements[columns] = upsert(self._table, columns, self._key_columns)
        return found


def upsert(
    table: TableName,
    columns: Sequence[str],
    keys: Sequence[str],
    *,
    overrides: bool = False,
    replaces_keys: bool = False,
) -> sql.Composed:
    """Return a statement that inserts a row, or replaces the columns of the one with the same key.

    Args:
        table: The table.
        columns: Columns of the row, in the order of the parameters.
        keys: Columns that identify a row; empty: it is inserted in any case.
        overrides: True: columns `GENERATED ALWAYS AS IDENTITY` get the values of the row.
        replaces_keys: True: the key is replaced, too, by one that is equal to it and may have another text.
    """
    overriding = sql.SQL(" OVERRIDING SYSTEM VALUE" if overrides else "")
    names = [Name(column) for column in columns]
    statement = sql.SQL("INSERT INTO {} ({}){} VALUES ({})").format(
        table.in_statement, sql.SQL(", ").join(names), overriding, sql.SQL(", ").join([sql.Placeholder()] * len(names))
    )
    if not keys:
        return statement
    conflict = sql.SQL(", ").join(map(Name, keys))
    changed = [Name(column) for column in columns if replaces_keys or column not in keys]
    if not changed:
        return sql.SQL("{} ON CONFLICT ({}) DO NOTHING").format(statement, conflict)
    values = sql.SQL(", ").join(sql.SQL("{} = excluded.{}").format(column, column) for column in changed)
    return sql.SQL("{} ON CONFLICT ({}) DO UPDATE SET {}").format(statement, conflict, values)
