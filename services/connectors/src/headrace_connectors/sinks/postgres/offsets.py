"""Offsets that are stored in the transaction of the rows."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

import psycopg
from psycopg import sql
from psycopg.types.json import Json

from headrace_connectors.contract import Place
from headrace_connectors.postgresql.connection import Connection, failures
from headrace_connectors.postgresql.tables import TableName

_CREATE = """CREATE TABLE IF NOT EXISTS {table} (
    sink text, stream text, topic text, partition bigint, next_offset numeric(20) NOT NULL DEFAULT 0,
    waiting json, PRIMARY KEY (sink, stream, topic, partition)
)"""
_ADD = "INSERT INTO {table} (sink, stream, topic, partition) VALUES (%s, %s, %s, %s) ON CONFLICT DO NOTHING"
_READ = "SELECT next_offset FROM {table} WHERE sink = %s AND stream = %s AND topic = %s AND partition = %s"
# Tables of earlier releases have no column `waiting` before the first row waits.
_LOCK = """SELECT next_offset, to_json(o) -> 'waiting' AS waiting FROM {table} o
WHERE sink = %s AND stream = %s AND topic = %s AND partition = %s FOR UPDATE"""
_ADD_WAITING = "ALTER TABLE {table} ADD COLUMN IF NOT EXISTS waiting json"
_STORE_WAITING = """UPDATE {table} SET waiting = %s
WHERE sink = %s AND stream = %s AND topic = %s AND partition = %s"""
_STORE = """UPDATE {table} SET next_offset = greatest(next_offset, %s)
WHERE sink = %s AND stream = %s AND topic = %s AND partition = %s"""


class Offsets:
    """The offset to continue at of each partition, in a table.

    Args:
        table: The table, as ``schema.table``.
        sink: Name under which they are stored.
    """

    def __init__(self, table: str, sink: str) -> None:
        self._table = TableName.parse(table)
        self._sink = sink

    async def create(self, connection: Connection) -> None:
        """Create the table, if it does not exist. Failures as of `failures`."""
        found = await connection.execute("SELECT to_regclass(%s)::text AS name", (self._table.identifier.as_string(),))
        row = await found.fetchone()
        if row is not None and row["name"] is not None:
            return
        with (
            failures(f"creating {self._table.schema}.{self._table.name}"),
            contextlib.suppress(psycopg.errors.UniqueViolation),
        ):
            # Two sinks that create it at the same time get this violation of the catalog.
            await connection.execute(self._statement(_CREATE), ())

    async def stored(self, connection: Connection, places: Sequence[Place]) -> dict[Place, int]:
        """Return the offsets that are stored."""
        found = {}
        for place in places:
            cursor = await connection.execute(self._statement(_READ), (self._sink, *place))
            row = await cursor.fetchone()
            if row is not None:
                found[place] = int(row["next_offset"])
        return found

    async def locked(self, connection: Connection, place: Place) -> tuple[int, Any]:
        """Return what is stored of a partition, and keep others from changing it until the transaction ends.

        The offset is followed by the rows of a copy that wait for their keys; None: none does.
        """
        parameters = (self._sink, *place)
        await connection.execute(self._statement(_ADD), parameters)
        cursor = await connection.execute(self._statement(_LOCK), parameters)
        row = await cursor.fetchone()
        # The row is missing only if a user deletes it at this moment.
        return (0, None) if row is None else (int(row["next_offset"]), row["waiting"])

    async def store_waiting(self, connection: Connection, place: Place, waiting: Any) -> None:
        """Store rows of a copy that wait for their keys; None: none does any more."""
        await connection.execute(self._statement(_ADD_WAITING), ())
        value = None if waiting is None else Json(waiting)
        await connection.execute(self._statement(_STORE_WAITING), (value, self._sink, *place))

    async def store(self, connection: Connection, positions: Mapping[Place, int]) -> None:
        """Store offsets; they never move back."""
        for place, offset in positions.items():
            await connection.execute(
                self._statement(_STORE),
                (offset, self._sink, *place),
            )

    def _statement(self, text: str) -> sql.Composed:
        return sql.SQL(text).format(table=self._table.in_statement)
