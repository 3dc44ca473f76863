"""CON-15: a copy has the rows of its source, whatever the tables and the transactions are."""

from __future__ import annotations

import pytest
from tests.connectors.standalone.changes import cdc_sources, polled
from tests.connectors.standalone.received import PLACE

from headrace_connectors.contract import ConnectorError, Received, Unavailable
from headrace_connectors.sinks.postgres.settings import PostgresSinkSettings
from headrace_connectors.sinks.postgres.sink import PostgresSink


class Pair:
    """Tables, and their copies in the schema `copy`."""

    def __init__(self, database, url, tables, source, **settings):
        self.database = database
        self.tables = tables
        self.source = source
        self.settings = {"url": url, "mode": "apply_changes", **settings}
        self.settings["tables"] = {f"public.{table}": f"copy.{table}" for table in tables}
        self._log = []
        self._sink = None
        self.position = 0
        self.repeats = 0

    async def copied(self, size=1000, *, is_killed=False):
        """Write all changes, so many at a time; each part is durable, and may be the last one of a process."""
        self.database.execute("INSERT INTO last DEFAULT VALUES")
        while not self._log or self._log[-1].payload["table"] != "public.last":
            self._log += (await polled(self.source)).records
            await self.source.commit()
        if self._log.pop().payload["op"] == "snapshot":
            # The transaction that reads it ends with a batch of its own.
            await polled(self.source)
            await self.source.commit()
        repeated = self._log[self.position : self.position + self.repeats]
        self._log[self.position + self.repeats : self.position + self.repeats] = repeated
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
            self._sink = PostgresSink(PostgresSinkSettings.model_validate(self.settings))
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

        async def make(tables, *statements, copies=(), keys=(), **settings):
            database.execute("CREATE SCHEMA copy")
            database.execute("CREATE TABLE last (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY)")
            for statement in statements:
                database.execute(statement.format(schema="public"))
            for statement in copies or statements:
                database.execute(statement.format(schema="copy"))
            source = await sources(tables=[*(f"public.{one}" for one in tables), "public.last"], **settings)
            made.append(Pair(database, database_url, tables, source, key_columns=keys))
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


async def test_old_rows_have_columns_without_a_value(pair_of):
    """Regression: test_decoding does not write them, and the old row did not look like a whole one."""
    pair = await pair_of(["t"], *DEFERRABLE, decoder="test_decoding")
    pair.database.execute("INSERT INTO t VALUES (1, NULL), (2, 'x'), (3, NULL)")
    pair.database.execute("UPDATE t SET id = id % 3 + 1, v = id")
    await pair.copied()
    assert pair.is_equal()


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


@pytest.mark.parametrize("size", [1, 3, 1000])
async def test_moves_that_come_again_are_done_once(pair_of, size):
    """The source was killed within a transaction, and the sink as well: the next process knows what is done."""
    pair = await pair_of(["t"], *DEFERRABLE)
    pair.database.execute("INSERT INTO t SELECT n, 'row ' || n FROM generate_series(1, 6) n")
    await pair.copied()
    with pair.database.transaction():
        pair.database.execute("UPDATE t SET id = id % 6 + 1")
        pair.database.execute("DELETE FROM t WHERE id > 3")
    pair.repeats = 4
    await pair.copied(size, is_killed=True)
    assert pair.is_equal()


