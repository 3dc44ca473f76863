"""The source of PostgreSQL's rows, against a real server."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from headrace_connectors.contract import ConnectorError, Lag, Polling, StateVersionMismatch, Unavailable, encode_state
from headrace_connectors.sources.postgres import polling
from headrace_connectors.sources.postgres.polling import PollingSettings, PostgresPolling

WAYS = {
    "cursor": {"cursor_column": "at"},
    "delete": {"delete_after_read": True},
    "mark": {"processed_column": "done"},
}


@pytest.fixture
def table(database):
    database.execute(
        "CREATE TABLE rows (id int PRIMARY KEY, at timestamptz NOT NULL DEFAULT now(), done bool, tag text, place inet)"
    )
    database.execute(
        "INSERT INTO rows SELECT n, timestamptz '2026-01-01' + n / 3 * interval '1 s', NULL, 't' || n, '10.0.0.1' "
        "FROM generate_series(1, 10) n"
    )
    return database


@pytest.fixture
async def source(database_url):
    """Open sources; each is closed at the end."""
    opened = []

    async def source(state=None, **settings):
        given = {"url": database_url, "table": "public.rows", "batch_size": 4, "poll_interval": "1 ms", **settings}
        one = PostgresPolling(PollingSettings(**given))
        opened.append(one)
        await one.open(state)
        return one

    yield source
    for one in opened:
        await one.close()


def ids(batch):
    return [record.payload["id"] for record in batch.records]


def left(table):
    return [row[0] for row in table.execute("SELECT id FROM rows WHERE done IS NOT TRUE ORDER BY id").fetchall()]


@pytest.mark.parametrize("way", WAYS)
async def test_every_row_is_read_once(table, source, way):
    one = await source(**WAYS[way])
    assert one.mode() == Polling(destructive=way != "cursor")
    seen, records = [], []
    while (batch := await one.poll()) is not None:
        seen += ids(batch)
        records += [record.id for record in batch.records]
        await one.commit()
    assert seen == list(range(1, 11))
    assert len(set(records)) == 10
    table.execute("INSERT INTO rows (id, at) VALUES (11, '2026-02-01')")
    assert ids(await one.poll()) == [11]
    assert (await one.poll()).records[0].payload["place"] in (None, "10.0.0.1")


@pytest.mark.parametrize("way", WAYS)
async def test_rows_that_were_not_stored_come_again_and_stay(table, source, way):
    one = await source(**WAYS[way])
    first = await one.poll()
    again = await one.poll()
    assert ids(first) == ids(again) == [1, 2, 3, 4]
    assert [record.id for record in first.records] == [record.id for record in again.records]
    assert left(table) == list(range(1, 11))


@pytest.mark.parametrize("way", ["delete", "mark"])
async def test_rows_are_changed_in_the_commit_alone(table, source, way):
    one = await source(**WAYS[way])
    await one.poll()
    assert left(table) == list(range(1, 11))
    await one.commit()
    assert left(table) == list(range(5, 11))


@pytest.mark.parametrize("way", WAYS)
async def test_a_commit_that_was_not_made_is_made_up_for(table, source, way):
    one = await source(**WAYS[way])
    state = (await one.poll()).state
    await one.close()
    other = await source(state, **WAYS[way])
    assert ids(await other.poll()) == [5, 6, 7, 8]


@pytest.mark.parametrize("way", ["delete", "mark"])
async def test_a_commit_that_failed_comes_before_the_next_poll(table, source, way):
    one = await source(**WAYS[way])
    await one.poll()
    table.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'headrace %'")
    with pytest.raises(Unavailable):
        await one.commit()
    assert ids(await one.poll()) == [5, 6, 7, 8]
    assert left(table) == list(range(5, 11))


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("way", ["delete", "mark"])
async def test_a_row_that_was_changed_since_it_was_read_is_read_again(table, source, way, restarts):
    """The row that was stored is the one of before: the other one is neither deleted nor marked."""
    one = await source(**WAYS[way])
    state = (await one.poll()).state
    table.execute("UPDATE rows SET tag = 'new', done = NULL WHERE id = 2")
    table.execute("DELETE FROM rows WHERE id = 3")
    table.execute("INSERT INTO rows (id, tag) VALUES (3, 'again')")
    if restarts:
        await one.close()
        one = await source(state, **WAYS[way])
    else:
        await one.commit()
    batch = await one.poll()
    assert [(record.payload["id"], record.payload["tag"]) for record in batch.records] == [
        (2, "new"),
        (3, "again"),
        (5, "t5"),
        (6, "t6"),
    ]
    assert batch.records[0].payload.keys() == {"id", "at", "done", "tag", "place"}
    await one.commit()
    assert left(table) == [7, 8, 9, 10]


@pytest.mark.parametrize("way", ["delete", "mark"])
async def test_rows_of_a_view_and_of_an_older_state_are_known_by_their_keys(table, source, way):
    table.execute("CREATE VIEW seen AS SELECT * FROM rows")
    one = await source(table="public.seen", **WAYS[way])
    assert ids(await one.poll()) == [1, 2, 3, 4]
    await one.commit()
    assert left(table) == list(range(5, 11))
    await source(encode_state(1, [[5], [6]]), **WAYS[way])
    assert left(table) == list(range(7, 11))


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("way", ["delete", "mark"])
async def test_a_row_that_comes_again_while_the_source_is_closed_is_read(table, source, way, restarts):
    """Keys of a work queue are used again: the state of a source that has read everything names no rows."""
    one, state = await source(**WAYS[way]), None
    while (batch := await one.poll()) is not None:
        state = batch.state
        await one.commit()
        if restarts:
            await one.close()
            one = await source(state, **WAYS[way])
    await one.close()
    table.execute("DELETE FROM rows WHERE id = 10")
    table.execute("INSERT INTO rows (id) VALUES (10)")
    other = await source(state, **WAYS[way])
    assert ids(await other.poll()) == [10]


@pytest.mark.parametrize("way", ["delete", "mark"])
async def test_an_idle_source_has_nothing_to_save(table, source, way):
    one = await source(**WAYS[way], batch_size=100)
    await one.poll()
    await one.commit()
    await one.commit()
    for _ in range(2):
        # The first one may not be stored.
        empty = await one.poll()
        assert (empty.records, empty.state) == ((), encode_state(1, []))
    await one.commit()
    assert await one.poll() is None
    assert await (await source(empty.state, **WAYS[way])).poll() is None
    assert left(table) == []


async def test_rows_with_the_same_cursor_are_not_skipped(table, source):
    table.execute("UPDATE rows SET at = '2026-01-01'")
    one = await source(cursor_column="at", batch_size=3)
    seen = []
    while (batch := await one.poll()) is not None:
        seen += ids(batch)
        await one.commit()
        state = batch.state
        await one.close()
        one = await source(state, cursor_column="at", batch_size=3)
    assert seen == list(range(1, 11))


async def test_a_changed_row_is_another_record(table, source):
    one = await source(cursor_column="at", batch_size=100)
    batch = await one.poll()
    await one.commit()
    table.execute("UPDATE rows SET at = '2026-03-01' WHERE id = 3")
    changed = await one.poll()
    assert ids(changed) == [3]
    assert changed.records[0].id not in {record.id for record in batch.records}


async def test_a_row_without_a_cursor_is_read_when_it_is_set(table, source):
    """NULL as the position would hide every row after it."""
    table.execute("ALTER TABLE rows ALTER at DROP NOT NULL")
    table.execute("UPDATE rows SET at = NULL WHERE id IN (2, 10)")
    one = await source(cursor_column="at", batch_size=100)
    assert ids(await one.poll()) == [1, 3, 4, 5, 6, 7, 8, 9]
    await one.commit()
    assert await one.lag() == Lag(0, "rows")
    table.execute("INSERT INTO rows (id, at) VALUES (11, '2026-02-01')")
    table.execute("UPDATE rows SET at = '2026-03-01' WHERE id = 2")
    assert ids(await one.poll()) == [11, 2]


async def test_a_stored_position_with_null_hides_no_rows(table, source):
    """States of older releases can have one."""
    one = await source(encode_state(1, [[None, 2]]), cursor_column="at", batch_size=100)
    assert ids(await one.poll()) == list(range(1, 11))


@pytest.mark.parametrize("way", WAYS)
async def test_a_row_without_a_key_is_refused(table, source, way):
    table.execute("CREATE TABLE loose AS SELECT CASE WHEN id > 1 THEN id END AS id, at, done FROM rows")
    one = await source(table="public.loose", batch_size=100, **WAYS[way])
    with pytest.raises(ConnectorError, match=r"public.loose has NULL in id of primary_key: set primary_key to"):
        await one.poll()


@pytest.mark.parametrize("way", WAYS)
async def test_a_column_can_be_added_meanwhile(table, source, way):
    """The driver prepares a statement that it executes often, and the result of that cannot change."""
    one = await source(**WAYS[way], batch_size=1)
    for number in range(1, 8):
        assert ids(await one.poll()) == [number]
        await one.commit()
    table.execute("ALTER TABLE rows ADD COLUMN more int DEFAULT 5")
    assert (await one.poll()).records[0].payload["more"] == 5


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("date", "infinity"),
        ("date", "0044-03-15 BC"),
        ("date", "20000-01-01"),
        ("time", "24:00:00"),
        ("timetz", "24:00:00+00"),
        ("timestamp", "-infinity"),
        ("timestamp", "0044-03-15 12:00:00 BC"),
        ("timestamp", "20000-01-01 00:00:00"),
        ("timestamptz", "infinity"),
        ("timestamptz", "20000-01-01 00:00:00+00"),
        ("interval", "100000000 years"),
        ("interval", "1 mon -2 days"),
        ("date", "2026-01-02"),
        ("time", "23:59:00"),
        ("timestamp", "2026-01-02 03:04:05.5"),
        ("bytea", r"\x00ff27"),
        ("numeric", "NaN"),
        ("float8", "Infinity"),
    ],
)
async def test_times_are_text_as_the_server_writes_it(table, source, kind, text):
    table.execute(f"ALTER DATABASE {table.info.dbname} SET timezone = 'UTC'")
    table.execute("SET timezone = 'UTC'")
    table.execute(f"CREATE TABLE times AS SELECT 1 AS id, {kind} '{text}' AS t, ARRAY[{kind} '{text}', NULL] AS many")
    (record,) = (await (await source(table="public.times", cursor_column="id")).poll()).records
    (many,) = table.execute("SELECT many::text FROM times").fetchone()
    assert record.payload == {"id": 1, "t": text, "many": many}


@pytest.mark.parametrize(
    ("kind", "value"), [("timestamptz", "infinity"), ("date", "infinity"), ("float8", "NaN"), ("numeric", "NaN")]
)
async def test_a_cursor_that_hides_all_rows_that_follow_is_refused(table, source, kind, value):
    table.execute(f"CREATE TABLE endless AS SELECT 1 AS id, {kind} '{value}' AS c")
    one = await source(table="public.endless", cursor_column="c")
    with pytest.raises(ConnectorError, match=r"a row of public\.endless has .* in c, and no row comes after it"):
        await one.poll()
    table.execute("ALTER TABLE endless ALTER c TYPE text")
    await one.close()
    assert ids(await (await source(table="public.endless", cursor_column="c")).poll()) == [1]


async def test_a_query_can_replace_the_table(table, source):
    one = await source(query="SELECT id, at, upper(tag) AS tag FROM public.rows WHERE id > 8", cursor_column="id")
    batch = await one.poll()
    assert [record.payload["tag"] for record in batch.records] == ["T9", "T10"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"table": "public.missing", "cursor_column": "id"}, 'relation "public.missing" does not exist'),
        ({"cursor_column": "missing"}, 'column "missing" does not exist'),
        ({"query": "SELEC 1", "cursor_column": "id"}, "syntax error"),
    ],
)
async def test_wrong_names_are_found_at_the_start(table, source, settings, message):
    with pytest.raises(ConnectorError, match=message):
        await source(**settings)


async def test_a_state_of_another_version_is_refused(table, source):
    with pytest.raises(StateVersionMismatch):
        await source(encode_state(9, []), cursor_column="at")


def test_one_way_to_find_new_rows_is_needed():
    with pytest.raises(ValidationError, match="exactly one of"):
        PollingSettings(url="postgresql:///x", table="public.rows")


@pytest.mark.parametrize("way", WAYS)
async def test_the_lag_is_the_number_of_rows_that_are_not_stored(table, source, way, monkeypatch):
    """CON-84: rows of the poll count until their commit; no more than some are counted."""
    one = await source(**WAYS[way])
    assert await one.lag() == Lag(10, "rows")
    while (batch := await one.poll()) is not None:
        before = (await one.lag()).behind
        await one.commit()
        assert (await one.lag()).behind == before - len(batch.records)
    assert await one.lag() == Lag(0, "rows")
    table.execute("INSERT INTO rows (id, at) SELECT n, timestamptz '2026-02-01' FROM generate_series(11, 30) n")
    monkeypatch.setattr(polling, "_LAG_ROWS_MAX", 15)
    assert await one.lag() == Lag(15, "rows")


async def test_the_lag_of_a_query_is_that_of_its_rows(table, source):
    del table
    one = await source(**WAYS["cursor"], query="SELECT * FROM rows WHERE id > 7")
    assert await one.lag() == Lag(3, "rows")
