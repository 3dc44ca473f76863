"""The sink `sqlite`: messages as rows of a table of SQLite, each once."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import Field, model_validator

from headrace_connectors.contract import ConnectorError, InvalidRecord, Place, Received, Settings, Sink
from headrace_connectors.json_values import HugeNumber
from headrace_connectors.routing.paths import MISSING, ReadPath, parse_path, value_at
from headrace_connectors.sinks.json_values import json_text
from headrace_connectors.sinks.row_shape import RowShape
from headrace_connectors.sinks.sqlite.database import Database, Offsets, failures, quoted
from headrace_connectors.sinks.sqlite.values import affinity, bound
from headrace_settings import Between, Duration

_STATEMENTS_MAX: Final = 256


class SqliteSettings(Settings):
    """`settings` of the sink `sqlite`."""

    path: Path
    """File of the database. It has to exist."""
    table: str
    """Table that rows are written to. It has to exist."""
    table_field: ReadPath | None = None
    """Path of the field with the name of the table: one of `tables`. Messages without it go to `table`."""
    tables: tuple[str, ...] = ()
    """Tables that `table_field` may name. They have to exist."""
    mode: Literal["insert", "upsert"] = "insert"
    """Add a row for each message, or replace the columns of the row with the same key."""
    key_columns: tuple[str, ...] = ()
    """Columns of a primary key or unique index that identify a row, for `upsert`."""
    columns: Mapping[str, ReadPath] = Field(default_factory=dict)
    """Path in the payload by column, such as `{ id = "order.id" }`; empty: fields have the names of columns."""
    ignore_unknown: bool = False
    """Leave fields out that are no columns; otherwise such a message is invalid."""
    offsets_table: str = "headrace_offsets"
    """Table with the offsets, which is created if it does not exist."""
    offsets_name: str | None = None
    """Name under which offsets are stored there; the table if not set. Two sinks that write the same topic to the same
    table need two names.
    """
    busy_timeout: Annotated[Duration, Between(Duration.parse("1 ms"), Duration.parse("1 min"))] = Duration.parse("5 s")
    """Time to wait while another program writes to the file."""

    @model_validator(mode="after")
    def _keys_fit_the_mode(self) -> Self:
        if (self.mode == "upsert") != bool(self.key_columns):
            raise ValueError('mode = "upsert" and key_columns belong together: set both')
        if self.columns and not set(self.key_columns) <= set(self.columns):
            raise ValueError("key_columns names columns that columns does not fill: add their paths there")
        return self

    @model_validator(mode="after")
    def _tables_are_chosen(self) -> Self:
        if (self.table_field is None) != (not self.tables):
            raise ValueError("table_field and tables belong together: set both")
        # SQLite's names are the same in capitals.
        if self.offsets_table.lower() in (name.lower() for name in (self.table, *self.tables)):
            raise ValueError(f"{self.offsets_table} is the table with the offsets: choose another offsets_table")
        return self


class _Shape(RowShape):
    """Objects and arrays are text with JSON; numbers, texts and bytes are values of SQLite.

    Args:
        table: Name of the table, for messages.
        types: Types by column, as they were declared.
        paths: Paths in the payload by column; empty: fields have the names of columns.
        ignores_unknown: True: fields that are no columns are left out; False: such a payload is invalid.
    """

    def __init__(
        self, table: str, types: Mapping[str, str], paths: Mapping[str, str], *, ignores_unknown: bool
    ) -> None:
        super().__init__(table, types, paths, ignores_unknown=ignores_unknown)
        self._affinities = {name: affinity(declared) for name, declared in types.items()}

    def _value(self, column: str, value: Any) -> Any:
        if isinstance(value, bool | int | float | str | bytes | HugeNumber):
            return bound(column, self._affinities[column], value)
        return json_text(column, value)


class SqliteSink(Sink):
    """Writes rows, and the offsets in the same transaction.

    The transaction begins with the lock for writing, and messages below the stored offset are left out: two processes
    write no message twice.
    """

    settings_type: ClassVar[type[Settings]] = SqliteSettings
    uses_host: ClassVar[bool] = True

    def __init__(self, settings: SqliteSettings) -> None:
        """Open nothing yet."""
        self._settings = settings
        self._database = Database(settings.path.expanduser(), settings.busy_timeout.seconds)
        self._offsets = Offsets(settings.offsets_table, settings.offsets_name or settings.table)
        self._shapes: dict[str, RowShape] = {}
        # By table and columns: rows of a batch have few different sets of them.
        self._statement = lru_cache(_STATEMENTS_MAX)(self._composed)
        self._table_path = None if settings.table_field is None else parse_path(settings.table_field)

    async def open(self) -> None:
        """Open the file, create the table with the offsets, and look at the columns.

        Raises:
            Unavailable: The file is locked.
            ConnectorError: The file, the table or a column does not exist.
        """
        await self._database.run(self._look)

    def _look(self, connection: sqlite3.Connection) -> None:
        settings = self._settings
        self._shapes = {table: self._shape_of(connection, table) for table in (settings.table, *settings.tables)}
        with failures(f"opening {settings.offsets_table}"):
            self._offsets.create(connection)

    def _shape_of(self, connection: sqlite3.Connection, table: str) -> RowShape:
        settings = self._settings
        with failures(f"reading the columns of {table}"):
            found = connection.execute(f"PRAGMA table_info({quoted(table)})").fetchall()
        names = {row[1]: row[2] for row in found}
        if not names:
            raise ConnectorError(f"{settings.path} has no table {table}: create it, or correct the settings")
        missing = sorted({*settings.columns, *settings.key_columns} - set(names))
        if missing:
            raise ConnectorError(f"{table} has no column {', '.join(missing)}; it has {', '.join(names)}")
        return _Shape(table, names, settings.columns, ignores_unknown=settings.ignore_unknown)

    async def positions(self, places: Sequence[Place]) -> Mapping[Place, int]:
        """Return the offsets that are stored with the rows."""

        def read(connection: sqlite3.Connection) -> dict[Place, int]:
            with failures("reading offsets"):
                return self._offsets.stored(connection, places)

        return await self._database.run(read)

    async def write(self, messages: Sequence[Received]) -> None:
        """Insert rows in a transaction that `flush` ends.

        Raises:
            InvalidRecord: A payload is no row, or the table refuses a row.
            Unavailable: The file is locked, or the disk is full.
            ConnectorError: The table has changed.
        """
        try:
            await self._database.run(partial(self._insert, messages=messages))
        except InvalidRecord:
            raise
        except BaseException:
            self._database.roll_back()
            raise

    async def flush(self, positions: Mapping[Place, int]) -> None:
        """Store offsets, and end the transaction."""
        try:
            await self._commit(positions)
        except BaseException:
            self._database.roll_back()
            raise

    async def _commit(self, positions: Mapping[Place, int]) -> None:
        def store(connection: sqlite3.Connection) -> None:
            with failures("storing offsets"):
                _begin(connection)
                self._offsets.store(connection, positions)
                connection.execute("COMMIT")

        await self._database.run(store)

    async def forget(self) -> None:
        """Undo the open transaction."""
        self._database.roll_back()

    async def close(self) -> None:
        """Close the file; a transaction that is open is undone."""
        await self._database.close()

    # ---- in the thread of the database

    def _insert(self, connection: sqlite3.Connection, messages: Sequence[Received]) -> None:
        with failures(f"writing to {self._settings.table}"):
            _begin(connection)
            continued = self._offsets.stored(connection, list({message.place for message in messages}))
            connection.execute("SAVEPOINT messages")
            for index, message in enumerate(messages):
                if message.offset < continued.get(message.place, 0):
                    continue
                try:
                    self._insert_row(connection, message.record.payload)
                except InvalidRecord as error:
                    # The rows of earlier writes stay.
                    connection.execute("ROLLBACK TO messages")
                    connection.execute("RELEASE messages")
                    raise InvalidRecord(str(error), index=index) from error
            connection.execute("RELEASE messages")

    def _insert_row(self, connection: sqlite3.Connection, payload: Any) -> None:
        table = self._table_of(payload)
        row = self._shapes[table].row(self._without_table(payload, table))
        missing = [name for name in self._settings.key_columns if row.get(name) is None]
        if missing:
            raise InvalidRecord(f"the payload has no value for the key {', '.join(missing)}")
        try:
            connection.execute(self._statement(table, tuple(row)), tuple(row.values()))
        except (sqlite3.IntegrityError, sqlite3.DataError, OverflowError, UnicodeEncodeError) as error:
            raise InvalidRecord(f"{table} refuses the row: {error}") from error

    def _table_of(self, payload: Any) -> str:
        if self._table_path is None:
            return self._settings.table
        value = value_at(payload, self._table_path)
        if value is MISSING or value is None:
            return self._settings.table
        if value not in self._settings.tables:
            raise InvalidRecord(f"{self._settings.table_field} is {value!r}, and not one of settings.tables")
        return str(value)

    def _without_table(self, payload: Any, table: str) -> Any:
        """Leave the name of the table out of a row, unless it is a column, too."""
        path = self._table_path
        if path is None or len(path) > 1 or not isinstance(payload, dict) or self._shapes[table].has(path[0]):
            return payload
        return {name: value for name, value in payload.items() if name != path[0]}

    def _composed(self, table: str, columns: tuple[str, ...]) -> str:
        # The connection keeps prepared statements by their text.
        names = ", ".join(map(quoted, columns))
        places = ", ".join("?" * len(columns))
        statement = f"INSERT INTO {quoted(table)} ({names}) VALUES ({places})"  # noqa: S608 - quoted
        if self._settings.mode == "insert":
            return statement
        keys = ", ".join(map(quoted, self._settings.key_columns))
        changed = [quoted(column) for column in columns if column not in self._settings.key_columns]
        if not changed:
            return f"{statement} ON CONFLICT ({keys}) DO NOTHING"
        values = ", ".join(f"{column} = excluded.{column}" for column in changed)
        return f"{statement} ON CONFLICT ({keys}) DO UPDATE SET {values}"


def _begin(connection: sqlite3.Connection) -> None:
    if not connection.in_transaction:
        connection.execute("BEGIN IMMEDIATE")
