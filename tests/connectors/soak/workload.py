"""Changes of the tables of a shop, the same for the same seed, whatever is killed meanwhile."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import Any

import psycopg

TABLES = [f"t{number:02}" for number in range(20)]
LAST_ID = -1
"""Key of the last row of each table."""
_RETRY_SECONDS = 0.1
_MOVED = 1_000_000_000
_FIRST = 5_000_000_000_000
"""Key before those of rows that exist at the start."""

_TABLE = """CREATE TABLE {} (
    id bigint PRIMARY KEY, n int NOT NULL, note text, at timestamptz NOT NULL DEFAULT '2026-01-01Z', body text NOT NULL
)"""


def create_tables(database: psycopg.Connection[Any], *, is_source: bool) -> None:
    """Create the tables, and at the source the row that counts what is committed."""
    for table in TABLES:
        database.execute(_TABLE.format(table))
        # Large values are kept outside of the rows, and are not in changes that leave them alone.
        database.execute(f"ALTER TABLE {table} ALTER COLUMN body SET STORAGE EXTERNAL")
    if is_source:
        database.execute("CREATE TABLE progress (transactions int NOT NULL, changes int NOT NULL)")
        database.execute("INSERT INTO progress VALUES (0, 0)")


def insert_first_rows(database: psycopg.Connection[Any], count: int) -> None:
    """Insert rows that exist before the source starts."""
    each = count // len(TABLES) + 1
    for table in TABLES:
        database.execute(
            f"INSERT INTO {table} (id, n, note, body) SELECT {_FIRST} + n, n, 'first', '' "
            "FROM generate_series(1, %s::int) n",
            (each,),
        )


class Workload(threading.Thread):
    """Commits transactions until a number of changes is reached, and then one with the last row of each table.

    Args:
        url: Address of the database.
        seed: Decides everything.
        changes_count: Number of changes.
        transaction_max: Number of rows of the largest statements.
    """

    def __init__(self, url: str, seed: int, changes_count: int, transaction_max: int) -> None:
        super().__init__(daemon=True)
        self._url = url
        self._seed = seed
        self._goal = changes_count
        self._max = transaction_max
        self._allowed = threading.Condition()
        self._limit = 0
        self._is_stopped = False
        self.changes_count = 0
        """Number of changes that are committed."""
        self.transactions_count = 0

    def allow(self, limit: int) -> None:
        """Let it go on up to a number of changes."""
        with self._allowed:
            self._limit = limit
            self._allowed.notify_all()

    def stop(self) -> None:
        """Ask it to end."""
        with self._allowed:
            self._is_stopped = True
            self._allowed.notify_all()

    def run(self) -> None:
        """Commit transactions."""
        while not self._is_stopped:
            try:
                with psycopg.connect(self._url, autocommit=True, connect_timeout=10) as database:
                    while not self._is_stopped:
                        if self._step(database):
                            return
            except psycopg.OperationalError:
                # Killed: what was committed is in the table.
                threading.Event().wait(_RETRY_SECONDS)

    def _step(self, database: psycopg.Connection[Any]) -> bool:
        with self._allowed:
            self._allowed.wait_for(lambda: self._is_stopped or self.changes_count < self._limit)
        row = database.execute("SELECT transactions, changes FROM progress").fetchone()
        assert row is not None
        self.transactions_count, self.changes_count = row
        last = database.execute(f"SELECT 1 FROM {TABLES[0]} WHERE id = {LAST_ID}").fetchone()
        if last is not None or self._is_stopped:
            return True
        if self.changes_count >= self._goal:
            self._commit(database, self._end)
            return False
        draw = random.Random(f"{self._seed}/{self.transactions_count}")
        self._commit(database, lambda connection: self._transaction(connection, draw))
        return False

    def _commit(self, database: psycopg.Connection[Any], change: Callable[[psycopg.Connection[Any]], int]) -> None:
        with database.transaction():
            count = change(database)
            database.execute("UPDATE progress SET transactions = transactions + 1, changes = changes + %s", (count,))
        self.changes_count += count

    def _end(self, database: psycopg.Connection[Any]) -> int:
        for table in TABLES:
            database.execute(f"INSERT INTO {table} (id, n, body) VALUES ({LAST_ID}, 0, '')")
        return len(TABLES)

    def _transaction(self, database: psycopg.Connection[Any], draw: random.Random) -> int:
        count = 0
        for _ in range(draw.choice((1, 1, 1, 2, 4))):
            count += self._statement(database, draw, draw.choice(TABLES))
        return count

    def _statement(self, database: psycopg.Connection[Any], draw: random.Random, table: str) -> int:
        size = draw.choice((1, 1, 10, self._max // 4, self._max))
        kind = draw.choices(("insert", "update", "delete", "move", "truncate"), (40, 35, 12, 12, 0.3))[0]
        if kind == "truncate":
            database.execute(f"TRUNCATE {table}")
            return 1
        if kind == "insert":
            first = self.transactions_count * 4000 + draw.randrange(4) * 1000
            body = draw.choice(("", "", "x" * 200)) if size > 1 else draw.choice(("", "x" * 4000))
            return database.execute(
                f"INSERT INTO {table} (id, n, note, body) SELECT %s::bigint + n, n, 'note ' || n, %s "
                "FROM generate_series(1, %s::int) n ON CONFLICT DO NOTHING",
                (first, body, size),
            ).rowcount
        chosen = f"(SELECT id FROM {table} WHERE id >= %s::bigint ORDER BY id LIMIT %s::int)"
        start = draw.randrange(max(1, self.transactions_count * 4000))
        changed = {
            "update": f"UPDATE {table} SET n = n + 1, note = NULLIF(note, 'note 7') WHERE id IN {chosen}",
            "delete": f"DELETE FROM {table} WHERE id IN {chosen}",
            "move": f"UPDATE {table} SET id = id + {_MOVED} WHERE id IN {chosen}",
        }[kind]
        return database.execute(changed, (start, size)).rowcount
