"""The source of PostgreSQL's changes, against a real server."""

from __future__ import annotations

import asyncio

import psycopg
import pytest
from tests.connectors.standalone.changes import cdc_sources, polled

from headrace_connectors.contract import ConnectorError, StateVersionMismatch, Unavailable, encode_state
from headrace_connectors.sources.postgres import cdc
from headrace_connectors.sources.postgres.changes import parse_lsn

WAYS = {
    "replication": {},
    "functions": {"method": "functions"},
    "test_decoding": {"method": "functions", "decoder": "test_decoding"},
}


@pytest.fixture
def table(database):
    database.execute("CREATE TABLE a (id int PRIMARY KEY, name text, at timestamptz DEFAULT now(), n numeric, j jsonb)")
    database.execute("CREATE TABLE b (id int PRIMARY KEY)")
    return database


@pytest.fixture
async def source(database_url):
    """Open sources; each is closed at the end."""
    async with cdc_sources(database_url, tables=["public.a", "public.b"], poll_interval="1 ms") as opened:
        yield opened


async def collected(source, count):
    """Rows of so many changes; their batches are committed. A stream ends a batch wherever nothing more has arrived."""
    found = []
    while len(found) < count:
        found += rows(await polled(source))
        await source.commit()
    return found


async def moves(database, lsn):
    """Wait until the slot is at another position: a status of the replication protocol has no answer."""
    for _ in range(1000):
        if confirmed(database) != lsn:
            return confirmed(database)
        await asyncio.sleep(0.01)
    raise AssertionError("the slot stays where it is")


def confirmed(database):
    (row,) = database.execute(
        "SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE database = current_database()"
    ).fetchall()
    return parse_lsn(row[0])