async def test_what_is_not_known_from_its_beginning_is_done_again(pair_of):
    """A process that knows the last messages of a transaction alone leaves none out."""
    pair = await pair_of(["t"], *PLAIN)
    with pair.database.transaction():
        pair.database.execute("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
        pair.database.execute("DELETE FROM t WHERE id = 1")
    pair.repeats = 3
    for size in (1, 2):
        await pair.copied(size, is_killed=True)
        assert pair.is_equal()
        pair.database.execute("INSERT INTO t VALUES (3, 'c'), (4, 'd')")
        pair.database.execute("DELETE FROM t WHERE id > 2")


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


COMPUTED = {
    "identity": ("id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, x int, y int GENERATED ALWAYS AS (x * 2) STORED",),
    "identity in a key": ("id int GENERATED ALWAYS AS IDENTITY, n numeric DEFAULT 1.0, x int, PRIMARY KEY (n, id)",),
    "another identity": ("id int PRIMARY KEY, x int, n int UNIQUE GENERATED ALWAYS AS IDENTITY",),
    "identity by default": ("id int GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, x int, s serial",),
    "deferrable": ("id int GENERATED ALWAYS AS IDENTITY, x int, PRIMARY KEY (id) DEFERRABLE",),
    "large": ("id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, x int, big text",),
}


@pytest.mark.parametrize("identity", ["DEFAULT", "FULL"])
@pytest.mark.parametrize("size", [1, 2, 1000])
async def test_a_key_that_a_new_row_has_left_is_free(pair_of, size, identity):
    """Regression: the next row of that key waited for one that was elsewhere already, and was missing."""
    pair = await pair_of(["t"], *PLAIN, f"ALTER TABLE {{schema}}.t REPLICA IDENTITY {identity}")
    # The sink knows the next transaction from its beginning.
    pair.database.execute("INSERT INTO t VALUES (9, 'z')")
    with pair.database.transaction():
        pair.database.execute("INSERT INTO t VALUES (1, 'a')")
        pair.database.execute("UPDATE t SET id = 2 WHERE id = 1")
        pair.database.execute("INSERT INTO t VALUES (1, 'b')")
        pair.database.execute("UPDATE t SET id = 3 WHERE id = 2")
        pair.database.execute("INSERT INTO t VALUES (2, 'c')")
    await pair.copied(size, is_killed=size == 2)
    assert pair.is_equal()


EQUAL = {
    "numeric": ("numeric", "1.0", "2.0", "1.00", "2.00"),
    "interval": ("interval", "1 day", "2 days", "24:00:00", "48:00:00"),
    "collation": ("text COLLATE {schema}.loose", "a", "b", "A", "B"),
}


@pytest.mark.parametrize("size", [1, 1000])
@pytest.mark.parametrize("identity", ["DEFAULT", "FULL"])
@pytest.mark.parametrize("kind", EQUAL)
async def test_a_key_that_gets_another_text_of_the_same_value(pair_of, kind, identity, size):
    """Regression: the row left the copy, or lost its large values, with the new text of a key that was equal to it."""
    type_name, first, second, same_first, same_second = EQUAL[kind]
    pair = await pair_of(
        ["t"],
        "CREATE COLLATION {schema}.loose (provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
        f"CREATE TABLE {{schema}}.t (k {type_name}, v text, large text, PRIMARY KEY (k)"
        f"{' DEFERRABLE' if identity == 'FULL' else ''})",
        "ALTER TABLE {schema}.t ALTER large SET STORAGE EXTERNAL",
        f"ALTER TABLE {{schema}}.t REPLICA IDENTITY {identity}",
    )
    pair.database.execute(
        "INSERT INTO t VALUES (%s, 'x', repeat('x', 9000)), (%s, 'y', repeat('y', 9000))", (first, second)
    )
    await pair.copied(size)
    pair.database.execute(
        f"UPDATE t SET k = CASE v WHEN 'x' THEN '{same_first}' ELSE '{same_second}' END::{type_name.split()[0]}"
    )
    await pair.copied(size)
    assert pair.is_equal()
    if identity == "FULL":
        pair.database.execute(
            f"UPDATE t SET k = CASE v WHEN 'x' THEN '{second}' ELSE '{first}' END::{type_name.split()[0]}"
        )
        await pair.copied(size)
        assert pair.is_equal()
    pair.database.execute("DELETE FROM t WHERE v = 'x'")
    await pair.copied(size)
    assert pair.is_equal()


@pytest.mark.parametrize("size", [1, 1000])
@pytest.mark.parametrize("columns", COMPUTED.values(), ids=COMPUTED)
async def test_columns_that_a_server_computes_are_equal(pair_of, columns, size):
    """Regression: copies made with LIKE ... INCLUDING ALL stopped the sink for good."""
    copy = "CREATE TABLE copy.t (LIKE public.t INCLUDING ALL)"
    create = f"CREATE TABLE public.t ({columns[0]})"
    pair = await pair_of(["t"], create, "ALTER TABLE public.t REPLICA IDENTITY FULL", copies=[copy], snapshot="initial")
    pair.database.execute("ALTER TABLE t ADD fill int DEFAULT 1; ALTER TABLE copy.t ADD fill int DEFAULT 1")
    execute = pair.database.execute
    is_large = "big" in columns[0]
    if is_large:
        execute("ALTER TABLE t ALTER big SET STORAGE EXTERNAL, REPLICA IDENTITY DEFAULT")
    big, value = (", big", ", repeat('x', 9000)") if is_large else ("", "")
    overriding = "OVERRIDING SYSTEM VALUE"
    execute(f"INSERT INTO t (id, x{big}) {overriding} SELECT n, n{value} FROM generate_series(1, 5) n")
    await pair.copied(size)
    assert pair.is_equal()
    execute("UPDATE t SET x = 7 WHERE id = 1")
    execute("DELETE FROM t WHERE id = 2")
    execute(f"INSERT INTO t (id, x{big}) {overriding} SELECT 9, 9{value}")
    if "id int GENERATED ALWAYS" in columns[0]:
        execute("ALTER TABLE t ALTER id RESTART WITH 100")
        execute("UPDATE t SET id = DEFAULT WHERE id IN (3, 4)")
    else:
        execute("UPDATE t SET id = id + 20 WHERE id IN (3, 4)")
    if "n int UNIQUE" in columns[0]:
        execute("UPDATE t SET n = DEFAULT WHERE id = 5")
    await pair.copied(size)
    assert pair.is_equal()


async def test_a_column_that_is_dropped_is_left_out(pair_of):
    """Regression: the statement of an identity column names all columns, and stopped the sink for good."""
    pair = await pair_of(
        ["t"], "CREATE TABLE {schema}.t (id int PRIMARY KEY, n int GENERATED ALWAYS AS IDENTITY, x int)"
    )
    pair.database.execute("INSERT INTO t VALUES (1)")
    await pair.copied()
    pair.database.execute("ALTER TABLE t DROP x; ALTER TABLE copy.t DROP x")
    pair.database.execute("UPDATE t SET n = DEFAULT")
    with pytest.raises(Unavailable, match="looking at the columns again"):
        await pair.copied()
    await pair.copied()
    assert pair.is_equal()


async def test_a_column_that_only_the_copy_generates(pair_of):
    """The key has no unique index there, either."""
    pair = await pair_of(
        ["t"],
        "CREATE TABLE {schema}.t (id int, n int)",
        "ALTER TABLE {schema}.t REPLICA IDENTITY FULL",
        copies=["CREATE TABLE copy.t (id int, n int, twice int GENERATED ALWAYS AS (id * 2) STORED)"],
        keys=["id"],
    )
    pair.database.execute("INSERT INTO t VALUES (1, 1), (2, 2)")
    pair.database.execute("UPDATE t SET id = 3 WHERE id = 1")
    await pair.copied()
    assert pair.database.execute("SELECT * FROM copy.t ORDER BY id").fetchall() == [(2, 2, 4), (3, 1, 6)]


FAMILY = (
    "CREATE TABLE {schema}.parent (id int PRIMARY KEY, boss int REFERENCES {schema}.parent ON DELETE CASCADE)",
    "CREATE TABLE {schema}.child (id int PRIMARY KEY, parent int REFERENCES {schema}.parent ON UPDATE CASCADE)",
    "CREATE TABLE {schema}.toy (id int PRIMARY KEY, child int REFERENCES {schema}.child ON DELETE SET NULL)",
)


@pytest.mark.parametrize("size", [1, 1000])
async def test_foreign_keys_of_copies_do_not_hold_up_changes(pair_of, size):
    """Regression: rows that came before those they refer to, and truncations, were dead letters for good."""
    pair = await pair_of(["toy", "child", "parent"], *FAMILY, snapshot="initial")
    execute = pair.database.execute
    execute("INSERT INTO parent VALUES (1, NULL), (2, 1), (3, 1), (4, 3)")
    execute("INSERT INTO child VALUES (1, 1), (2, 2)")
    execute("INSERT INTO toy VALUES (1, 1), (2, 2)")
    await pair.copied(size)
    assert pair.is_equal()
    execute("UPDATE parent SET id = 20 WHERE id = 2")
    execute("DELETE FROM child WHERE id = 1")
    execute("DELETE FROM parent WHERE id = 3")
    await pair.copied(size)
    assert pair.is_equal()
    execute("TRUNCATE parent CASCADE")
    execute("INSERT INTO parent VALUES (9, 9)")
    execute("INSERT INTO child VALUES (9, 9)")
    await pair.copied(size)
    assert pair.is_equal()


async def test_triggers_of_copies_without_foreign_keys_run(pair_of):
    pair = await pair_of(["t"], *PLAIN)
    body = "'BEGIN INSERT INTO last DEFAULT VALUES; RETURN NULL; END'"
    pair.database.execute(f"CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS {body}")
    pair.database.execute("CREATE TRIGGER note AFTER INSERT ON copy.t EXECUTE FUNCTION note()")
    pair.database.execute("INSERT INTO t VALUES (1, 'x')")
    await pair.copied()
    assert pair.is_equal()
    assert pair.database.execute("SELECT count(*) FROM last").fetchone() == (2,)


async def test_a_user_who_has_to_check_foreign_keys_is_refused(pair_of, database_url):
    pair = await pair_of(["parent", "child", "toy"], *FAMILY)
    user = f"writer_{pair.database.info.dbname}"
    pair.database.execute(f"CREATE ROLE {user} LOGIN")
    try:
        pair.database.execute(f"GRANT ALL ON SCHEMA public, copy TO {user}")
        pair.database.execute(f"GRANT ALL ON ALL TABLES IN SCHEMA copy TO {user}")
        pair.settings["url"] = database_url.replace("headrace@", f"{user}@")
        with pytest.raises(ConnectorError, match="GRANT SET ON PARAMETER session_replication_role"):
            await pair.sink()
        await pair.close()
        pair.database.execute(f"GRANT SET ON PARAMETER session_replication_role TO {user}")
        pair.database.execute("INSERT INTO parent VALUES (1, NULL)")
        pair.database.execute("INSERT INTO child VALUES (1, 1)")
        await pair.copied(1)
        assert pair.is_equal()
    finally:
        await pair.close()
        pair.database.execute(f"DROP OWNED BY {user}")
        pair.database.execute(f"DROP ROLE {user}")
