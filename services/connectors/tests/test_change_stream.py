"""CON-20: changes over a connection of the replication protocol, against a real server."""

from __future__ import annotations

import asyncio
import os

import psycopg
import pytest
from tests.connectors.standalone.changes import cdc_sources, polled

from headrace_connectors.contract import Unavailable, encode_state
from headrace_connectors.sources.postgres import streaming
from headrace_connectors.sources.postgres.changes import parse_lsn
from headrace_connectors.sources.postgres.replication import Keepalive, ReplicationConnection


@pytest.fixture
def table(database):
    database.execute("CREATE TABLE a (id int PRIMARY KEY, name text)")
    database.execute("CREATE TABLE elsewhere (id int)")
    return database


@pytest.fixture
async def source(database_url):
    """Open sources of one slot; each is closed at the end."""
    async with cdc_sources(database_url, tables=["public.a"]) as opened:
        yield opened


def confirmed(database):
    (row,) = database.execute(
        "SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE database = current_database()"
    ).fetchall()
    return parse_lsn(row[0])


def sender(database):
    """Process of the server that streams, if one does."""
    return database.execute(
        "SELECT active_pid FROM pg_replication_slots WHERE database = current_database()"
    ).fetchone()[0]


async def moved(source, database, before):
    """Wait until the slot is after a position: the server answers a report when it has done those before."""
    changes = source._changes
    while confirmed(database) <= before:
        changes._connection.send_status(changes._received, changes._flushed, asks=True)
        while not isinstance(message := changes._connection.next(), Keepalive):
            assert message is None, "a change is taken from the source"
            await changes._connection.readable(10)


async def ended(process):
    """Wait until a process of the server has ended."""
    try:
        descriptor = os.pidfd_open(process)
    except ProcessLookupError:
        return
    is_over, loop = asyncio.Event(), asyncio.get_running_loop()
    loop.add_reader(descriptor, is_over.set)
    try:
        await is_over.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


async def test_a_large_transaction_is_split_and_continued_within(table, source):
    """The slot stays before it until its last change is stored, and each change is read once."""
    one = await source(max_batch="1 KiB")
    before = confirmed(table)
    table.execute("INSERT INTO a SELECT n, repeat('x', 50) FROM generate_series(1, 100) n")
    seen, ids, batches_count = [], set(), 0
    while len(seen) < 100:
        batch = await polled(one)
        batches_count += 1
        assert len(batch.records) < 30
        seen += [record.payload["row"]["id"] for record in batch.records]
        ids |= {record.id for record in batch.records}
        if batches_count in (2, 4):
            # The process ends after the state is stored: the next one goes on within the transaction.
            await one.close()
            one = await source(batch.state, max_batch="1 KiB")
        else:
            await one.commit()
        if len(seen) < 100:
            assert confirmed(table) == before
    assert seen == list(range(1, 101))
    assert len(ids) == 100
    assert batches_count >= 5
    table.execute("INSERT INTO a VALUES (101)")
    while seen[-1] != 101:
        seen += [record.payload["row"]["id"] for record in (await polled(one)).records]
        await one.commit()
    await moved(one, table, before)
    assert seen == list(range(1, 102))


async def test_the_rest_of_a_transaction_is_given_up_with_its_first_batch(table, source):
    one = await source(max_batch="1 KiB")
    table.execute("INSERT INTO a SELECT n, repeat('x', 50) FROM generate_series(1, 100) n")
    await polled(one)
    position = await one.abandon()
    assert confirmed(table) == parse_lsn(position)
    assert not (await polled(one)).records
    await one.commit()
    table.execute("INSERT INTO a VALUES (101)")
    assert [record.payload["row"]["id"] for record in (await polled(one)).records] == [101]


async def test_small_transactions_stay_whole_below_the_size(table, source):
    one = await source(max_batch="4 KiB")
    for first in range(0, 60, 10):
        table.execute(
            "INSERT INTO a SELECT n, repeat('x', 50) FROM generate_series(%s::int, %s::int) n", (first, first + 9)
        )
    seen = []
    while len(seen) < 60:
        batch = await polled(one)
        assert len(batch.records) % 10 == 0
        seen += [record.payload["row"]["id"] for record in batch.records]
        await one.commit()
    assert seen == list(range(60))


async def test_a_full_batch_leaves_the_rest_with_the_server(table, source):
    one = await source(batch_size=10)
    for number in range(50):
        table.execute("INSERT INTO a VALUES (%s)", (number,))
    seen = []
    while len(seen) < 50:
        batch = await polled(one)
        assert len(batch.records) <= 10
        assert one._changes._whole_count == 0
        seen += [record.payload["row"]["id"] for record in batch.records]
        await one.commit()
    assert seen == list(range(50))