def rows(batch):
    return [
        (record.payload["op"], record.payload["table"], (record.payload["row"] or record.payload["old"])["id"])
        for record in batch.records
    ]


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
async def test_changes_are_read_and_forgotten_by_a_commit_alone(table, source, way):
    one = await source(**way)
    with table.transaction():
        table.execute("INSERT INTO a (id, name, n, j) VALUES (1, 'it''s', 1.50, '{\"x\": [1]}')")
        table.execute("UPDATE a SET name = 'b' WHERE id = 1")
        table.execute("INSERT INTO b VALUES (7)")
        table.execute("DELETE FROM a")
    before = confirmed(table)
    batch = await polled(one)
    assert rows(batch) == [
        ("insert", "public.a", 1),
        ("update", "public.a", 1),
        ("insert", "public.b", 7),
        ("delete", "public.a", 1),
    ]
    first = batch.records[0].payload["row"]
    assert (first["name"], first["n"], first["j"]) == ("it's", "1.50", {"x": [1]})
    assert [record.table for record in batch.records][2] == "public.b"
    # Not stored: the same records come again, with the same ids.
    again = await polled(one)
    assert [record.id for record in again.records] == [record.id for record in batch.records]
    assert len({record.id for record in batch.records}) == 4
    assert confirmed(table) == before
    await one.commit()
    assert await moves(table, before) > before
    assert await one.poll() is None


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
async def test_the_text_of_a_value_does_not_depend_on_settings(table, source, way):
    """A day in the order of the database would be another day in a copy."""
    (name,) = table.execute("SELECT current_database()").fetchone()
    settings = {
        "datestyle": "'SQL, DMY'",
        "intervalstyle": "sql_standard",
        "bytea_output": "escape",
        "extra_float_digits": "0",
    }
    for setting, value in settings.items():
        table.execute(f'ALTER DATABASE "{name}" SET {setting} = {value}')
    table.execute("ALTER TABLE a ADD day date, ADD span interval, ADD raw bytea, ADD r float8")
    values = "'2024-03-05', '1 year 2 mons -3 days 04:05:06', '\\x00ff41', 0.1::float8 + 0.2"
    table.execute(f"INSERT INTO a (id, day, span, raw, r) VALUES (1, {values})")
    one = await source(**way, snapshot="initial")
    found = []
    for row_id in (2, 3):
        while len(found) < row_id - 1:
            found += [record.payload["row"] for record in (await polled(one)).records]
            await one.commit()
        table.execute(f"INSERT INTO a (id, day, span, raw, r) VALUES ({row_id}, {values})")
    forms = [(row["day"], row["span"], row["raw"], str(row["r"])) for row in found]
    expected = ("2024-03-05", "1 year 2 mons -3 days +04:05:06", "\\x00ff41", "0.30000000000000004")
    assert forms == [expected, expected]


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
async def test_a_commit_that_was_not_made_is_made_up_for(table, source, way):
    """A process dies after the state was stored and before the commit: nothing is read twice, and the slot moves on."""
    one = await source(**way)
    table.execute("INSERT INTO a (id) VALUES (1)")
    batch = await polled(one)
    before = confirmed(table)
    await one.close()
    other = await source(batch.state, **way)
    table.execute("INSERT INTO a (id) VALUES (2)")
    following = await polled(other)
    assert rows(following) == [("insert", "public.a", 2)]
    await other.commit()
    assert await moves(table, before) > before


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
async def test_overlapping_transactions_are_not_lost(table, source, database_url, way):
    """A transaction that began before another one, and committed after it, has changes at lower positions."""
    one = await source(**way)
    with psycopg.connect(database_url) as long:
        long.execute("INSERT INTO a (id) VALUES (1)")
        table.execute("INSERT INTO a (id) VALUES (2)")
        batch = await polled(one)
        assert rows(batch) == [("insert", "public.a", 2)]
        long.commit()
    await one.close()
    other = await source(batch.state, **way)
    assert rows(await polled(other)) == [("insert", "public.a", 1)]


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
async def test_a_snapshot_comes_first_and_its_changes_do_not_come_again(table, source, database_url, way):
    table.execute("INSERT INTO a (id, at) SELECT n, '2026-01-01Z' FROM generate_series(1, 25) n")
    one = await source(**way, snapshot="initial", batch_size=10)
    # After the slot was made and before the snapshot is taken: in both, and to be delivered once.
    table.execute("INSERT INTO a (id) VALUES (100)")
    with psycopg.connect(database_url) as open_during_the_snapshot:
        open_during_the_snapshot.execute("INSERT INTO a (id) VALUES (101)")
        seen = []
        for _ in range(3):
            batch = await polled(one)
            repeated = await polled(one)
            assert [record.id for record in repeated.records] == [record.id for record in batch.records]
            seen += rows(batch)
            await one.commit()
        assert {row[0] for row in seen} == {"snapshot"}
        assert sorted(row[2] for row in seen) == [*range(1, 26), 100]
        table.execute("UPDATE a SET name = 'x' WHERE id = 3")
        open_during_the_snapshot.commit()
    ended = await polled(one)
    assert rows(ended) == []
    await one.commit()
    assert sorted(await collected(one, 2)) == [("insert", "public.a", 101), ("update", "public.a", 3)]
    state = encode_state(1, one._state)
    await one.close()
    continued = await source(state, **way, snapshot="initial")
    assert await continued.poll() is None or rows(await polled(continued)) == []


@pytest.mark.parametrize("keeps_incomplete", [True, False])
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
async def test_a_deletion_between_two_snapshots_is_not_missed(table, source, way, keeps_incomplete):
    """The first one was not completed. Where its rows are dropped, no change that the second one has comes again."""
    table.execute("INSERT INTO a (id) SELECT generate_series(1, 25)")
    one = await source(**way, snapshot="initial", batch_size=10)
    first = rows(await polled(one))
    await one.commit()
    await one.close()
    table.execute("DELETE FROM a WHERE id = %s", (first[0][2],))
    again = await source(**way, snapshot="initial")
    again.keeps_incomplete = keeps_incomplete
    seen = await collected(again, 24)
    assert {row[0] for row in seen} == {"snapshot"}
    await polled(again)
    await again.commit()
    table.execute("INSERT INTO a (id) VALUES (100)")
    changes = await collected(again, 2 if keeps_incomplete else 1)
    deleted = [("delete", "public.a", first[0][2])] if keeps_incomplete else []
    assert changes == [*deleted, ("insert", "public.a", 100)]


async def test_giving_up_a_batch_moves_the_slot(table, source):
    one = await source()
    assert await one.abandon() is None
    table.execute("INSERT INTO a (id) VALUES (1)")
    await polled(one)
    position = await one.abandon()
    assert confirmed(table) == parse_lsn(position)
    # It goes on from there at the next start, too.
    state = (await polled(one)).state
    await one.close()
    one = await source(state)
    table.execute("INSERT INTO a (id) VALUES (2)")
    assert rows(await polled(one)) == [("insert", "public.a", 2)]


