"""Rows that exist before the first change."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Sequence
from typing import Any, NamedTuple

import psycopg
from psycopg import sql

from headrace_connectors.contract import ConnectorError, Unavailable
from headrace_connectors.postgresql.connection import Connection, Database, failures
from headrace_connectors.postgresql.tables import TableName
from headrace_connectors.sources.postgres.progress import Visible
from headrace_connectors.sources.postgres.values import of_oid, text_rows

# Before version 18 no publication has generated columns; before version 15 each has all other columns and all rows.
_COLUMNS = """SELECT attname AS name, atttypid::bigint AS oid, relkind = 'p' AS is_partitioned,
current_setting('server_version_num')::int < 180000
AND coalesce(to_jsonb(a) ->> 'attgenerated', '') <> '' AS is_generated
FROM pg_attribute a JOIN pg_class c ON c.oid = attrelid
WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped ORDER BY attnum"""
_PUBLISHED = """SELECT to_jsonb(p) -> 'attnames' AS columns, to_jsonb(p) ->> 'rowfilter' AS condition
FROM pg_publication_tables p WHERE pubname = %s AND schemaname = %s AND tablename = %s"""


class Rows(NamedTuple):
    """Rows of one table, as text."""

    table: str
    types: dict[str, int]
    """Type of each column."""
    rows: Sequence[dict[str, str | None]]

    def values(self) -> list[dict[str, Any]]:
        """Return the rows with values as changes have them, new ones in each call."""
        types = self.types
        return [
            {name: None if text is None else of_oid(text, types[name]) for name, text in row.items()}
            for row in self.rows
        ]


class Snapshot:
    """One transaction that sees all tables at one moment. It cannot be continued: after a failure it is taken again.

    Args:
        database: Connection, which no one else uses meanwhile.
        tables: Tables, as ``schema.table``.
        publication: Publication that the changes come through, whose rows and columns are read; None: all are.
        batch_size: Number of rows that are read at a time.
    """

    def __init__(self, database: Database, tables: Sequence[str], publication: str | None, batch_size: int) -> None:
        self._database = database
        self._tables = tables
        self._publication = publication
        self._batch_size = batch_size
        self._connection: Connection | None = None
        self._found: AsyncGenerator[Rows] | None = None

    @property
    def has_begun(self) -> bool:
        """True between `begin` and the end."""
        return self._found is not None

    async def begin(self) -> Visible:
        """Begin the transaction, and return what it sees. Failures as of `failures`."""
        connection = await self._database.connection()
        with failures("beginning the snapshot"):
            await connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            # Changes come of all rows: a policy that hides some from this user is an error.
            await connection.execute("SET LOCAL row_security = off")
            cursor = await connection.execute(
                "SELECT txid_snapshot_xmin(s) AS xmin, txid_snapshot_xmax(s) AS xmax, "
                "ARRAY(SELECT txid_snapshot_xip(s)) AS running, pg_current_wal_insert_lsn()::text AS lsn "
                "FROM txid_current_snapshot() s"
            )
            row = await cursor.fetchone()
        if row is None:
            raise AssertionError("the query returns one row")
        self._connection, self._found = connection, self._read()
        return Visible(row["xmin"], row["xmax"], row["running"], row["lsn"])

    async def next(self) -> Rows | None:
        """Return the next rows; None: there are no more, and the transaction is ended. Failures as of `failures`."""
        if self._found is None or self._connection is None or self._connection.closed:
            raise Unavailable("PostgreSQL, reading the snapshot: the connection was lost")
        rows = await anext(self._found, None)
        if rows is None:
            with failures("ending the snapshot"):
                await self._connection.execute("COMMIT")
            self._found = self._connection = None
        return rows

    async def forget(self) -> None:
        """Give the transaction up, with the connection."""
        found, self._found, self._connection = self._found, None, None
        await self._database.close()
        if found is not None:
            with contextlib.suppress(ConnectorError, psycopg.Error):
                await found.aclose()

    async def _read(self) -> AsyncGenerator[Rows]:
        connection = await self._database.connection()
        for table in self._tables:
            with failures(f"reading {table}"):
                statement, types = await self._select(connection, TableName.parse(table))
                declaration = sql.SQL("DECLARE headrace_snapshot NO SCROLL CURSOR FOR ") + statement
                await connection.execute(declaration)
                while rows := await self._fetch(connection):
                    yield Rows(table, types, rows)
                await connection.execute("CLOSE headrace_snapshot")

    async def _fetch(self, connection: Connection) -> list[dict[str, str | None]]:
        statement = sql.SQL("FETCH {} FROM headrace_snapshot").format(sql.Literal(self._batch_size))
        cursor = await connection.execute(statement, prepare=False)
        columns, result = cursor.description, cursor.pgresult
        if columns is None or result is None:
            raise AssertionError("a FETCH has rows")
        return text_rows(columns, result)

    async def _select(self, connection: Connection, table: TableName) -> tuple[sql.Composed, dict[str, int]]:
        """Return the query for the rows of a table whose changes are sent, and the types of its columns."""
        name = table.identifier
        columns = await (await connection.execute(_COLUMNS, (name.as_string(),))).fetchall()
        condition: sql.Composable = sql.SQL("")
        if self._publication is not None:
            columns = [row for row in columns if not row["is_generated"]]
            cursor = await connection.execute(_PUBLISHED, (self._publication, *table))
            # Without a row there is no publication yet: the one that the first start creates has everything.
            published = await cursor.fetchone()
            if published is not None and published["columns"] is not None:
                columns = [row for row in columns if row["name"] in published["columns"]]
            if published is not None and published["condition"] is not None:
                condition = sql.SQL(" WHERE ") + sql.SQL(published["condition"])
        # Changes of tables that inherit from this one are not its changes; those of partitions are.
        is_alone = not any(row["is_partitioned"] for row in columns)
        only = sql.SQL("ONLY " if is_alone else "")
        names = sql.SQL(", ").join(sql.Identifier(row["name"]) for row in columns)
        statement = sql.SQL("SELECT {} FROM {}{}{}").format(names, only, name, condition)
        return statement, {row["name"]: row["oid"] for row in columns}