async def test_a_slot_in_use_is_reported_and_tried_again(table, source, monkeypatch):
    monkeypatch.setattr(streaming, "_START_ATTEMPTS", 1)
    one = await source()
    await one.poll()
    other = await source()
    with pytest.raises(Unavailable, match=r"the slot \w+ is in use .* another source reads it") as caught:
        await other.poll()
    assert caught.value.code == "slot_in_use"
    await one.close()
    table.execute("INSERT INTO a VALUES (1)")
    monkeypatch.setattr(streaming, "_START_ATTEMPTS", 200)
    assert [record.payload["row"]["id"] for record in (await polled(other)).records] == [1]


async def test_what_could_not_be_stored_comes_again_without_a_connection(table, source):
    """An outage of the topics holds nothing up at the database: no connection is open meanwhile."""
    one = await source()
    table.execute("INSERT INTO a VALUES (1, 'x')")
    first = await polled(one)
    process = sender(table)
    assert process is not None
    first.records[0].payload["row"].clear()
    again = await polled(one)
    assert (again.records[0].id, again.records[0].payload["row"]) == (first.records[0].id, {"id": 1, "name": "x"})
    await ended(process)
    assert sender(table) is None
    before = confirmed(table)
    await one.commit()
    await moved(one, table, before)
    table.execute("UPDATE a SET name = 'y'")
    assert [record.payload["op"] for record in (await polled(one)).records] == ["update"]


@pytest.mark.long
async def test_a_connection_that_waits_for_topics_is_kept(table, source, database_url, monkeypatch):
    """Positions are reported within wal_sender_timeout, although nothing is read meanwhile."""
    table.execute(f"ALTER DATABASE {table.info.dbname} SET wal_sender_timeout = '3s'")
    with psycopg.connect(database_url, autocommit=True) as database:
        one = await source()
        database.execute("INSERT INTO a VALUES (1)")
        await polled(one)
        process = sender(database)
        # Twice as long as the server waits for a report, which is longer than a pause of this process.
        reports = iter(range(8))
        is_over, report = asyncio.Event(), ReplicationConnection.send_status

        def counted(*arguments, **named):
            report(*arguments, **named)
            if next(reports, None) is None:
                is_over.set()

        monkeypatch.setattr(ReplicationConnection, "send_status", counted)
        await is_over.wait()
        await one.commit()
        assert sender(database) == process


async def test_a_log_without_changes_is_forgotten_by_a_commit_alone(table, source, monkeypatch):
    monkeypatch.setattr(streaming, "_IDLE_ADVANCE_SECONDS", 0.0)
    one = await source()
    await one.poll()
    before = confirmed(table)
    table.execute("INSERT INTO elsewhere SELECT generate_series(1, 1000)")
    batch = await polled(one)
    assert batch.records == []
    assert batch.state is not None
    assert confirmed(table) == before
    await one.commit()
    await moved(one, table, before)


async def test_values_of_the_snapshot_are_those_of_changes(database, source):
    database.execute("CREATE TYPE mood AS ENUM ('sad', 'glad')")
    database.execute(
        "CREATE TABLE a (id int PRIMARY KEY, n numeric, f float8, b bytea, t timestamptz, d date, i interval, "
        "x int[], j jsonb, u uuid, m mood, p point, o bool, s text[])"
    )
    database.execute(
        "INSERT INTO a VALUES (1, 1.50, 'NaN', '\\x00ff', '2026-01-02 03:04:05.6+00', '2026-01-02', '1 day 2 hours', "
        "'{1,2}', '{\"a\": [1, null]}', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', 'glad', '(1,2)', true, '{a,NULL}')"
    )
    database.execute("INSERT INTO a (id) VALUES (2)")
    one = await source(snapshot="initial")
    first = await polled(one)
    await one.commit()
    await polled(one)
    await one.commit()
    database.execute("UPDATE a SET id = id + 10")
    changed = await polled(one)
    before = [record.payload["row"] for record in first.records]
    after = [{**record.payload["row"], "id": record.payload["row"]["id"] - 10} for record in changed.records]
    assert sorted(before, key=lambda row: row["id"]) == sorted(after, key=lambda row: row["id"])
    assert (before[0]["n"], before[0]["b"], before[0]["x"]) == ("1.50", "\\x00ff", "{1,2}")
    assert before[0]["j"] == {"a": [1, None]}


async def test_a_state_after_the_end_of_the_log_is_refused(table, source):
    await (await source()).close()
    state = encode_state(1, {"lsn": "FFFFFFF/0", "snapshot": "done"})
    with pytest.raises(Exception, match=r"the log of PostgreSQL ends at .*, before FFFFFFF/0"):
        await source(state)


async def test_a_slot_for_standby_servers_needs_a_newer_server(table, source):
    version = table.info.server_version
    if version < 170_000:
        with pytest.raises(Exception, match=r"does not copy slots to standby servers: version 17 does"):
            await source(failover=True)
    else:
        await source(failover=True)
        assert table.execute("SELECT failover FROM pg_replication_slots WHERE slot_name LIKE 's%'").fetchone() == (
            True,
        )