async def test_a_batch_ends_with_a_transaction(table, source):
    one = await source(batch_size=2)
    for number in range(5):
        with table.transaction():
            table.execute("INSERT INTO a (id) VALUES (%s)", (number * 2,))
            table.execute("INSERT INTO a (id) VALUES (%s)", (number * 2 + 1,))
    seen = []
    while len(seen) < 10:
        batch = await polled(one)
        assert len(batch.records) % 2 == 0
        seen += [row[2] for row in rows(batch)]
        await one.commit()
    assert seen == list(range(10))


async def test_a_lost_connection_is_made_again(table, source):
    one = await source()
    table.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'headrace %'")
    with pytest.raises(Unavailable, match="PostgreSQL"):
        await one.poll()
    table.execute("INSERT INTO a (id) VALUES (1)")
    assert rows(await polled(one)) == [("insert", "public.a", 1)]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tables": ["public.missing"]}, "no table public.missing"),
        ({"url": "postgresql://127.0.0.1:1/x"}, None),
        ({"url": "host=:::"}, None),
    ],
)
async def test_wrong_settings(table, source, settings, message):
    with pytest.raises(ConnectorError, match=message or "PostgreSQL|url"):
        await source(**settings)


async def test_a_slot_of_another_decoder_is_refused(table, source):
    await (await source()).close()
    with pytest.raises(ConnectorError, match="is of pgoutput, not of test_decoding"):
        await source(decoder="test_decoding")


async def test_a_publication_without_a_table_is_refused(table, source, database_url):
    table.execute("CREATE PUBLICATION p FOR TABLE a")
    with pytest.raises(ConnectorError, match=r"has no table public.b: ALTER PUBLICATION p ADD TABLE public.b"):
        await source(publication="p")


async def snapshot_and_changes(source):
    """Rows of all batches up to the change of the table `b` that has the id 99."""
    found = []
    while not found or found[-1][:2] != ("public.b", 99):
        records = (await polled(source)).records
        found += [(record.table, record.payload["row"].get("id"), record.payload["row"]) for record in records]
        await source.commit()
    return [row for table, _, row in found if table != "public.b"]


@pytest.mark.parametrize("way", ["replication", "functions"])
async def test_a_snapshot_has_what_the_publication_has(table, source, way):
    """CON-15, regression: it had all columns of all rows, whatever its owner had left out."""
    table.execute(
        'CREATE TABLE c (id int PRIMARY KEY, area text, "{pin}" text, twice int GENERATED ALWAYS AS (id * 2) STORED)'
    )
    table.execute("INSERT INTO c VALUES (1, 'north', '0000'), (2, 'south', '1111')")
    table.execute(
        "CREATE PUBLICATION p FOR TABLE c (id, area) WHERE (id < 100 AND area LIKE '%o{0}rth' OR area = 'north'), b"
    )
    table.execute("ALTER TABLE c REPLICA IDENTITY FULL")
    one = await source(**WAYS[way], tables=["public.c", "public.b"], publication="p", snapshot="initial")
    batches = [await polled(one)]
    await one.commit()
    table.execute("INSERT INTO c VALUES (3, 'north', '2222'), (4, 'south', '3333')")
    table.execute("INSERT INTO b VALUES (99)")
    rows = [record.payload["row"] for record in batches[0].records] + await snapshot_and_changes(one)
    assert rows == [{"id": 1, "area": "north"}, {"id": 3, "area": "north"}]


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
async def test_rows_and_changes_have_the_same_columns(table, source, way):
    """Generated columns are in both, or in none; tables that inherit are others."""
    table.execute("CREATE TABLE c (id int PRIMARY KEY, n int, twice int GENERATED ALWAYS AS (n * 2) STORED)")
    table.execute("CREATE TABLE heir (more int) INHERITS (c)")
    table.execute("INSERT INTO c VALUES (1, 1)")
    table.execute("INSERT INTO heir VALUES (2, 2, DEFAULT, 2)")
    one = await source(**way, tables=["public.c", "public.b"], snapshot="initial")
    batches = [await polled(one)]
    await one.commit()
    table.execute("INSERT INTO c VALUES (3, 3)")
    table.execute("INSERT INTO heir VALUES (4, 4, DEFAULT, 4)")
    table.execute("UPDATE heir SET n = 5")
    table.execute("INSERT INTO b VALUES (99)")
    rows = [record.payload["row"] for record in batches[0].records] + await snapshot_and_changes(one)
    more = {"twice": 2} if way.get("decoder") else {}
    assert rows == [{"id": 1, "n": 1, **more}, {"id": 3, "n": 3, **({"twice": 6} if more else {})}]


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
async def test_values_of_domains_have_one_form(table, source, way):
    """CON-15, regression: rows of a snapshot had numbers, days and objects if no other column had the type below."""
    domains = {"flag": "boolean", "day": "date", "cents": "bigint", "body": "jsonb", "raw": "bytea"}
    for name, kind in domains.items():
        table.execute(f"CREATE DOMAIN {name}_domain AS {kind}")
    columns = ", ".join(f"{name} {name}_domain" for name in domains)
    table.execute(f"CREATE TABLE c (id int PRIMARY KEY, {columns})")
    values = """true, 'infinity', 7, '{"d": 0.12345678901234567890}', '\\x00ff'"""
    table.execute(f"INSERT INTO c VALUES (1, {values})")
    one = await source(**way, tables=["public.c", "public.b"], snapshot="initial")
    batches = [await polled(one)]
    await one.commit()
    table.execute(f"INSERT INTO c VALUES (1 + 1, {values})")
    table.execute("INSERT INTO b VALUES (99)")
    rows = [record.payload["row"] for record in batches[0].records] + await snapshot_and_changes(one)
    text = {"flag": "t", "day": "infinity", "cents": "7", "body": '{"d": 0.12345678901234567890}', "raw": "\\x00ff"}
    assert rows == [{"id": 1, **text}, {"id": 2, **text}]


