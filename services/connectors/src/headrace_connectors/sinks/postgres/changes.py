"""Changes of tables, done to other tables: the mode `apply_changes`.

Changes may come again after a crash of the source. A source that goes back to an earlier change, and on from there,
leads to the same rows, unless a key changes in a change without all values: the row that has the old key by then may be
another one.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import psycopg
from psycopg import AsyncCursor, sql
from psycopg.rows import DictRow

from headrace_connectors.contract import ConnectorError, InvalidRecord, Place, Received, Unavailable
from headrace_connectors.postgresql.connection import Connection
from headrace_connectors.postgresql.tables import Name, TableName
from headrace_connectors.sinks.postgres.copies import Copy, copy_of
from headrace_connectors.sinks.postgres.keys import has_many_texts, one_text_of_each
from headrace_connectors.sinks.postgres.moves import Key, Moves, Row, Spot
from headrace_connectors.sinks.postgres.values import bound
from headrace_connectors.sinks.postgres.writers import upsert

_log = logging.getLogger(__name__)

_KEYS_MAX: Final = 1000
"""Number of keys that one query looks for; a statement has 65,535 parameters at most."""
_OPERATIONS: Final = ("snapshot", "insert", "update", "delete", "truncate")


class Statement(NamedTuple):
    """A statement with its parameters."""

    text: sql.Composed
    parameters: tuple[str | None, ...]
    finds_missing: bool = False
    """True: it changes nothing, and returns a row if the one of the change is missing."""


class Change(NamedTuple):
    """A change of a table of the copy."""

    target: _Target
    operation: str
    old_key: Key
    key: Key
    values: Row
    """Values after it, with those before it that are known and did not change."""
    before: Row | None
    """Values before it, as far as the change has them."""

    @property
    def has_whole_move(self) -> bool:
        """True if the key changes, and all values before that are known.

        Where they are not, the key is one that PostgreSQL checks at once, and the new one is free.
        """
        return self.old_key != self.key and self.before is not None and self.before.keys() >= self.values.keys()


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
        self._moves: dict[Place, Moves] = {}
        # Changes of it by the statements that were prepared last.
        self._drafts: dict[Place, Moves] = {}

    async def open(self, connection: Connection) -> None:
        """Look at the tables that are named. Raises as `copy_of`."""
        self._targets.clear()
        for table in self._tables.values():
            target = await self._target(connection, table)
            if target.has_foreign_keys:
                async with connection.transaction():
                    await _replicate(connection)

    def restore(self, place: Place, stored: Any) -> None:
        """Take up what was stored with the offset of a partition."""
        self._moves[place] = Moves.restored(stored)

    def stored(self, place: Place) -> Any:
        """Return what is to be stored with the offset of a partition; None: nothing."""
        return self._moves[place].stored()

    async def prepared(self, connection: Connection, messages: Sequence[tuple[int, Received]]) -> list[Statement]:
        """Return statements."""
        changes: list[tuple[Change, Received]] = []
        # Tables whose columns were looked at for these messages: fields may be ignored in all of them.
        looked_at: set[str] = set()
        for index, message in messages:
            try:
                change = await self._change(connection, message.record.payload, looked_at)
            except InvalidRecord as error:
                raise InvalidRecord(str(error), index=index) from error
            if change is not None:
                changes.append((change, message))
        if any(change.target.has_foreign_keys for change, _ in changes):
            await _replicate(connection)
        changes = await self._identified(connection, changes)
        occupied = await self._occupied(connection, [change for change, _ in changes])
        self._drafts = {}
        found: list[Statement] = []
        for change, message in changes:
            moves = self._drafts.get(message.place)
            if moves is None:
                known = self._moves.get(message.place)
                moves = self._drafts[message.place] = Moves() if known is None else known.draft()
            payload = message.record.payload
            transaction = None if payload.get("lsn") is None else [payload["lsn"], payload.get("xid")]
            if transaction != moves.transaction:
                # No row waits at the end of a transaction, unless its changes come again: then this is the newer one.
                for (table, key), rows in moves.waiting.items():
                    occupied[table, key] = True
                    target = self._targets.get(table) or await self._target(connection, table)
                    found += [one for row in rows for one in target.put(row)]
                is_whole = moves.transaction is not None or moves.remembers
                moves = self._drafts[message.place] = Moves(transaction, remembers=is_whole)
            if transaction is None:
                # The next transaction begins after this row of a snapshot.
                moves.remembers = True
            if not moves.is_repeated(message.record.id, message.offset):
                found += change.target.statements(change, moves, occupied)
        return found

    async def _change(self, connection: Connection, payload: Any, looked_at: set[str]) -> Change | None:
        operation, source = _operation(payload)
        table = self._tables.get(source) if self._tables else source
        if table is None:
            if self._ignores_unknown:
                return None
            raise InvalidRecord(f"settings.tables does not name {source}: add it, or set ignore_unknown")
        row, old = payload.get("row"), payload.get("old")
        target = self._targets.get(table)
        if target is None or (target.lacks_columns_of(row) and not (self._ignores_unknown and table in looked_at)):
            # A column may have been added since.
            target = await self._target(connection, table)
            looked_at.add(table)
        return target.change(operation, row, old)

    async def _identified(
        self, connection: Connection, changes: list[tuple[Change, Received]]
    ) -> list[tuple[Change, Received]]:
        """Return the changes with one text for each key: a row whose key gets another text of its value stays there."""
        targets = {one.target.name: one.target for one, _ in changes if one.target.has_many_texts}
        if not targets:
            return changes
        waiting = [spot for moves in self._moves.values() for spot in moves.waiting]
        moving = {table for table, _ in waiting} | {one.target.name for one, _ in changes if one.old_key != one.key}
        for name in moving & targets.keys():
            own = [one for one, _ in changes if one.target.name == name and one.operation != "truncate"]
            keys = [key for table, key in waiting if table == name]
            keys += [one.old_key for one in own] + [one.key for one in own]
            texts = await targets[name].one_text_of_each(connection, keys)
            changes = [
                (one._replace(old_key=texts[one.old_key], key=texts[one.key]), message)
                if one.target.name == name and one.operation != "truncate"
                else (one, message)
                for one, message in changes
            ]
        return changes

    async def _occupied(self, connection: Connection, changes: Sequence[Change]) -> dict[Spot, bool]:
        """Return whether the keys are taken that rows move to."""
        wanted: dict[_Target, dict[Key, None]] = {}
        for change in changes:
            if change.has_whole_move:
                wanted.setdefault(change.target, {})[change.key] = None
        found: dict[Spot, bool] = {}
        for target, keys in wanted.items():
            all_keys = list(keys)
            for first in range(0, len(all_keys), _KEYS_MAX):
                part = all_keys[first : first + _KEYS_MAX]
                taken = await target.taken(connection, part)
                found |= {target.spot(key): key in taken for key in part}
        return found

    async def _target(self, connection: Connection, table: str) -> _Target:
        try:
            name = TableName.parse(table)
        except ValueError as error:
            raise InvalidRecord(str(error)) from error
        copy = await copy_of(connection, name, self._key_columns)
        found = self._targets[table] = _Target(name, copy, ignores_unknown=self._ignores_unknown)
        return found

    async def execute(self, connection: Connection, prepared: Sequence[Statement]) -> None:
        """Execute all statements in their order, without waiting for each.

        Raises:
            Unavailable: A column was dropped since the tables were looked at.
            psycopg.Error: Another failure.
        """
        try:
            await self._execute(connection, prepared)
        except psycopg.errors.UndefinedColumn as error:
            self._targets.clear()
            raise Unavailable(f"{self.what}: {' '.join(str(error).split())}; looking at the columns again") from error

    async def _execute(self, connection: Connection, prepared: Sequence[Statement]) -> None:
        searches: list[AsyncCursor[DictRow]] = []
        async with connection.pipeline(), connection.cursor() as cursor:
            for statement in prepared:
                if not statement.finds_missing:
                    await cursor.execute(statement.text, statement.parameters)
                    continue
                # A cursor keeps the result of its last statement alone.
                searches.append(connection.cursor())
                await searches[-1].execute(statement.text, statement.parameters)
        self._moves |= {place: moves.adopt() for place, moves in self._drafts.items()}
        count = sum([await one.fetchone() is not None for one in searches])
        if count:
            _log.warning(
                "%d updates of %s are left out: they lack large values that did not change, and there is no such row",
                count,
                self.what,
            )


class _Target:
    """One table."""

    def __init__(self, table: TableName, copy: Copy, *, ignores_unknown: bool) -> None:
        self._table = table
        self.name = f"{table.schema}.{table.name}"
        self._types = copy.types
        self._kinds = copy.kinds
        self._keys = copy.keys
        self._copy = copy
        self.has_foreign_keys = copy.has_foreign_keys
        self.has_many_texts = any(has_many_texts(copy.kinds[name], copy.collations[name]) for name in copy.keys)
        """True if keys may be equal and have several texts."""
        self._whole = copy.types.keys() - copy.generated
        self._ignores_unknown = ignores_unknown
        self._upserts: dict[tuple[str, ...], sql.Composed] = {}

    def lacks_columns_of(self, row: Any) -> bool:
        """Return True if a row has fields that are no columns."""
        return isinstance(row, dict) and not row.keys() <= self._types.keys()

    def spot(self, key: Key) -> Spot:
        """Return a key of this table."""
        return self.name, key

    async def one_text_of_each(self, connection: Connection, keys: Sequence[Key]) -> Mapping[Key, Key]:
        """Return for each key the first one that is equal to it."""
        types, collations = self._copy.types, self._copy.collations
        return await one_text_of_each(
            connection, [types[name] for name in self._keys], [collations[name] for name in self._keys], keys
        )

    async def taken(self, connection: Connection, keys: Sequence[Key]) -> set[Key]:
        """Return those keys that rows have."""
        one = sql.SQL(", ").join(self._cast(name) for name in self._keys)
        values = sql.SQL(", ").join(sql.SQL("({}, {})").format(sql.Literal(number), one) for number in range(len(keys)))
        names = [sql.Identifier(f"k{number}") for number in range(len(self._keys))]
        same = [sql.SQL("{} = {}").format(Name(name), k) for name, k in zip(self._keys, names, strict=True)]
        text = sql.SQL("SELECT n FROM (VALUES {}) AS wanted (n, {}) WHERE EXISTS (SELECT FROM {} WHERE {})").format(
            values, sql.SQL(", ").join(names), self._table.in_statement, sql.SQL(" AND ").join(same)
        )
        cursor = await connection.execute(text, [value for key in keys for value in key])
        return {keys[row["n"]] for row in await cursor.fetchall()}

    def change(self, operation: str, row: Any, old: Any) -> Change:
        """Return what a change says.

        Raises:
            InvalidRecord: It does not say which row it is about, or does not fit the table.
        """
        if operation == "truncate":
            return Change(self, operation, (), (), {}, None)
        if operation == "delete":
            before = self._row(old)
            key = self._key_of(before, "old")
            return Change(self, operation, key, key, {}, before)
        values = self._row(row)
        key = self._key_of(values, "row")
        if operation != "update" or old is None:
            return Change(self, operation, key, key, values, None)
        before = self._row(old)
        old_key = tuple(before.get(name, value) for name, value in zip(self._keys, key, strict=True))
        # Large values that did not change are missing; a complete old row has them.
        return Change(self, operation, old_key, key, {**before, **values}, before)

    def statements(self, change: Change, moves: Moves, occupied: dict[Spot, bool]) -> Iterator[Statement]:
        """Return the statements of a change.

        Args:
            change: The change.
            moves: What is known of its transaction.
            occupied: True for keys that are taken, those that whole rows move to at least.
        """
        spot = self.spot(change.key)
        if change.operation == "truncate":
            moves.truncate(self.name)
            occupied |= {key: False for key in occupied if key[0] == self.name}
            # Readers of the table keep what they see, and foreign keys are kept.
            yield self._statement("DELETE FROM {table}", ())
        elif change.operation == "delete":
            if not self._is_elsewhere(change, moves):
                yield self._statement("DELETE FROM {table} WHERE {keys}", change.key)
                yield from self._succeeded(spot, moves, occupied)
        elif change.operation != "update":
            if spot in moves.waiting or moves.holds_other(spot, change.values):
                moves.wait(spot, change.values)
                return
            moves.insert(spot, change.values)
            occupied[spot] = True
            yield from self.put(change.values)
        elif change.old_key == change.key:
            yield from self._changed(change, moves)
        elif change.has_whole_move:
            yield from self._moved_wholly(change, moves, occupied)
        else:
            occupied |= {self.spot(change.old_key): False, spot: True}
            # Its whole row is not known, and keys that are checked at once hold up none.
            moves.insert(self.spot(change.old_key), None)
            moves.insert(spot, None)
            yield from self._moved(change)
            yield self._made_up_for(change.key, change.values)

    def _is_elsewhere(self, change: Change, moves: Moves) -> bool:
        """Return True if the row that leaves its key waits for it, or another one was put in its place."""
        spot = self.spot(change.old_key)
        return moves.taken(spot, change.before) is not None or moves.is_of_other(spot, change.before, None)

    def _succeeded(self, spot: Spot, moves: Moves, occupied: dict[Spot, bool]) -> Iterator[Statement]:
        """Put the row into a key that has waited until the one there has left."""
        following = moves.next(spot)
        occupied[spot] = following is not None
        moves.insert(spot, following)
        if following is not None:
            yield from self.put(following)

    def _changed(self, change: Change, moves: Moves) -> Iterator[Statement]:
        spot, values = self.spot(change.key), change.values
        waiting = moves.taken(spot, change.before)
        if waiting is not None:
            moves.wait(spot, {**waiting, **values})
        elif moves.is_of_other(spot, change.before, values):
            return
        elif values.keys() >= self._whole:
            yield from self.put(values)
        else:
            yield self._updated(change.key, values)
            yield self._made_up_for(change.key, values)

    def _moved_wholly(self, change: Change, moves: Moves, occupied: dict[Spot, bool]) -> Iterator[Statement]:
        spot, old_spot = self.spot(change.key), self.spot(change.old_key)
        moves.has_moved = True
        waits = occupied.get(spot, False)
        is_elsewhere = self._is_elsewhere(change, moves)
        if waits:
            moves.wait(spot, change.values)
        else:
            moves.insert(spot, change.values)
        occupied[spot] = True
        if is_elsewhere:
            if not waits:
                yield from self.put(change.values)
            return
        if waits:
            yield self._statement("DELETE FROM {table} WHERE {keys}", change.old_key)
        else:
            yield self._updated(change.old_key, change.values)
            yield self._made_up_for(change.key, change.values)
        yield from self._succeeded(old_spot, moves, occupied)

    def _moved(self, change: Change) -> Iterator[Statement]:
        """Change the key of a row. If the change comes again, the row may be at its new key already."""
        if None not in change.old_key:
            yield self._statement(
                "DELETE FROM {table} WHERE {keys} AND EXISTS (SELECT FROM {table} WHERE {keys})",
                (*change.key, *change.old_key),
            )
            yield self._updated(change.old_key, change.values)

    def _made_up_for(self, key: Key, values: Row) -> Statement:
        """Insert a row that should be there.

        A change that comes again may be of a row that a later one, done already, has deleted. The row cannot be made
        without values that it needs, and is not missed: the deletion comes again, too.
        """
        can_insert = values.keys() >= self._copy.required
        return self._inserted_if_missing(key, values) if can_insert else self._found_missing(key)

    def _updated(self, key: Key, values: Row) -> Statement:
        settable = [name for name in values if name not in self._copy.generated]
        if self._copy.always.intersection(settable):
            return self._rewritten(key, values, settable)
        changed = [
            name
            for name in settable
            if self.has_many_texts or name not in self._keys or values[name] != key[self._keys.index(name)]
        ]
        # A row of a key alone is as it was.
        names = changed or [self._keys[0]]
        assignments = sql.SQL(", ").join(sql.SQL("{} = %s").format(Name(name)) for name in names)
        text = sql.SQL("UPDATE {} SET {} WHERE {}").format(self._table.in_statement, assignments, self._condition())
        return Statement(text, (*(values[name] for name in names), *key))

    def _rewritten(self, key: Key, values: Row, settable: Sequence[str]) -> Statement:
        """Replace a row by a new one: no UPDATE may set columns `GENERATED ALWAYS AS IDENTITY`."""
        kept = [name for name in self._types if name not in values and name not in self._copy.generated]
        text = sql.SQL(
            "WITH gone AS (DELETE FROM {table} WHERE {keys} RETURNING *) INSERT INTO {table} ({names}) "
            "OVERRIDING SYSTEM VALUE SELECT {values} FROM gone"
        ).format(
            table=self._table.in_statement,
            keys=self._condition(),
            names=sql.SQL(", ").join(map(Name, [*settable, *kept])),
            values=sql.SQL(", ").join([*map(self._cast, settable), *(Name("gone", name) for name in kept)]),
        )
        return Statement(text, (*key, *(values[name] for name in settable)))

    def _inserted_if_missing(self, key: Key, values: Row) -> Statement:
        settable = [name for name in values if name not in self._copy.generated]
        columns = sql.SQL(", ").join(map(Name, settable))
        # The types of parameters are those of the columns in VALUES of an INSERT alone.
        casts = sql.SQL(", ").join(map(self._cast, settable))
        text = sql.SQL(
            "INSERT INTO {} ({}) OVERRIDING SYSTEM VALUE SELECT {} WHERE NOT EXISTS (SELECT FROM {} WHERE {})"
        ).format(self._table.in_statement, columns, casts, self._table.in_statement, self._condition())
        return Statement(text, (*(values[name] for name in settable), *key))

    def _found_missing(self, key: Key) -> Statement:
        found = self._statement("SELECT WHERE NOT EXISTS (SELECT FROM {table} WHERE {keys})", key)
        return found._replace(finds_missing=True)

    def put(self, values: Row) -> Iterator[Statement]:
        """Return the statements that insert a row, or replace the one with its key."""
        # A column may have been dropped while the row waited.
        values = {name: value for name, value in values.items() if name in self._types}
        columns = tuple(name for name in values if name not in self._copy.generated)
        kept = () if self.has_many_texts else self._keys
        if not self._copy.has_immediate_key or self._copy.always.intersection(columns).difference(kept):
            key = tuple(values[name] for name in self._keys)
            yield self._updated(key, values)
            yield self._inserted_if_missing(key, values)
            return
        text = self._upserts.get(columns)
        if text is None:
            text = self._upserts[columns] = upsert(
                self._table, columns, self._keys, overrides=True, replaces_keys=self.has_many_texts
            )
        yield Statement(text, tuple(values[name] for name in columns))

    def _statement(self, text: str, parameters: Key) -> Statement:
        composed = sql.SQL(text).format(table=self._table.in_statement, keys=self._condition())
        return Statement(composed, parameters)

    def _cast(self, column: str) -> sql.SQL:
        return sql.SQL(f"CAST(%s AS {self._types[column].replace('%', '%%')})")

    def _condition(self) -> sql.Composed:
        return sql.SQL(" AND ").join(sql.SQL("{} = %s").format(Name(name)) for name in self._keys)

    def _key_of(self, row: Row, field: str) -> Key:
        missing = [name for name in self._keys if row.get(name) is None]
        if missing:
            raise InvalidRecord(
                f"{field} has no value for the key {', '.join(missing)} of {self.name}: set key_columns, or REPLICA "
                "IDENTITY of the table at the source"
            )
        return tuple(row[name] for name in self._keys)

    def _row(self, row: Any) -> Row:
        if not isinstance(row, dict):
            raise InvalidRecord(f"a change of {self.name} has no row")
        unknown = [name for name in row if name not in self._types]
        if unknown and not self._ignores_unknown:
            raise InvalidRecord(f"{', '.join(unknown)}: no columns of {self.name}; add them, or set ignore_unknown")
        return {name: self._text(name, value) for name, value in row.items() if name in self._types}

    def _text(self, column: str, value: Any) -> str | None:
        found = bound(column, self._kinds[column], value)
        if found is None or isinstance(found, str):
            return found
        raise InvalidRecord(
            f"{column} is a {type(value).__name__}, and the column of {self.name} has the type {self._types[column]}"
        )


async def _replicate(connection: Connection) -> None:
    """Leave foreign keys unchecked until the transaction ends, as PostgreSQL's own subscribers do.

    The source has checked them. Here rows of a table may come before those that they refer to.

    Raises:
        ConnectorError: The user may not do that.
    """
    try:
        await connection.execute("SET LOCAL session_replication_role = replica")
    except psycopg.errors.InsufficientPrivilege as error:
        raise ConnectorError(
            "copies have foreign keys, which changes do not keep at each moment, and the user may not leave them "
            "unchecked: GRANT SET ON PARAMETER session_replication_role (PostgreSQL 15), or drop them in the copies"
        ) from error


def _operation(payload: Any) -> tuple[str, str]:
    """Return operation and table of a change."""
    if isinstance(payload, dict):
        operation, table = payload.get("op"), payload.get("table")
        if operation in _OPERATIONS and isinstance(table, str):
            return operation, table
    raise InvalidRecord(
        "the payload is no change of a table: it needs op and table, and row or old, as `postgres_cdc` sends them"
    )
