"""The sink `postgres`: messages as rows of tables, each once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import ClassVar, Final

import psycopg

from headrace_connectors.contract import ConnectorError, InvalidRecord, Place, Received, Settings, Sink, Unavailable
from headrace_connectors.postgresql.connection import Connection, Database, failures
from headrace_connectors.sinks.postgres.changes import ChangeWriter
from headrace_connectors.sinks.postgres.offsets import Offsets
from headrace_connectors.sinks.postgres.settings import PostgresSinkSettings
from headrace_connectors.sinks.postgres.writers import RowWriter, Writer

# A value that does not fit its column, or that a trigger refuses; other failures of their classes are of the table.
_OF_A_ROW: Final = ("42804", "42846", "P0001")


class PostgresSink(Sink):
    """Writes rows, and the offsets in the same transaction.

    A message below the stored offset is written already, by this process or by one that has the partition now, and is
    left out. The row of the offset is locked first, so that two processes never write a partition at the same time.
    """

    settings_type: ClassVar[type[Settings]] = PostgresSinkSettings

    def __init__(self, settings: PostgresSinkSettings) -> None:
        """Connect to nothing yet."""
        self._settings = settings
        self._database = Database(settings.url.reveal(), "headrace sink")
        self._offsets = Offsets(settings.offsets_table, settings.offsets_name or settings.table or "changes")
        self._writer = self._new_writer()
        self._continued: dict[Place, int] = {}
        """Offsets of the partitions that are locked; empty: there is no transaction."""
        self._flushed: dict[Place, int] = {}
        """Offsets that this sink has stored last: what the writer knows of these partitions is true."""
        self._has_waiting: dict[Place, bool] = {}
        """True for those with whose offsets more is stored."""
        self._begun: Connection | None = None
        """Connection of the transaction."""

    async def open(self) -> None:
        """Connect, create the table with the offsets, and look at the columns.

        Raises:
            Unavailable: PostgreSQL is not reached.
            ConnectorError: The table or a column does not exist.
        """
        settings = self._settings
        connection = await self._database.connection()
        await self._writer.open(connection)
        with failures(f"opening {settings.offsets_table}"):
            await self._offsets.create(connection)

    def _new_writer(self) -> Writer:
        settings = self._settings
        ignores_unknown = settings.ignore_unknown
        if settings.table is None:
            return ChangeWriter(settings.tables, settings.key_columns, ignores_unknown=ignores_unknown)
        return RowWriter(settings.table, dict(settings.columns), settings.key_columns, ignores_unknown=ignores_unknown)

    async def positions(self, places: Sequence[Place]) -> Mapping[Place, int]:
        """Return the offsets that are stored with the rows."""
        connection = await self._database.connection()
        with failures("reading offsets"):
            return await self._offsets.stored(connection, places)

    async def write(self, messages: Sequence[Received]) -> None:
        """Insert rows in a transaction that `flush` ends.

        Raises:
            InvalidRecord: A payload is no row, or PostgreSQL refuses a row.
            Unavailable: The connection is lost, or the server is busy.
            ConnectorError: The table has changed, or the user has no right.
        """
        try:
            connection = await self._locked({message.place for message in messages})
            fresh = [
                (index, message)
                for index, message in enumerate(messages)
                if message.offset >= self._continued[message.place]
            ]
            if fresh:
                what = self._writer.what
                with _failures_of_rows(what), failures(f"writing to {what}"):
                    # A savepoint: what is refused leaves the earlier rows of the transaction alone.
                    async with connection.transaction():
                        prepared = await self._writer.prepared(connection, fresh)
                        await self._writer.execute(connection, prepared)
        except InvalidRecord:
            raise
        except BaseException:
            await self._discard()
            raise

    async def flush(self, positions: Mapping[Place, int]) -> None:
        """Store offsets, and end the transaction."""
        try:
            connection = await self._locked(set(positions))
            with failures("storing offsets"):
                await self._offsets.store(connection, positions)
                for place in positions:
                    waiting = self._writer.stored(place)
                    if waiting is not None or self._has_waiting[place]:
                        await self._offsets.store_waiting(connection, place, waiting)
                await self._commit(connection)
        except BaseException:
            await self._discard()
            raise
        self._continued.clear()
        self._flushed |= positions

    async def _commit(self, connection: Connection) -> None:
        await connection.execute("COMMIT")

    async def forget(self) -> None:
        """Undo the open transaction."""
        await self._discard()

    async def close(self) -> None:
        """Close the connection; a transaction that is open is undone."""
        await self._discard()

    async def _discard(self) -> None:
        self._continued.clear()
        self._flushed.clear()
        self._begun = None
        await self._database.close()

    async def _locked(self, places: set[Place]) -> Connection:
        """Begin the transaction, if there is none, and lock the offsets of these partitions."""
        connection = await self._database.connection()
        if self._continued and connection is not self._begun:
            # A refused row hides that the connection was lost at the return to the savepoint.
            raise Unavailable("PostgreSQL: the connection was lost, and with it the rows that were not committed")
        with failures("locking offsets"):
            if not self._continued and places:
                await connection.execute("BEGIN")
                self._begun = connection
            # In the same order in every process, so that they do not wait for each other.
            for place in sorted(places - set(self._continued)):
                self._continued[place], waiting = await self._offsets.locked(connection, place)
                self._has_waiting[place] = waiting is not None
                if self._flushed.get(place) != self._continued[place]:
                    self._writer.restore(place, waiting)
        return connection


@contextmanager
def _failures_of_rows(table: str) -> Iterator[None]:
    """Translate refusals of rows within a ``with`` block to `InvalidRecord`."""
    try:
        yield
    except UnicodeEncodeError as error:
        raise InvalidRecord(f"a text has no form in UTF-8: {error.reason}") from error
    except ConnectorError as error:
        cause = error.__cause__
        is_refusal = isinstance(cause, psycopg.DataError | psycopg.IntegrityError)
        if is_refusal or (isinstance(cause, psycopg.Error) and cause.sqlstate in _OF_A_ROW):
            text = " ".join(str(cause).split())
            raise InvalidRecord(f"{table} refuses the row: {text}") from error
        raise
