"""Changes of tables, done to other tables: the mode `apply_changes`.

Changes may come again after a crash of the source. A source that goes back to an earlier change, and on from there,
leads to the same rows, unless a key changes in a change without all values: the row that has the old key by then may be
another one.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from psycopg import AsyncCursor, sql
from psycopg.rows import DictRow

from headrace_connectors.contract import ConnectorError, InvalidRecord
from headrace_connectors.postgresql.connection import Connection
from headrace_connectors.postgresql.tables import Name, TableName
from headrace_connectors.sinks.json_values import json_text
from headrace_connectors.sinks.postgres.writers import Columns, columns_of, upsert

_log = logging.getLogger(__name__)

_JSON: Final = ("json", "jsonb")
_OPERATIONS: Final = ("snapshot", "insert", "update", "delete", "truncate")

Row = dict[str, str | None]
"""Values as text: PostgreSQL reads them as the types of the columns."""


class Statement(NamedTuple):
    """A statement with its parameters."""

    text: sql.Composed
    parameters: tuple[str | None, ...]
    finds_missing: bool = False
    """True: it changes nothing, and returns a row if the one of the change is missing."""


class ChangeWriter:
    """Does to tables what changes say.

    Args:
        tables: Table by the table of the source; empty: the same names.
        key_columns: Columns that identify a row; empty: the primary key of each table.
        ignores_unknown: True: fields that are no columns, and tables that are not named, are left out.
    """

    def __init__(self, tables: Mapping[str, str], key_columns: tuple[str, ...], *, ignores_unknown: bool) -> None:
        self.what = ", ".join(tables.values()) or "the tables of the changes"
        self._tables = tables
        self._key_columns = key_columns
        self._ignores_unknown = ignores_unknown
        self._targets: dict[str, _Target] = {}

    async def open(self, connection: Connection) -> None:
        """Look at the tables that are named. Raises as `columns_of`."""
        self._targets.clear()
        for table in self._tables.values():
            await self._target(connection, table)

    async def prepared(self, connection: Connection, payloads: Sequence[tuple[int, Any]]) -> list[Statement]:
        """Return statements."""
        found: list[Statement] = []
        for index, payload in payloads:
            try:
                operation, source = _operation(payload)
                table = self._tables.get(source) if self._tables else source
                if table is None:
                    if self._ignores_unknown:
                        continue
                    raise InvalidRecord(f"settings.tables does not name {source}: add it, or set ignore_unknown")
                row, old = payload.get("row"), payload.get("old")
                target = self._targets.get(table)
                if target is None or (not self._ignores_unknown and target.lacks_columns_of(row)):
                    # A column may have been added since.
                    target = await self._target(connection, table)
                found += target.statements(operation, row, old)
            except InvalidRecord as error:
                raise InvalidRecord(str(error), index=index) from error
        return found

    async def _target(self, connection: Connection, table: str) -> _Target:
        try:
            name = TableName.parse(table)
        except ValueError as error:
            raise InvalidRecord(str(error)) from error
        columns = await columns_of(connection, table, "settings.tables")
        keys = self._key_columns or columns.primary_key
        if not keys:
            raise ConnectorError(f"{table} has no primary key: add one, or set key_columns")
        missing = sorted(set(keys) - set(columns.types))
        if missing:
            raise ConnectorError(f"{table} has no column {', '.join(missing)}; it has {', '.join(columns.types)}")
        found = self._targets[table] = _Target(name, columns, keys, ignores_unknown=self._ignores_unknown)
        return found

    async def execute(self, connection: Connection, prepared: Sequence[Statement]) -> None:
        """Execute all statements in their order, without waiting for each."""
        searches: list[AsyncCursor[DictRow]] = []
        async with connection.pipeline(), connection.cursor() as cursor:
            for statement in prepared:
                if not statement.finds_missing:
                    await cursor.execute(statement.text, statement.parameters)
                    continue
                # A cursor keeps the result of its last statement alone.
                searches.append(connection.cursor())
                await searches[-1].execute(statement.text, statement.parameters)
        count = sum([await one.fetchone() is not None for one in searches])
        if count:
            _log.warning(
                "%d updates of %s are left out: they lack large values that did not change, and there is no such row",
                count,
                self.what,
            )


class _Target:
    """One table."""

    def __init__(self, table: TableName, columns: Columns, keys: tuple[str, ...], *, ignores_unknown: bool) -> None:
        self._table = table
        self._name = f"{table.schema}.{table.name}"
        self._types = columns.types
        self._required = columns.required
        self._keys = keys
        self._ignores_unknown = ignores_unknown
        self._upserts: dict[tuple[str, ...], sql.Composed] = {}

    def lacks_columns_of(self, row: Any) -> bool:
        """Return True if a row has fields that are no columns."""
        return isinstance(row, dict) and not row.keys() <= self._types.keys()

    def statements(self, operation: str, row: Any, old: Any) -> Iterator[Statement]:
        """Return the statements of a change.

        Raises:
            InvalidRecord: It does not say which row it is about, or does not fit the table.
        """
        if operation == "truncate":
            # Readers of the table keep what they see, and foreign keys are kept.
            yield self._statement("DELETE FROM {table}", ())
            return
        if operation == "delete":
            yield self._statement("DELETE FROM {table} WHERE {keys}", self._key_of(self._row(old), "old"))
            return
        values = self._row(row)
        key = self._key_of(values, "row")
        if operation == "update":
            before = self._row(old) if old is not None else {}
            # Large values that did not change are missing; a complete old row has them.
            values = {**before, **values}
            old_key = tuple(before.get(name, value) for name, value in zip(self._keys, key, strict=True))
            if old_key != key:
                yield from self._moved(old_key, key, values)
            elif not values.keys() >= self._types.keys():
                yield self._updated(key, values)
            else:
                yield self._upsert(values)
                return
            # A change that comes again may be of a row that a later one, done already, has deleted. The row cannot
            # be made without these values, and is not missed: the deletion comes again, too.
            can_insert = values.keys() >= self._required
            yield self._inserted_if_missing(key, values) if can_insert else self._found_missing(key)
            return
        yield self._upsert(values)

    def _moved(self, old: tuple[str | None, ...], new: tuple[str | None, ...], values: Row) -> Iterator[Statement]:
        """Change the key of a row. If the change comes again, the row may be at its new key already."""
        if None not in old:
            yield self._statement(
                "DELETE FROM {table} WHERE {keys} AND EXISTS (SELECT FROM {table} WHERE {keys})", (*new, *old)
            )
            yield self._updated(old, values)

    def _updated(self, key: tuple[str | None, ...], values: Row) -> Statement:
        changed = [name for name in values if name not in self._keys or values[name] != key[self._keys.index(name)]]
        # A row of a key alone is as it was.
        names = changed or [self._keys[0]]
        assignments = sql.SQL(", ").join(sql.SQL("{} = %s").format(Name(name)) for name in names)
        text = sql.SQL("UPDATE {} SET {} WHERE {}").format(self._table.in_statement, assignments, self._condition())
        return Statement(text, (*(values[name] for name in names), *key))

    def _inserted_if_missing(self, key: tuple[str | None, ...], values: Row) -> Statement:
        columns = sql.SQL(", ").join(map(Name, values))
        # The types of parameters are those of the columns in VALUES of an INSERT alone.
        casts = sql.SQL(", ").join(sql.SQL(f"CAST(%s AS {self._types[name].replace('%', '%%')})") for name in values)
        text = sql.SQL("INSERT INTO {} ({}) SELECT {} WHERE NOT EXISTS (SELECT FROM {} WHERE {})").format(
            self._table.in_statement, columns, casts, self._table.in_statement, self._condition()
        )
        return Statement(text, (*values.values(), *key))

    def _found_missing(self, key: tuple[str | None, ...]) -> Statement:
        found = self._statement("SELECT WHERE NOT EXISTS (SELECT FROM {table} WHERE {keys})", key)
        return found._replace(finds_missing=True)

    def _upsert(self, values: Row) -> Statement:
        columns = tuple(values)
        text = self._upserts.get(columns)
        if text is None:
            text = self._upserts[columns] = upsert(self._table, columns, self._keys)
        return Statement(text, tuple(values.values()))

    def _statement(self, text: str, parameters: tuple[str | None, ...]) -> Statement:
        composed = sql.SQL(text).format(table=self._table.in_statement, keys=self._condition())
        return Statement(composed, parameters)

    def _condition(self) -> sql.Composed:
        return sql.SQL(" AND ").join(sql.SQL("{} = %s").format(Name(name)) for name in self._keys)

    def _key_of(self, row: Row, field: str) -> tuple[str | None, ...]:
        missing = [name for name in self._keys if row.get(name) is None]
        if missing:
            raise InvalidRecord(
                f"{field} has no value for the key {', '.join(missing)} of {self._name}: set key_columns, or REPLICA "
                "IDENTITY of the table at the source"
            )
        return tuple(row[name] for name in self._keys)

    def _row(self, row: Any) -> Row:
        if not isinstance(row, dict):
            raise InvalidRecord(f"a change of {self._name} has no row")
        unknown = [name for name in row if name not in self._types]
        if unknown and not self._ignores_unknown:
            raise InvalidRecord(f"{', '.join(unknown)}: no columns of {self._name}; add them, or set ignore_unknown")
        return {name: self._text(name, value) for name, value in row.items() if name in self._types}

    def _text(self, column: str, value: Any) -> str | None:
        if value is None or (isinstance(value, str) and self._types[column] not in _JSON):
            return value
        if self._types[column] in _JSON:
            return json_text(column, value)
        if isinstance(value, bool):
            return "t" if value else "f"
        if isinstance(value, int | float):
            return str(value)
        raise InvalidRecord(
            f"{column} is a {type(value).__name__}, and the column of {self._name} has the type {self._types[column]}"
        )


def _operation(payload: Any) -> tuple[str, str]:
    """Return operation and table of a change."""
    if isinstance(payload, dict):
        operation, table = payload.get("op"), payload.get("table")
        if operation in _OPERATIONS and isinstance(table, str):
            return operation, table
    raise InvalidRecord(
        "the payload is no change of a table: it needs op and table, and row or old, as `postgres_cdc` sends them"
    )
