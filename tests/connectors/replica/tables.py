"""Random tables, their copies, and transactions that change them."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any, Final, Self

import psycopg
from psycopg import sql

from tests.connectors.standalone.changes import MARKER

_KEYS: Final = ("int", "text", "numeric(6, 2)", "bigint")
_TYPES: Final = ("int", "text", "numeric(12, 3)", "bytea", "timestamptz", "int[]", "float8", "bool")
_NAMES: Final = ("id", "select", "50 %", "naïve Ü", 'a "quoted" name', "{braces}", "MixedCase", "%s", "it's")
_LARGE: Final = "repeat(md5({}::text), 300)"
_RANGE: Final = 12
"""Keys are taken from a small range, so that they meet."""


def _name(name: str) -> sql.Identifier:
    return sql.Identifier(name)


@dataclass
class Table:
    """A table and its copy."""

    name: str
    keys: list[tuple[str, str]]
    """Name and type of each column of the key."""
    columns: list[tuple[str, str]]
    large: str | None
    """Column whose values are kept outside of the row."""
    is_deferrable: bool
    """True: keys are checked at the end of a statement or transaction. Such a table logs whole rows."""
    is_full: bool
    is_like: bool
    """True: the copy is made with LIKE ... INCLUDING ALL."""
    computed: list[str] = field(default_factory=list)
    """Definitions of columns that the server computes."""
    parent: Table | None = None
    added_count: int = 0

    @classmethod
    def drawn(cls, draw: random.Random, number: int, others: list[Table], *, is_exact: bool) -> Self:
        """Draw a table.

        Args:
            draw: Decides everything.
            number: Number of the table.
            others: Tables before it, which it may refer to.
            is_exact: False: changes may come again, which moves that lack values do not bear.
        """
        names = draw.sample(_NAMES, 6)
        keys = [(names[n], draw.choice(_KEYS)) for n in range(draw.choice((1, 1, 2, 3)))]
        columns = [(names[3 + n], draw.choice(_TYPES)) for n in range(draw.choice((0, 1, 2, 3)))]
        is_deferrable = draw.random() < 0.4
        computed = draw.sample(
            ["gen int GENERATED ALWAYS AS (1 + 1) STORED", "seq int GENERATED ALWAYS AS IDENTITY", "ser serial"],
            draw.choice((0, 0, 1, 2)),
        )
        is_full = is_deferrable or draw.random() < 0.3
        return cls(
            f"{draw.choice(('t', 'Table', 't %', 'tä'))} {number}",
            keys,
            columns,
            "large" if draw.random() < 0.3 and (is_exact or is_full) else None,
            is_deferrable,
            is_full,
            draw.random() < 0.5,
            computed,
            # Foreign keys refer to keys that are checked at once.
            next((one for one in others if not one.is_deferrable and draw.random() < 0.5), None),
        )

    def create(self, database: psycopg.Connection[Any], schema: str) -> None:
        """Create it, or its copy."""
        name = sql.Identifier(schema, self.name)
        if schema == "copy" and self.is_like:
            # All but foreign keys.
            database.execute(
                sql.SQL("CREATE TABLE {} (LIKE {} INCLUDING ALL)").format(name, sql.Identifier("public", self.name))
            )
            for key in self._foreign(schema)[-1:]:
                database.execute(sql.SQL("ALTER TABLE {} ADD {}").format(name, key))
        else:
            defer = sql.SQL(" DEFERRABLE" if self.is_deferrable and schema == "public" else "")
            parts = [
                *(sql.SQL("{} {}").format(_name(column), sql.SQL(kind)) for column, kind in self.keys + self.columns),
                *map(sql.SQL, self.computed),
                sql.SQL("PRIMARY KEY ({}){}").format(self._key(), defer),
                *self._foreign(schema),
            ]
            if self.large is not None:
                parts.append(sql.SQL("large text"))
            database.execute(sql.SQL("CREATE TABLE {} ({})").format(name, sql.SQL(", ").join(parts)))
        if schema == "public" and self.large is not None:
            database.execute(sql.SQL("ALTER TABLE {} ALTER large SET STORAGE EXTERNAL").format(name))
        if schema == "public" and self.is_full:
            database.execute(sql.SQL("ALTER TABLE {} REPLICA IDENTITY FULL").format(name))

    def _foreign(self, schema: str) -> list[sql.Composed]:
        if self.parent is None:
            return []
        columns = [sql.SQL("{} {}").format(_name(f"up {name}"), sql.SQL(kind)) for name, kind in self.parent.keys]
        key = sql.SQL("FOREIGN KEY ({}) REFERENCES {} ON DELETE CASCADE ON UPDATE CASCADE").format(
            sql.SQL(", ").join(_name(f"up {name}") for name, _ in self.parent.keys),
            sql.Identifier(schema, self.parent.name),
        )
        return [*columns, key]

    def _key(self) -> sql.Composed:
        return sql.SQL(", ").join(_name(column) for column, _ in self.keys)

    def rows(self, database: psycopg.Connection[Any], schema: str) -> list[tuple[Any, ...]]:
        """Return all rows, as text, by the names of their columns."""
        found = database.execute(
            sql.SQL("SELECT to_jsonb(x)::text FROM {} x ORDER BY 1").format(sql.Identifier(schema, self.name))
        )
        return found.fetchall()

    # ---- statements

    def statement(self, draw: random.Random) -> sql.Composed:
        """Draw a statement that changes it."""
        kind = draw.choices(
            ("insert", "update", "touch", "move", "swap", "delete", "truncate", "refer"),
            (30, 12, 8, 20, 8, 12, 1, 5),
        )[0]
        return getattr(self, f"_{kind}")(draw)  # type: ignore[no-any-return]

    def _public(self) -> sql.Identifier:
        return sql.Identifier("public", self.name)

    def _insert(self, draw: random.Random) -> sql.Composed:
        size = draw.choice((1, 1, 3, 8))
        names = [column for column, _ in self.keys + self.columns] + (["large"] if self.large else [])
        rows = []
        for _ in range(size):
            values: list[sql.Composable] = [_key_value(kind, draw.randrange(_RANGE)) for _, kind in self.keys]
            values += [_value(draw, kind) for _, kind in self.columns]
            if self.large:
                values.append(sql.SQL(_LARGE.format(draw.randrange(5))))
            rows.append(sql.SQL("({})").format(sql.SQL(", ").join(values)))
        conflict = sql.SQL("" if self.is_deferrable else " ON CONFLICT DO NOTHING")
        return sql.SQL("INSERT INTO {} ({}) VALUES {}{}").format(
            self._public(), sql.SQL(", ").join(map(_name, names)), sql.SQL(", ").join(rows), conflict
        )

    def _where(self, draw: random.Random) -> sql.Composed:
        column, kind = draw.choice(self.keys)
        first = draw.randrange(_RANGE)
        chosen = [_key_value(kind, number) for number in range(first, first + draw.choice((1, 2, 4, 12)))]
        return sql.SQL("{} IN ({})").format(_name(column), sql.SQL(", ").join(chosen))

    def _update(self, draw: random.Random) -> sql.Composed:
        if not self.columns:
            return self._touch(draw)
        column, kind = draw.choice(self.columns)
        return sql.SQL("UPDATE {} SET {} = {} WHERE {}").format(
            self._public(), _name(column), _value(draw, kind), self._where(draw)
        )

    def _touch(self, draw: random.Random) -> sql.Composed:
        changed = sql.SQL("{} = {}").format(*[_name(self.keys[0][0])] * 2)
        if self.large and draw.random() < 0.5:
            changed = sql.SQL("large = {}").format(sql.SQL(_LARGE.format(draw.randrange(5))))
        elif any(one.startswith("seq ") for one in self.computed):
            changed = sql.SQL("seq = DEFAULT").format()
        return sql.SQL("UPDATE {} SET {} WHERE {}").format(self._public(), changed, self._where(draw))

    def _move(self, draw: random.Random) -> sql.Composed:
        column, kind = draw.choice(self.keys)
        name, step = _name(column), draw.choice((-2, -1, 1, 1, 2, 5))
        forms = {
            "cycle": f"({{name}}::numeric::int + {step + _RANGE}) % {_RANGE}",
            "shift": f"{{name}}::numeric::int + {step}",
            "mirror": f"{_RANGE} - {{name}}::numeric::int",
        }
        form = sql.SQL(draw.choice(list(forms.values()))).format(name=name)
        return sql.SQL("UPDATE {} SET {} = ({})::{} WHERE {}").format(
            self._public(), name, form, sql.SQL(kind), self._where(draw) if draw.random() < 0.5 else sql.SQL("true")
        )

    def _swap(self, draw: random.Random) -> sql.Composed:
        column, kind = draw.choice(self.keys)
        name, pair = _name(column), draw.sample(range(_RANGE), 2)
        one, other = (_key_value(kind, number) for number in pair)
        return sql.SQL("UPDATE {} SET {} = CASE {} WHEN {} THEN {} ELSE {} END WHERE {} IN ({}, {})").format(
            self._public(), name, name, one, other, one, name, one, other
        )

    def _delete(self, draw: random.Random) -> sql.Composed:
        return sql.SQL("DELETE FROM {} WHERE {}").format(self._public(), self._where(draw))

    def _truncate(self, draw: random.Random) -> sql.Composed:
        del draw
        return sql.SQL("TRUNCATE {} CASCADE").format(self._public())

    def _refer(self, draw: random.Random) -> sql.Composed:
        if self.parent is None:
            return self._update(draw)
        names = [column for column, _ in self.parent.keys]
        return sql.SQL("UPDATE {} SET ({}) = (SELECT {} FROM {} ORDER BY random() LIMIT 1) WHERE {}").format(
            self._public(),
            sql.SQL(", ").join(_name(f"up {column}") for column in names),
            sql.SQL(", ").join(map(_name, names)),
            sql.Identifier("public", self.parent.name),
            self._where(draw),
        )

    def grow(self, draw: random.Random, database: psycopg.Connection[Any]) -> None:
        """Add a column to the copy, and then to the table."""
        self.added_count += 1
        name, kind = f"added {self.added_count}", draw.choice(_TYPES)
        with database.transaction():
            for schema in ("copy", "public"):
                database.execute(
                    sql.SQL("ALTER TABLE {} ADD {} {}").format(
                        sql.Identifier(schema, self.name), _name(name), sql.SQL(kind)
                    )
                )
        self.columns.append((name, kind))

    def shrink(self, draw: random.Random, database: psycopg.Connection[Any]) -> None:
        """Drop a column of both; the copy has all changes."""
        if not self.columns:
            return
        dropped = draw.choice(self.columns)
        with database.transaction():
            for schema in ("public", "copy"):
                database.execute(
                    sql.SQL("ALTER TABLE {} DROP {}").format(sql.Identifier(schema, self.name), _name(dropped[0]))
                )
        self.columns.remove(dropped)


def _key_value(kind: str, number: int) -> sql.Composed:
    return sql.SQL("{}::{}").format(sql.Literal(str(number)), sql.SQL(kind))


def _value(draw: random.Random, kind: str) -> sql.Composable:
    number = draw.randrange(6)
    if number == 0:
        return sql.SQL("NULL")
    text = {
        "int": str(number),
        "text": f"text {number} 'ä' \\ %",
        "numeric(12, 3)": f"{number}.{number}",
        "bytea": f"\\x00ff0{number}",
        "timestamptz": f"2026-03-0{number} 01:02:03.4+02",
        "int[]": f"{{{number},NULL}}",
        "float8": f"0.{number}1",
        "bool": "true" if number % 2 else "false",
    }[kind]
    return sql.SQL("{}::{}").format(sql.Literal(text), sql.SQL(kind))


def transaction(draw: random.Random, database: psycopg.Connection[Any], tables: list[Table]) -> None:
    """Commit a transaction, or roll it back if its rows do not fit together at its end."""
    try:
        with database.transaction():
            if draw.random() < 0.5:
                database.execute("SET CONSTRAINTS ALL DEFERRED")
            for _ in range(draw.choice((1, 1, 2, 4, 8))):
                try:
                    with database.transaction():
                        database.execute(draw.choice(tables).statement(draw))
                except (psycopg.IntegrityError, psycopg.errors.ObjectInUse, psycopg.errors.LockNotAvailable):
                    # The statement alone is undone; keys that are deferred are checked at the end.
                    continue
    except psycopg.IntegrityError:
        return


def mark(database: psycopg.Connection[Any]) -> None:
    """Commit the change that follows all others."""
    database.execute(sql.SQL("INSERT INTO {} DEFAULT VALUES").format(sql.Identifier(*MARKER.split("."))))
