"""Rows that exist before the first change."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any, NamedTuple

from psycopg import sql
from psycopg.adapt import Loader
from psycopg.pq import Format

from headrace_connectors.contract import Unavailable
from headrace_connectors.postgresql.connection import Connection, Database, failures
from headrace_connectors.postgresql.tables import TableName
from headrace_connectors.sources.postgres.progress import Visible
from headrace_connectors.sources.postgres.values import of_oid

_TYPES = """SELECT attname AS name, atttypid::int AS oid FROM pg_attribute
WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped"""


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


class _Text(Loader):
    """Leaves a value as the server has written it."""

    format = Format.TEXT

    def load(self, data: Any) -> str:
        return bytes(data).decode()


class Snapshot:
    """One transaction that sees all tables at one moment. It cannot be continued: after a failure it is taken again.

    Args:
        database: Connection, which no one else uses meanwhile.
        tables: Tables, as ``schema.table``.
        batch_size: Number of rows that are read at a time.
    """

    def __init__(self, database: Database, tables: Sequence[str], batch_size: int) -> None:
        self._database = database
        self._tables = tables
        self._batch_size = batch_size
        self._connection: Connection | None = None
        self._found: AsyncIterator[Rows] | None = None

    @property
    def has_begun(self) -> bool:
        """True between `begin` and the end."""
        return self._found is not None

    async def begin(self) -> Visible:
        """Begin the transaction, and return what it sees. Failures as of `failures`."""
        connection = await self._database.connection()
        with failures("beginning the snapshot"):
            await connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
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
        """Give the transaction up."""
        self._found = self._connection = None
        await self._database.close()

    async def _read(self) -> AsyncIterator[Rows]:
        connection = await self._database.connection()
        for table in self._tables:
            name = TableName.parse(table).identifier
            with failures(f"reading {table}"):
                found = await (await connection.execute(_TYPES, (name.as_string(),))).fetchall()
                types = {row["name"]: row["oid"] for row in found}
                async with connection.cursor(name="headrace_snapshot") as cursor:
                    for oid in set(types.values()):
                        cursor.adapters.register_loader(oid, _Text)
                    await cursor.execute(sql.SQL("SELECT * FROM {}").format(name))
                    while rows := await cursor.fetchmany(self._batch_size):
                        yield Rows(table, types, rows)
