"""The sink `postgres`: messages as rows of a table, each once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import Annotated, Any, ClassVar, Final, Literal, Self

import psycopg
from psycopg import sql
from pydantic import AfterValidator, Field, model_validator

from headrace_connectors.contract import ConnectorError, InvalidRecord, Place, Received, Settings, Sink
from headrace_connectors.postgresql.connection import Connection, Database, failures
from headrace_connectors.postgresql.tables import TableName, table_name
from headrace_connectors.routing.paths import parse_path
from headrace_connectors.sinks.postgres.offsets import Offsets
from headrace_connectors.sinks.postgres.rows import RowShape
from headrace_settings import Secret

# A value that does not fit its column, or that a trigger refuses; other failures of their classes are of the table.
_OF_A_ROW: Final = ("42804", "42846", "P0001")
_COLUMNS: Final = """SELECT attname AS name, format_type(atttypid, NULL) AS type FROM pg_attribute
WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped"""


def _path(text: str) -> str:
    parse_path(text)
    return text


class PostgresSinkSettings(Settings):
    """`settings` of the sink `postgres`."""

    url: Secret
    """Address, as `postgresql://user@host/database`."""
    table: Annotated[str, AfterValidator(table_name)]
    """Table that rows are written to, as `public.orders`. It has to exist."""
    mode: Literal["insert", "upsert"] = "insert"
    """Add a row for each message, or replace the columns of the row with the same key."""
    key_columns: tuple[str, ...] = ()
    """Columns of a primary key or unique index that identify a row, for `upsert`."""
    columns: Mapping[str, Annotated[str, AfterValidator(_path)]] = Field(default_factory=dict)
    """Path in the payload by column, such as `{ id = "order.id" }`; empty: fields have the names of columns."""
    ignore_unknown: bool = False
    """Leave fields out that are no columns; otherwise such a message is invalid."""
    offsets_table: Annotated[str, AfterValidator(table_name)] = "public.headrace_offsets"
    """Table with the offsets, which is created if it does not exist."""
    offsets_name: str | None = None
    """Name under which offsets are stored there; the table if not set. Two sinks that write the same topic to the same
    table need two names.
    """

    @model_validator(mode="after")
    def _keys_fit_the_mode(self) -> Self:
        if (self.mode == "upsert") != bool(self.key_columns):
            raise ValueError('mode = "upsert" and key_columns belong together: set both')
        if self.columns and not set(self.key_columns) <= set(self.columns):
            raise ValueError("key_columns names columns that columns does not fill: add their paths there")
        return self


class PostgresSink(Sink):
    """Writes rows, and the offsets in the same transaction.

    A message below the stored offset is written already, by this process or by one that has the partition now, and is
    left out. The row of the offset is locked first, so that two processes never write a partition at the same time.
    """

    settings_type: ClassVar[type[Settings]] = PostgresSinkSettings

    def __init__(self, settings: PostgresSinkSettings) -> None:
        """Connect to nothing yet."""
        self._settings = settings
        self._table = TableName.parse(settings.table)
        self._database = Database(settings.url.reveal(), "headrace sink")
        self._offsets = Offsets(settings.offsets_table, settings.offsets_name or settings.table)
        self._shape: RowShape | None = None
        self._statements: dict[tuple[str, ...], sql.Composed] = {}
        self._continued: dict[Place, int] = {}
        """Offsets of the partitions that are locked; empty: there is no transaction."""

    async def open(self) -> None:
        """Connect, create the table with the offsets, and look at the columns.

        Raises:
            Unavailable: PostgreSQL is not reached.
            ConnectorError: The table or a column does not exist.
        """
        settings = self._settings
        rows = await self._database.rows(f"reading the columns of {settings.table}", _COLUMNS, (self._name(),))
        types = {row["name"]: row["type"] for row in rows}
        if not types:
            raise ConnectorError(f"there is no table {settings.table}: create it, or correct settings.table")
        missing = sorted({*settings.columns, *settings.key_columns} - set(types))
        if missing:
            raise ConnectorError(f"{settings.table} has no column {', '.join(missing)}; it has {', '.join(types)}")
        self._shape = RowShape(settings.table, types, settings.columns, ignores_unknown=settings.ignore_unknown)
        connection = await self._database.connection()
        with failures(f"opening {settings.offsets_table}"):
            await self._offsets.create(connection)

    def _name(self) -> str:
        return self._table.identifier.as_string()

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
            rows = list(self._rows(messages))
            if rows:
                with _failures_of_rows(self._settings.table), failures(f"writing to {self._settings.table}"):
                    # A savepoint: what is refused leaves the earlier rows of the transaction alone.
                    async with connection.transaction(), connection.cursor() as cursor:
                        for columns, group in groupby(rows, tuple):
                            await cursor.executemany(self._statement(columns), [tuple(row.values()) for row in group])
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
                await self._commit(connection)
        except BaseException:
            await self._discard()
            raise
        self._continued.clear()

    async def _commit(self, connection: Connection) -> None:
        await connection.execute("COMMIT")

    async def close(self) -> None:
        """Close the connection; a transaction that is open is undone."""
        await self._discard()

    async def _discard(self) -> None:
        self._continued.clear()
        await self._database.close()

    async def _locked(self, places: set[Place]) -> Connection:
        """Begin the transaction, if there is none, and lock the offsets of these partitions."""
        connection = await self._database.connection()
        with failures("locking offsets"):
            if not self._continued and places:
                await connection.execute("BEGIN")
            # In the same order in every process, so that they do not wait for each other.
            for place in sorted(places - set(self._continued)):
                self._continued[place] = await self._offsets.locked(connection, place)
        return connection

    def _rows(self, messages: Sequence[Received]) -> Iterator[dict[str, Any]]:
        assert self._shape is not None  # noqa: S101 - `open` has succeeded
        for index, message in enumerate(messages):
            if message.offset < self._continued[message.place]:
                continue
            try:
                row = self._shape.row(message.record.payload)
                missing = [name for name in self._settings.key_columns if row.get(name) is None]
                if missing:
                    raise InvalidRecord(f"the payload has no value for the key {', '.join(missing)}")
            except InvalidRecord as error:
                raise InvalidRecord(str(error), index=index) from error
            yield row

    def _statement(self, columns: tuple[str, ...]) -> sql.Composed:
        found = self._statements.get(columns)
        if found is None:
            found = self._statements[columns] = self._new_statement(columns)
        return found

    def _new_statement(self, columns: tuple[str, ...]) -> sql.Composed:
        names = [sql.Identifier(column) for column in columns]
        statement = sql.SQL("INSERT INTO {} ({}) VALUES ({})").format(
            self._table.identifier, sql.SQL(", ").join(names), sql.SQL(", ").join([sql.Placeholder()] * len(names))
        )
        if self._settings.mode == "insert":
            return statement
        keys = sql.SQL(", ").join(map(sql.Identifier, self._settings.key_columns))
        changed = [sql.Identifier(column) for column in columns if column not in self._settings.key_columns]
        if not changed:
            return sql.SQL("{} ON CONFLICT ({}) DO NOTHING").format(statement, keys)
        values = sql.SQL(", ").join(sql.SQL("{} = excluded.{}").format(column, column) for column in changed)
        return sql.SQL("{} ON CONFLICT ({}) DO UPDATE SET {}").format(statement, keys, values)


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