async def test_rows_that_a_policy_hides_are_an_error(table, source, database_url):
    """A snapshot without them would look complete."""
    table.execute("INSERT INTO a (id) VALUES (1), (2)")
    table.execute("ALTER TABLE a ENABLE ROW LEVEL SECURITY")
    table.execute("CREATE POLICY even ON a USING (id % 2 = 0)")
    user = f"reader_{table.info.dbname}"
    table.execute(f"CREATE ROLE {user} LOGIN REPLICATION")
    try:
        table.execute(f"GRANT SELECT ON a, b TO {user}")
        table.execute("CREATE PUBLICATION p FOR TABLE a, b")
        one = await source(url=database_url.replace("headrace@", f"{user}@"), publication="p", snapshot="initial")
        with pytest.raises(ConnectorError, match=r"reading public\.a: .* row-level security"):
            await polled(one)
    finally:
        table.execute(f"DROP OWNED BY {user}")
        table.execute(f"DROP ROLE {user}")


async def test_operations_that_a_publication_leaves_out_are_named(table, source, caplog):
    table.execute("CREATE PUBLICATION p FOR TABLE a, b WITH (publish = 'insert, truncate')")
    await source(publication="p")
    assert "the publication p leaves out UPDATE, DELETE: topics will not have them" in caplog.messages


@pytest.fixture
def partitioned(table):
    table.execute("CREATE TABLE parts (id int, day int, PRIMARY KEY (id, day)) PARTITION BY RANGE (day)")
    table.execute("CREATE TABLE first PARTITION OF parts FOR VALUES FROM (1) TO (10)")
    table.execute("CREATE TABLE second PARTITION OF parts FOR VALUES FROM (10) TO (20)")
    return table


@pytest.mark.parametrize("way", ["replication", "functions"])
async def test_changes_of_partitions_are_those_of_their_table(partitioned, source, way):
    partitioned.execute("INSERT INTO parts VALUES (1, 1), (2, 11)")
    one = await source(**WAYS[way], tables=["public.parts", "public.b"], snapshot="initial")
    assert sorted(await collected(one, 2)) == [("snapshot", "public.parts", 1), ("snapshot", "public.parts", 2)]
    partitioned.execute("INSERT INTO parts VALUES (3, 1), (4, 11)")
    partitioned.execute("INSERT INTO second VALUES (5, 12)")
    partitioned.execute("DELETE FROM parts WHERE id = 1")
    partitioned.execute("INSERT INTO b VALUES (9)")
    found = []
    while ("insert", "public.b", 9) not in found:
        found += await collected(one, 1)
    assert found == [
        ("insert", "public.parts", 3),
        ("insert", "public.parts", 4),
        ("insert", "public.parts", 5),
        ("delete", "public.parts", 1),
        ("insert", "public.b", 9),
    ]


