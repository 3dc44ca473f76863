"""CON-15: a source does not publish tables that other programs could not change any more."""

from __future__ import annotations

import psycopg
import pytest
from tests.connectors.standalone.changes import cdc_sources, polled

from headrace_connectors.contract import ConnectorError

KEYLESS = {
    "no key": "CREATE TABLE t (id int, n int)",
    "a unique index": "CREATE TABLE t (id int UNIQUE NOT NULL, n int)",
    "a deferrable key": "CREATE TABLE t (id int, n int, PRIMARY KEY (id) DEFERRABLE)",
    "no identity": "CREATE TABLE t (id int PRIMARY KEY, n int); ALTER TABLE t REPLICA IDENTITY NOTHING",
    "an index that is gone": "CREATE TABLE t (id int CONSTRAINT u UNIQUE NOT NULL, n int); "
    "ALTER TABLE t REPLICA IDENTITY USING INDEX u; ALTER TABLE t DROP CONSTRAINT u",
    "a partition": "CREATE TABLE t (id int, n int) PARTITION BY LIST (id); CREATE TABLE p PARTITION OF t DEFAULT; "
    "ALTER TABLE t REPLICA IDENTITY FULL",
}
WITH_IDENTITY = {
    "a key": "CREATE TABLE t (id int PRIMARY KEY, n int)",
    "all columns": "CREATE TABLE t (id int, n int); ALTER TABLE t REPLICA IDENTITY FULL",
    "an index": "CREATE TABLE t (id int CONSTRAINT u UNIQUE NOT NULL, n int); "
    "ALTER TABLE t REPLICA IDENTITY USING INDEX u",
    "partitions": "CREATE TABLE t (id int PRIMARY KEY, n int) PARTITION BY LIST (id); "
    "CREATE TABLE p PARTITION OF t DEFAULT",
    "an heir without a key": "CREATE TABLE t (id int PRIMARY KEY, n int); CREATE TABLE heir () INHERITS (t); "
    "INSERT INTO heir VALUES (2, 2)",
}


@pytest.fixture
async def source(database_url):
    """Open sources; each is closed at the end."""
    async with cdc_sources(database_url, tables=["public.t"]) as opened:
        yield opened


@pytest.mark.parametrize("way", [{}, {"method": "functions"}], ids=["replication", "functions"])
@pytest.mark.parametrize("statements", KEYLESS.values(), ids=KEYLESS)
async def test_rows_without_an_identity_are_refused(database, source, statements, way):
    """Regression: they were published, and the next UPDATE of the application failed."""
    database.execute(statements)
    database.execute("INSERT INTO t VALUES (1, 1)")
    with pytest.raises(ConnectorError, match=r"(t|p): rows have no identity, .* REPLICA IDENTITY FULL") as caught:
        await source(**way)
    assert "\n" not in str(caught.value)
    database.execute("UPDATE t SET n = 2")
    database.execute("DELETE FROM t")


@pytest.mark.parametrize("statements", WITH_IDENTITY.values(), ids=WITH_IDENTITY)
async def test_tables_with_an_identity_stay_as_they_are_for_others(database, source, statements):
    database.execute(statements)
    database.execute("INSERT INTO t VALUES (1, 1)")
    one = await source()
    database.execute("UPDATE t SET n = 3")
    assert [record.payload["row"] for record in (await polled(one)).records] == [{"id": 1, "n": 3}]


async def test_a_publication_for_insertions_has_tables_without_a_key(database, source, caplog):
    database.execute("CREATE TABLE t (id int)")
    database.execute("CREATE PUBLICATION p FOR TABLE t WITH (publish = 'insert, truncate')")
    one = await source(publication="p")
    database.execute("INSERT INTO t VALUES (1)")
    database.execute("UPDATE t SET id = 2")
    assert [record.payload["row"] for record in (await polled(one)).records] == [{"id": 1}]
    assert "no identity" not in caplog.text


async def test_a_publication_that_hinders_others_already_is_in_the_log(database, source, caplog):
    """An earlier release may have made it, and it works for tables whose rows are only added."""
    database.execute("CREATE TABLE t (id int)")
    database.execute("CREATE PUBLICATION p FOR TABLE t")
    await source(publication="p")
    assert "t: rows have no identity, and UPDATE and DELETE of other programs fail" in caplog.text
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState):
        database.execute("UPDATE t SET id = 2")


async def test_a_table_without_a_key_is_not_to_be_added(database, source):
    """The advice begins with the key: adding it as it is would hinder the application."""
    database.execute("CREATE TABLE t (id int)")
    database.execute("CREATE TABLE u (id int PRIMARY KEY)")
    database.execute("CREATE PUBLICATION p FOR TABLE u")
    with pytest.raises(ConnectorError, match="rows have no identity"):
        await source(publication="p")
