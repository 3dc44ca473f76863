"""The source `postgres`: rows of a table, read again and again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Final, NamedTuple, Self

from psycopg import Column, sql
from psycopg.pq.abc import PGresult
from pydantic import AfterValidator, model_validator

from headrace_connectors.contract import (
    Batch,
    ConnectorError,
    InFlight,
    Lag,
    Polling,
    Record,
    Settings,
    Source,
    decode_state,
    encode_state,
    stable_id,
)
from headrace_connectors.postgresql.address import DatabaseUrl
from headrace_connectors.postgresql.connection import Database, failures
from headrace_connectors.postgresql.tables import TableName, table_name
from headrace_connectors.sources.postgres.values import is_last_of_all, of_oid, text_rows
from headrace_settings import Between, Duration

_STATE_VERSION: Final = 1
_LAG_ROWS_MAX: Final = 10_000
"""Rows that are counted for the lag: a longer count would cost the server more than the reading."""
# A column of no table, for the version of a row: the transaction that wrote it.
_ROW_VERSION: Final = "headrace xmin"
_DOMAINS: Final = """SELECT coalesce(atttypid::bigint, type) AS oid
FROM unnest(%s::bigint[], %s::int[], %s::bigint[]) WITH ORDINALITY AS columns (relation, number, type, place)
LEFT JOIN pg_attribute ON attrelid::bigint = relation AND attnum = number ORDER BY place"""
_log = logging.getLogger(__name__)

Key = list[Any]
"""Values of the key of a row, as text. States of older releases have numbers, too."""


class _Rows(NamedTuple):
    """Rows of a query, as text."""

    types: dict[str, int]
    """Type of each column."""
    rows: list[dict[str, str | None]]


class PollingSettings(Settings):
    """`settings` of the source `postgres`."""

    url: DatabaseUrl
    """Address: `postgresql://user:password@host:5432/database`."""
    table: Annotated[str, AfterValidator(table_name)]
    """The table, as `schema.table`."""
    query: str | None = None
    """A query in place of the whole table; it returns at least the key and the cursor."""
    primary_key: tuple[str, ...] = ("id",)
    """Columns that identify a row. None of them is NULL."""
    cursor_column: str | None = None
    """Column that grows with each new or changed row, such as a number or a time. Rows are read in its order, and those
    after the last one only. Rows in which it is NULL are not read until it is set. Transactions that commit late with
    a small value are not seen; change data capture does.
    """
    delete_after_read: bool = False
    """Delete rows when they are stored."""
    processed_column: str | None = None
    """Boolean column that is set when rows are stored; rows in which it is true are not read."""
    batch_size: Annotated[int, Between(1, 100_000)] = 1000
    """Maximum number of rows of a batch."""
    poll_interval: Annotated[Duration, Between(Duration.parse("1 ms"), Duration.parse("1 day"))] = Duration.parse("1 s")
    """Pause after a poll without rows."""

    @model_validator(mode="after")
    def _has_one_way_to_go_on(self) -> Self:
        given = [
            name
            for name, value in (
                ("cursor_column", self.cursor_column),
                ("delete_after_read", self.delete_after_read),
                ("processed_column", self.processed_column),
            )
            if value
        ]
        if len(given) != 1:
            found = " and ".join(given) or "none"
            raise ValueError(
                "exactly one of cursor_column, delete_after_read and processed_column decides which rows are new; "
                f"set: {found}"
            )
        if not self.primary_key:
            raise ValueError("primary_key names no column")
        return self


class PostgresPolling(Source):
    """Reads rows in batches. Deletions and marks follow in `commit`, when the rows are stored.

    Values have the form of those of `postgres_cdc`.
    """

    settings_type: ClassVar[type[Settings]] = PollingSettings

    def __init__(self, settings: PollingSettings) -> None:
        """Connect to nothing yet."""
        self._settings = settings
        self._database = Database(settings.url.reveal(), f"headrace {settings.table}")
        # The other connection is in use while rows are read.
        self._lag_database = Database(settings.url.reveal(), f"headrace {settings.table} lag")
        self._table = TableName.parse(settings.table).identifier
        # Columns of the last rows, as the server has named them, and their types.
        self._origins: tuple[tuple[int, int, int], ...] = ()
        self._oids: list[int] = []
        self._last: Key | None = None
        # Last rows of batches that were polled and are not committed.
        self._flight = InFlight[Key]()
        # True if rows are read with their versions: each entry below has one after its key.
        self._has_versions = False
        # Rows of the last poll, which may or may not be stored; None: there was none since the last commit.
        self._polled: list[Key] | None = None
        # Rows that are stored, and wait for their deletion or mark.
        self._unmarked: list[Key] = []
        # True if the saved state names rows: a start would delete or mark those that have their keys by then.
        self._are_rows_named = False

    def mode(self) -> Polling:
        """Deletions and marks make it destructive."""
        return Polling(destructive=self._is_marking)

    @property
    def _is_marking(self) -> bool:
        return self._settings.cursor_column is None

    async def open(self, state: bytes | None) -> None:
        """Continue after the state; delete or mark what a run before has stored and not come to."""
        if state is not None:
            if self._is_marking:
                self._unmarked = decode_state(state, _STATE_VERSION, list[list[Any]])
                self._are_rows_named = bool(self._unmarked)
                await self._mark()
            else:
                self._last = self._stored_position(state)
        await self._check_table()

    async def open_read_only(self, state: bytes | None) -> None:
        """Continue after the state, and delete or mark nothing: rows that wait for it are read once more."""
        if state is not None and not self._is_marking:
            self._last = self._stored_position(state)
        await self._check_table()

    def _stored_position(self, state: bytes) -> Key | None:
        stored = decode_state(state, _STATE_VERSION, list[list[Any]])
        last = stored[0] if stored else None
        if last is not None and None in last:
            # Older releases read rows without a cursor, too. No row comes after NULL, so nothing would be read again.
            _log.warning("%s: the stored position has a NULL, so all rows are read again", self._settings.table)
            return None
        return last

    async def _check_table(self) -> None:
        if self._is_marking and self._settings.query is None:
            # Views and foreign tables have no versions, and reading them needs the right to read the whole table.
            statement = sql.SQL(
                "SELECT 1 FROM pg_class WHERE oid = to_regclass({}) AND relkind = 'r' "
                "AND has_table_privilege(oid, 'SELECT')"
            )
            name = sql.Literal(self._table.as_string())
            self._has_versions = bool(await self._database.rows("looking for the table", statement.format(name)))
        # A wrong name is found here and not later.
        await self._database.rows("looking at the table", self._select(self._last, limit=0), self._last)

    async def poll(self) -> Batch | None:
        """Return the next rows."""
        if self._is_marking and self._unmarked:
            # The last commit failed: what it was to do comes first, or the rows would be read twice.
            await self._mark()
        await self.rewind()
        return await self.poll_ahead()

    @classmethod
    def pipelining_refusal(cls, settings: Any) -> str | None:
        """Return why rows that are deleted or marked are read a batch at a time."""
        if settings.cursor_column is None:
            return "rows that are deleted or marked when they are stored are read a batch at a time: set cursor_column"
        return None

    async def poll_ahead(self) -> Batch | None:
        """Return the rows after the last poll.

        A batch without records follows rows that were deleted or marked: they may come again under the same keys.
        """
        last = self._last if self._flight.last is None else self._flight.last
        types, rows = await self._rows(last)
        if not rows and self._are_rows_named:
            self._polled = []
            return Batch((), encode_state(_STATE_VERSION, []))
        if not rows:
            await asyncio.sleep(self._settings.poll_interval.seconds)
            return None
        versions = [[row.pop(_ROW_VERSION)] if self._has_versions else [] for row in rows]
        keys = [self._key(row) for row in rows]
        named = [key + version for key, version in zip(keys, versions, strict=True)]
        stored = named if self._is_marking else keys[-1:]
        state = encode_state(_STATE_VERSION, stored)
        batch = Batch(self._records(types, rows, keys), state)
        if self._is_marking:
            self._polled = named
        else:
            self._flight.add(batch, keys[-1])
        return batch

    async def commit(self) -> None:
        """Delete or mark the rows of the last poll, or go on after them."""
        if self._is_marking:
            if self._polled is not None:
                self._are_rows_named = bool(self._polled)
                self._unmarked, self._polled = self._unmarked + self._polled, None
            await self._mark()
        elif committed := self._flight.clear():
            self._last = committed[-1]

    async def commit_batch(self, batch: Batch) -> None:
        """Go on after the rows of a batch."""
        if committed := self._flight.committed(batch):
            self._last = committed[-1]

    async def rewind(self) -> None:
        """Read the rows after the last commit again."""
        self._flight.clear()

    async def lag(self) -> Lag:
        """Return the number of rows that are not stored yet; larger ones than 10,000 are not counted further.

        Raises:
            Unavailable: The server is not reached.
            ConnectorError: It refuses the query.
        """
        rows = sql.SQL("SELECT 1 FROM {} WHERE {} LIMIT {}").format(
            self._source, self._condition(self._last), sql.Literal(_LAG_ROWS_MAX)
        )
        statement = sql.SQL("SELECT count(*) AS n FROM ({}) AS behind").format(rows)
        (found,) = await self._lag_database.rows("counting rows", statement, self._last)
        return Lag(found["n"], "rows")

    async def close(self) -> None:
        """Disconnect."""
        await self._database.close()
        await self._lag_database.close()

    async def _rows(self, last: Key | None) -> _Rows:
        connection = await self._database.connection()
        with failures("reading rows"):
            async with connection.cursor() as cursor:
                # A statement that was prepared would fail when the table has got another column.
                await cursor.execute(self._select(last, limit=self._settings.batch_size), last, prepare=False)
                columns, result = cursor.description, cursor.pgresult
                if columns is None or result is None:
                    raise AssertionError("a query has rows")
        found = _Rows(await self._types(columns, result), text_rows(columns, result))
        self._check_last(found)
        return found

    async def _types(self, columns: Sequence[Column], result: PGresult) -> dict[str, int]:
        """Return the type of each column. The server names the type below a domain, and changes have the domain."""
        origins = tuple((result.ftable(at), result.ftablecol(at), one.type_code) for at, one in enumerate(columns))
        if origins != self._origins:
            tables, numbers, types = zip(*origins, strict=True)
            domains = await self._database.rows(
                "reading the types of columns", _DOMAINS, (list(tables), list(numbers), list(types))
            )
            self._origins, self._oids = origins, [row["oid"] for row in domains]
        return {one.name: oid for one, oid in zip(columns, self._oids, strict=True)}

    def _check_last(self, found: _Rows) -> None:
        """Refuse a row that would hide all that follow if its cursor were the position."""
        name = self._settings.cursor_column
        last = found.rows[-1].get(name) if found.rows and name is not None else None
        if last is not None and is_last_of_all(last, found.types[name or ""]):
            raise ConnectorError(
                f"a row of {self._settings.table} has {last} in {name}, and no row comes after it: correct the row, or "
                "leave it out with query"
            )

    def _select(self, last: Key | None, *, limit: int) -> sql.Composed:
        columns = sql.SQL(", ").join(map(sql.Identifier, self._key_columns))
        version = sql.SQL(", xmin::text AS {}").format(sql.Identifier(_ROW_VERSION))
        return sql.SQL("SELECT *{} FROM {} WHERE {} ORDER BY {} LIMIT {}").format(
            version if self._has_versions else sql.SQL(""),
            self._source,
            self._condition(last),
            columns,
            sql.Literal(limit),
        )

    @property
    def _source(self) -> sql.Composable:
        """The table, or the query."""
        query = self._settings.query
        return self._table if query is None else sql.SQL("({}) AS rows").format(sql.SQL(query))

    def _condition(self, last: Key | None) -> sql.Composable:
        """Return the condition of the rows after others; the values of `last` are its parameters."""
        if self._settings.processed_column is not None:
            return sql.SQL("{} IS NOT TRUE").format(sql.Identifier(self._settings.processed_column))
        if self._settings.cursor_column is None:
            return sql.SQL("TRUE")
        # NULL is the last one in the order, and nothing comes after it: as a position it would hide all rows.
        is_set = sql.SQL("{} IS NOT NULL").format(sql.Identifier(self._settings.cursor_column))
        if last is None:
            return is_set
        columns = sql.SQL(", ").join(map(sql.Identifier, self._key_columns))
        values = sql.SQL(", ").join([sql.Placeholder()] * len(last))
        return sql.SQL("{} AND ({}) > ({})").format(is_set, columns, values)

    @property
    def _key_columns(self) -> tuple[str, ...]:
        """Columns that order the rows: with a cursor, its value and then the key, as several rows may have the same."""
        cursor, key = self._settings.cursor_column, self._settings.primary_key
        return key if cursor is None else (cursor, *(name for name in key if name != cursor))

    def _key(self, row: Mapping[str, str | None]) -> Key:
        try:
            key = [row[name] for name in self._key_columns]
        except KeyError as error:
            raise ConnectorError(f"rows have no column {error}: correct primary_key, cursor_column or query") from error
        missing = [name for name, value in zip(self._key_columns, key, strict=True) if value is None]
        if missing:
            # Neither a position nor a condition finds such a row: it would be lost, or read for ever.
            raise ConnectorError(
                f"a row of {self._settings.table} has NULL in {', '.join(missing)} of primary_key: set primary_key to "
                "columns that are never NULL, or leave such rows out with query"
            )
        return key

    def _records(
        self, types: Mapping[str, int], rows: Sequence[Mapping[str, str | None]], keys: Sequence[Key]
    ) -> list[Record]:
        table = self._settings.table
        return [
            Record(
                {name: None if text is None else of_oid(text, types[name]) for name, text in row.items()},
                id=stable_id(table, *key),
                table=table,
            )
            for row, key in zip(rows, keys, strict=True)
        ]

    async def _mark(self) -> None:
        """Delete or mark the rows that are stored. One that was changed since it was read is another row, and stays."""
        if not self._unmarked:
            return
        count = len(self._settings.primary_key)
        for has_version in (False, True):
            # Rows of a state of an older release, and those of a view, have no versions.
            rows = [row for row in self._unmarked if (len(row) > count) is has_version]
            if rows:
                await self._mark_those(rows, has_version=has_version)
        self._unmarked = []

    async def _mark_those(self, rows: Sequence[Key], *, has_version: bool) -> None:
        settings = self._settings
        conditions = [
            sql.SQL("{} = {}").format(sql.Identifier(name), sql.Placeholder()) for name in settings.primary_key
        ]
        if has_version:
            conditions.append(sql.SQL("xmin::text = {}").format(sql.Placeholder()))
        condition = sql.SQL(" AND ").join(conditions)
        if settings.delete_after_read:
            statement = sql.SQL("DELETE FROM {} WHERE {}").format(self._table, condition)
        else:
            column = sql.Identifier(settings.processed_column or "")
            statement = sql.SQL("UPDATE {} SET {} = TRUE WHERE {}").format(self._table, column, condition)
        connection = await self._database.connection()
        with failures("deleting rows" if settings.delete_after_read else "marking rows"):
            async with connection.transaction(), connection.cursor() as cursor:
                await cursor.executemany(statement, rows)