async def test_a_publication_of_partitions_in_place_of_their_table_is_refused(partitioned, source):
    partitioned.execute("CREATE PUBLICATION p FOR TABLE a")
    settings = {"publication": "p", "tables": ["public.parts"]}
    for advice in (
        "ALTER PUBLICATION p SET (publish_via_partition_root = true)",
        "ALTER PUBLICATION p ADD TABLE public.parts",
    ):
        with pytest.raises(ConnectorError) as caught:
            await source(**settings)
        assert str(caught.value).endswith(f": {advice}")
        partitioned.execute(advice)
    one = await source(**settings)
    partitioned.execute("INSERT INTO parts VALUES (1, 1)")
    assert await collected(one, 1) == [("insert", "public.parts", 1)]


async def test_test_decoding_of_a_partitioned_table_is_refused(partitioned, source):
    with pytest.raises(
        ConnectorError, match=r"test_decoding names partitions.* partitions of public\.parts in `tables`"
    ):
        await source(**WAYS["test_decoding"], tables=["public.parts"])
    one = await source(**WAYS["test_decoding"], tables=["public.first"])
    partitioned.execute("INSERT INTO parts VALUES (1, 1)")
    assert await collected(one, 1) == [("insert", "public.first", 1)]


async def test_a_state_of_another_version_is_refused(table, source):
    with pytest.raises(StateVersionMismatch, match="has version 2, this plugin reads version 1"):
        await source(encode_state(2, {}))


@pytest.mark.parametrize("snapshot", ["initial", "never"])
async def test_a_slot_that_was_dropped_is_reported(table, source, snapshot):
    """Each start is refused until the state is removed."""
    one = await source(snapshot=snapshot)
    if snapshot == "never":
        table.execute("INSERT INTO a (id) VALUES (1)")
    state = (await polled(one)).state
    await one.close()
    drop_slot(table)
    for _ in range(2):
        with pytest.raises(ConnectorError, match=r"does not exist any more, and changes since \w+/\w+ are lost"):
            await source(state, snapshot=snapshot)


REPLACEMENTS = {
    "renamed": ("ALTER TABLE b RENAME TO old; CREATE TABLE b (id int PRIMARY KEY)", "another table has the name"),
    "made anew": ("DROP TABLE b; CREATE TABLE b (id int PRIMARY KEY)", "another table has the name"),
    "exchanged": ("ALTER TABLE b RENAME TO old; CREATE TABLE b (id int); ALTER PUBLICATION p ADD TABLE b",
        "another table has the name"),
    "dropped": ("DROP TABLE b", "has no table public.b"),
    "moved": ("CREATE SCHEMA s; ALTER TABLE b SET SCHEMA s", "has no table public.b"),
    "taken out": ("ALTER PUBLICATION p DROP TABLE b", "p has no table public.b"),
    "put back": ("ALTER PUBLICATION p DROP TABLE b; ALTER PUBLICATION p ADD TABLE b", "b was taken out and put back"),
    "published in part": ("ALTER PUBLICATION p SET TABLE a, b WHERE (id > 5)", "or has other columns or rows"),
    "published anew": ("DROP PUBLICATION p; CREATE PUBLICATION p FOR TABLE a, b", "was taken out|not exist"),
    "fewer operations": ("ALTER PUBLICATION p SET (publish = 'insert')", "leaves out UPDATE, DELETE, TRUNCATE now"),
    "unpublished": ("DROP PUBLICATION p", "the publication p does not exist any more"),
}  # fmt: skip


@pytest.mark.parametrize("is_running", [True, False], ids=["running", "stopped"])
@pytest.mark.parametrize("change", REPLACEMENTS.values(), ids=REPLACEMENTS)
async def test_a_replaced_table_is_an_error(table, source, monkeypatch, change, is_running):
    """CON-15: no change of it arrives any more, and nothing else would say so."""
    monkeypatch.setattr(cdc, "_CHECK_SECONDS", 0.0)
    table.execute("CREATE PUBLICATION p FOR TABLE a, b")
    one = await source(publication="p")
    table.execute("INSERT INTO a (id) VALUES (1)")
    state = (await polled(one)).state
    await one.commit()
    if not is_running:
        await one.close()
    table.execute(change[0])
    with pytest.raises(ConnectorError, match=change[1]):
        await (go_on(one) if is_running else source(state, publication="p"))


