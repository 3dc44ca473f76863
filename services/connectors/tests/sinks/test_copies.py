"""CON-15: a copy has the rows of its source, whatever the tables and the transactions are."""

from __future__ import annotations

import pytest
from tests.connectors.standalone.changes import cdc_sources, polled
from tests.connectors.standalone.received import PLACE

from headrace_connectors.contract import Received
from headrace_connectors.sinks.postgres.settings import PostgresSinkSettings
from headrace_connectors.sinks.postgres.sink import PostgresSink


class Pair:
    """Tables, and their copies in the schema `copy`."""

    def __init__(self, database, url, tables, source, **settings):
        self.database = database
        self.tables = tables
        self.source = source
        self._settings = {"url": url, "mode": "apply_changes", **settings}
        self._settings["tables"] = {f"public.{table}": f"copy.{table}" for table in tables}
        self._log = []
        self._sink = None
        self.position = 0

    async def copied(self, size=1000, *, is_killed=False):
        """Write all changes, so many at a time; each part is durable, and may be the last one of a process."""
        self.database.execute("INSERT INTO last DEFAULT VALUES")
        while not self._log or self._log[-1].payload["table"] != "public.last":
            self._log += (await polled(self.source)).records
            await self.source.commit()
        self._log.pop()
        while self.position < len(self._log):
            part = self._log[self.position : self.position + size]
            sink = await self.sink()
            await sink.write([Received(one, PLACE, self.position + n, 0, None) for n, one in enumerate(part)])
            await sink.flush({PLACE: self.position + len(part)})
            self.position += len(part)
            if is_killed:
                await self.close()

    async def sink(self):
        """Return the sink."""
        if self._sink is None:
            self._sink = PostgresSink(PostgresSinkSettings.model_validate(self._settings))
            await self._sink.open()
        return self._sink

    async def close(self):
        """End the sink."""
        if self._sink is not None:
            await self._sink.close()
            self._sink = None

    def rows(self, schema):
        """All rows of a schema."""
        return {
            table: sorted(row[0] for row in self.database.execute(f'SELECT x::text FROM {schema}."{table}" x'))
            for table in self.tables
        }

    def is_equal(self):
        """Return True if the copies have the rows of their tables."""
        assert self.rows("copy") == self.rows("public")
        return True


@pytest.fixture
async def pair_of(database, database_url):
    """Make tables and their copies: `{schema}` in the statement is the schema of one or the other."""
    made = []
    async with cdc_sources(database_url) as sources:

        async def make(tables, *statements, copies=(), **settings):
            database.execute("CREATE SCHEMA copy")
            database.execute("CREATE TABLE last (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY)")
            for statement in statements:
                database.execute(statement.format(schema="public"))
            for statement in copies or statements:
                database.execute(statement.format(schema="copy"))
            source = await sources(tables=[*(f"public.{one}" for one in tables), "public.last"], **settings)
            made.append(Pair(database, database_url, tables, source))
            return made[-1]

        yield make
        for one in made:
            await one.close()


DEFERRABLE = (
    "CREATE TABLE {schema}.t (id int, v text, PRIMARY KEY (id) DEFERRABLE)",
    "ALTER TABLE {schema}.t REPLICA IDENTITY FULL",
)
PLAIN = ("CREATE TABLE {schema}.t (id int PRIMARY KEY, v text)",)
TRANSACTIONS = {
    "shift": "UPDATE t SET id = id + 1",
    "shift back": "UPDATE t SET id = id - 1",
    "swap": "UPDATE t SET id = 3 - id WHERE id IN (1, 2)",
    "reversal": "UPDATE t SET id = 9 - id",
    "cycle": "UPDATE t SET id = id % 8 + 1",
    "equal rows": "UPDATE t SET v = 'x'; UPDATE t SET id = id % 8 + 1",
    "through another key": "UPDATE t SET id = 20 WHERE id = 1; UPDATE t SET id = 1 WHERE id = 2; "
    "UPDATE t SET id = 2 WHERE id = 20",
    "changed on the way": "UPDATE t SET id = 2, v = 'a' WHERE v = 'row 1'; UPDATE t SET v = 'b' WHERE v = 'a'; "
    "UPDATE t SET id = 1 WHERE v = 'row 2'",
    "back again": "UPDATE t SET id = 2 WHERE v = 'row 1'; UPDATE t SET id = 30 WHERE v = 'row 1'",
    "deleted on the way": "UPDATE t SET id = 2 WHERE v = 'row 1'; DELETE FROM t WHERE v = 'row 1'",
    "deleted there": "UPDATE t SET id = 2 WHERE v = 'row 1'; DELETE FROM t WHERE v = 'row 2'",
    "inserted first": "INSERT INTO t VALUES (1, 'new'); DELETE FROM t WHERE v = 'row 1'; "
    "UPDATE t SET v = 'n' WHERE id = 1",
    "inserted and moved away": "INSERT INTO t VALUES (1, 'new'); UPDATE t SET id = 40 WHERE v = 'row 1'",
    "twice": "UPDATE t SET id = id % 8 + 1; UPDATE t SET id = id % 8 + 1",
    "then deleted": "UPDATE t SET id = id + 1; "
    "DELETE FROM t WHERE id > 6; SET CONSTRAINTS ALL IMMEDIATE; TRUNCATE t; INSERT INTO t VALUES (1, 'z')",
}


@pytest.mark.parametrize("copies", [DEFERRABLE, PLAIN], ids=["deferrable", "plain"])
async def test_keys_move_together(pair_of, copies):
    """Regression: a row whose new key was taken replaced the one there, which had not left yet."""
    pair = await pair_of(["t"], *DEFERRABLE, copies=copies)
    for size, is_killed in ((1000, False), (3, True), (1, False)):
        for name, transaction in TRANSACTIONS.items():
            pair.database.execute("TRUNCATE t")
            pair.database.execute("INSERT INTO t SELECT n, 'row ' || n FROM generate_series(1, 8) n")
            with pair.database.transaction():
                pair.database.execute("SET CONSTRAINTS ALL DEFERRED")
                pair.database.execute(transaction)
            await pair.copied(size, is_killed=is_killed)
            assert pair.rows("copy") == pair.rows("public"), (name, size)


async def test_keys_of_several_columns_move_together(pair_of):
    """All columns are the key: rows differ in nothing else."""
    pair = await pair_of(
        ["t"],
        "CREATE TABLE {schema}.t (a int, b text, PRIMARY KEY (b, a) DEFERRABLE)",
        "ALTER TABLE {schema}.t REPLICA IDENTITY FULL",
    )
    pair.database.execute("INSERT INTO t SELECT a, b FROM generate_series(1, 3) a, generate_series(1, 3) b")
    for size, change in enumerate(("a = a + 1", "b = 4 - b::int", "a = b::int, b = a", "a = a % 4 + 1"), 1):
        pair.database.execute(f"UPDATE t SET {change}")
        await pair.copied(size, is_killed=size % 2 == 0)
        assert pair.is_equal()