@pytest.mark.parametrize(
    "change", ["ALTER TABLE b RENAME TO c; ALTER TABLE x RENAME TO b", "ALTER TABLE b RENAME TO c"]
)
@pytest.mark.parametrize("way", ["replication", "functions"])
async def test_a_message_of_another_table_is_an_error(table, source, way, change):
    """Even if the name is another's only for a moment: a table that is published with all others, or a renamed one."""
    table.execute("CREATE TABLE x (id int PRIMARY KEY)")
    table.execute("CREATE PUBLICATION p FOR ALL TABLES")
    one = await source(**WAYS[way], publication="p")
    table.execute(change)
    table.execute(
        "INSERT INTO c VALUES (1); INSERT INTO x VALUES (1)" if "x" not in change else "INSERT INTO b VALUES (1)"
    )
    if "x" not in change:
        table.execute("ALTER TABLE c RENAME TO b")
    with pytest.raises(ConnectorError, match=r"another table has the name public\.b|public\.b is called public\.c"):
        await go_on(one)


async def test_tables_without_a_log_are_refused(table, source):
    table.execute("ALTER TABLE b SET UNLOGGED")
    with pytest.raises(ConnectorError, match=r"no changes of public\.b: ALTER TABLE public\.b SET LOGGED"):
        await source(**WAYS["test_decoding"])


async def test_a_state_of_an_earlier_release_is_read(table, source):
    """Such a state has no identifiers of tables, and no position of the slot behind a snapshot."""
    await (await source()).close()
    one = await source(encode_state(1, {"lsn": "0/0", "snapshot": "done"}))
    table.execute("INSERT INTO a (id) VALUES (1)")
    assert rows(await polled(one)) == [("insert", "public.a", 1)]


def drop_slot(database):
    """Drop the slot of a test, and return its name and plugin."""
    database.execute("SELECT pg_terminate_backend(active_pid, 60000) FROM pg_replication_slots WHERE active")
    (row,) = database.execute(
        "SELECT slot_name, plugin, pg_drop_replication_slot(slot_name) FROM pg_replication_slots "
        "WHERE database = current_database()"
    ).fetchall()
    return row[:2]


@pytest.mark.parametrize("moment", ["stopped", "running", "after the snapshot"])
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
async def test_a_slot_that_was_made_anew_is_refused(table, source, way, moment):
    """CON-15: it has no changes of the time between, and nothing else would say so."""
    given = way | ({"snapshot": "initial"} if moment == "after the snapshot" else {})
    one = await source(**given)
    if not given.get("snapshot"):
        table.execute("INSERT INTO a (id) VALUES (1)")
    state = (await polled(one)).state
    await one.commit()
    if moment != "running":
        await one.close()
    table.execute("INSERT INTO a (id) VALUES (2)")
    name, plugin = drop_slot(table)
    table.execute("SELECT pg_create_logical_replication_slot(%s, %s)", (name, plugin))
    table.execute("INSERT INTO a (id) VALUES (3)")
    with pytest.raises(ConnectorError, match=rf"the slot {name} begins at .*: it was made anew or moved on by another"):
        await (go_on(one) if moment == "running" else source(state, **given))


async def go_on(source):
    """Poll a source, which may have lost its connection, until it says more than that."""
    while True:
        try:
            await polled(source)
        except Unavailable:
            continue
        await source.commit()


async def test_a_slot_that_another_program_moved_on_is_refused(table, source):
    one = await source()
    table.execute("INSERT INTO a (id) VALUES (1)")
    state = (await polled(one)).state
    await one.close()
    table.execute("SELECT pg_terminate_backend(active_pid, 60000) FROM pg_replication_slots WHERE active")
    table.execute("INSERT INTO a (id) VALUES (2)")
    table.execute(
        "SELECT pg_replication_slot_advance(slot_name, pg_current_wal_lsn()) FROM pg_replication_slots "
        "WHERE database = current_database()"
    )
    with pytest.raises(ConnectorError, match="the changes between are lost"):
        await source(state)


async def test_a_cancelled_poll_loses_nothing(table, source):
    one = await source()
    poll = asyncio.create_task(polled(one))
    await asyncio.sleep(0)
    poll.cancel()
    await asyncio.wait({poll})
    table.execute("INSERT INTO a (id) VALUES (1)")
    assert rows(await polled(one)) == [("insert", "public.a", 1)]
