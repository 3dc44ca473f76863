"""Stored, remembered, committed: in this order, whatever stops in between."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import psycopg
import pytest

import headrace
from headrace_connectors.sources.postgres.changes import parse_lsn
from tests.connectors.process import Connectors, until
from tests.sdk.proxy import Proxy

FAST = (
    '[sources.a.delivery]\nbackoff_min = "5 ms"\nbackoff_max = "20 ms"\ncommit_failure_threshold = 3\n'
    'commit_stop_grace = "2 s"\n'
)
STREAM_POINTS = (
    "source-after-polling",
    "source-before-delivering",
    "source-after-delivering",
    "source-before-saving",
    "source-after-saving",
    "source-before-advancing",
    "source-after-advancing",
)
POINTS = ("before-saving", "within-saving", "before-renaming", "before-committing")


@pytest.fixture
def rows(database: psycopg.Connection) -> psycopg.Connection:
    """A table with ten rows."""
    database.execute("CREATE TABLE rows (id int PRIMARY KEY, done bool)")
    database.execute("INSERT INTO rows SELECT generate_series(1, 10)")
    return database


SHORT_TIMEOUT = 'timeout = "500 ms"\n'
"""Only where no repetitions are counted: on a busy machine an answer can take longer, and the batch comes again."""


def cdc(url: str, stream: str, **settings: Any) -> str:
    more = "".join(f"{name} = {json.dumps(value)}\n" for name, value in settings.items())
    slot = url.rpartition("/")[2]
    return (
        f'[sources.a]\nplugin = "postgres_cdc"\nstream = "{stream}"\ntopic = "t"\n[sources.a.settings]\nurl = "{url}"\n'
        f'slot = "{slot}"\ntables = ["public.rows"]\npoll_interval = "10 ms"\n{more}{FAST}'
    )


def polling(url: str, stream: str, way: str) -> str:
    return (
        f'[sources.a]\nplugin = "postgres"\nstream = "{stream}"\ntopic = "t"\n[sources.a.settings]\nurl = "{url}"\n'
        f'table = "public.rows"\npoll_interval = "10 ms"\nbatch_size = 4\n{way}\n{FAST}'
    )


SOURCES = {
    "cdc": cdc,
    "functions": lambda url, stream: cdc(url, stream, method="functions"),
    "delete": lambda url, stream: polling(url, stream, "delete_after_read = true"),
    "mark": lambda url, stream: polling(url, stream, 'processed_column = "done"'),
    "cursor": lambda url, stream: polling(url, stream, 'cursor_column = "id"'),
}


def stored(client: headrace.Client, stream: str) -> list[headrace.Message]:
    """Every message; none if there is no topic yet."""
    try:
        return list(client.read(stream, "t", count=10_000))
    except headrace.NotFound:
        return []


def messages(client: headrace.Client, stream: str) -> list[tuple[int, int]]:
    """Row id and message id of every message."""
    read = []
    for message in stored(client, stream):
        payload = json.loads(message.payload)
        read.append(((payload.get("row") or payload)["id"], message.id))
    return read


def has_snapshot(connectors: Connectors) -> bool:
    """Return True if a source has saved that all rows of its snapshot are stored."""
    return any(b'"snapshot":"done"' in state.read_bytes() for state in connectors.state.glob("*.state.json"))


def changes(client: headrace.Client, stream: str) -> list[dict[str, Any]]:
    """Payload of every message."""
    return [json.loads(message.payload) for message in stored(client, stream)]


@pytest.mark.parametrize(
    ("source", "point"),
    [*(("cdc", point) for point in POINTS), *((source, "before-committing") for source in SOURCES if source != "cdc")],
)
def test_a_process_that_is_killed_at_any_step_loses_nothing(
    client: headrace.Client,
    connectors: Connectors,
    rows: psycopg.Connection,
    database_url: str,
    stream: str,
    source: str,
    point: str,
) -> None:
    """CON-4, CON-7, CON-11: after a restart all rows are stored; repeated ones have the same ids."""
    connectors.run(SOURCES[source](database_url, stream), fault=(point,))
    assert connectors.wait() == -9
    if source in ("delete", "mark"):
        assert len(rows.execute("SELECT 1 FROM rows WHERE done IS NOT TRUE").fetchall()) == 10
    connectors.run()
    until(lambda: {row for row, _ in messages(client, stream)} == set(range(1, 11)))
    if source in ("cdc", "functions"):
        # A row of a second snapshot comes again as a change.
        until(lambda: list(connectors.state.glob("*.state.json")))
    rows.execute("INSERT INTO rows (id) VALUES (11)")
    until(lambda: 11 in {row for row, _ in messages(client, stream)})
    found = messages(client, stream)
    assert len(set(found)) == 11
    repeated = Counter(row for row, _ in found)
    # Records below a stored position are not sent again; before that, the batch in flight is, and all of a snapshot.
    is_exact = point == "before-committing" and source not in ("cdc", "functions")
    assert max(repeated.values()) <= (1 if is_exact else 2)
    if source in ("delete", "mark"):
        until(lambda: not rows.execute("SELECT 1 FROM rows WHERE done IS NOT TRUE").fetchall())


@pytest.mark.parametrize(("guarantee", "operations"), [("at_least_once", ["snapshot", "delete"]), ("exactly_once", [])])
def test_a_row_is_deleted_before_the_snapshot_is_complete(
    client: headrace.Client,
    connectors: Connectors,
    rows: psycopg.Connection,
    database_url: str,
    stream: str,
    guarantee: str,
    operations: list[str],
) -> None:
    """CON-20: the next snapshot does not have the row, and the topic has its deletion if it has the row."""
    connectors.run(f'{cdc(database_url, stream)}guarantee = "{guarantee}"\n', fault=("before-saving",))
    assert connectors.wait() == -9
    rows.execute("DELETE FROM rows WHERE id = 3")
    connectors.run()
    number, found = 10, []

    def has_change() -> bool:
        # A row may be in the snapshot still; its change is behind the deletion otherwise.
        nonlocal number, found
        number += 1
        rows.execute("INSERT INTO rows (id) VALUES (%s)", (number,))
        found = changes(client, stream)
        return any(one["op"] == "insert" for one in found)

    until(has_change)
    assert [one["op"] for one in found if (one["row"] or one["old"])["id"] == 3] == operations


@pytest.mark.parametrize("point", STREAM_POINTS)
def test_the_slot_is_never_ahead_of_what_is_durable(
    client: headrace.Client,
    connectors: Connectors,
    rows: psycopg.Connection,
    database_url: str,
    stream: str,
    point: str,
) -> None:
    """CON-20: killed at any step, the slot is not after the state on disk, nor the state after what the topic has."""
    slot = "SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE database = current_database()"
    connectors.run(cdc(database_url, stream, snapshot="never"), fault=(point,))
    # The slot begins after the rows that exist. It is listed before it has found its beginning.
    until(lambda: connectors.has_ended or connectors.state.exists())
    until(lambda: connectors.has_ended or (rows.execute(slot).fetchone() or (None,))[0] is not None)
    (before,) = rows.execute(slot).fetchone() or ("",)
    number, ends = 10, {}

    def has_ended() -> bool:
        nonlocal number
        number += 1
        rows.execute("INSERT INTO rows (id) VALUES (%s)", (number,))
        (end,) = rows.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone() or ("",)
        ends[number] = parse_lsn(end)
        return connectors.has_ended

    until(has_ended)
    assert connectors.wait() == -9
    confirmed = parse_lsn((rows.execute(slot).fetchone() or ("",))[0])
    states = [json.loads(path.read_bytes()) for path in connectors.state.glob("*.state.json")]
    durable = parse_lsn(states[0]["state"]["state"]["lsn"]) if states else parse_lsn(before)
    assert confirmed <= durable
    stored = {row for row, _ in messages(client, stream)}
    assert {row for row, end in ends.items() if end <= durable} <= stored
    connectors.run()
    until(lambda: {row for row, _ in messages(client, stream)} == set(ends))
    found = messages(client, stream)
    assert len(set(found)) == len(ends)


@pytest.mark.parametrize("point", ["within-saving", "before-renaming"])
def test_a_state_file_is_the_previous_one_or_the_new_one(
    connectors: Connectors,
    rows: psycopg.Connection,
    database_url: str,
    stream: str,
    client: headrace.Client,
    point: str,
) -> None:
    """CON-5: killed while it is written, the file is whole and as before."""
    connectors.run(polling(database_url, stream, 'cursor_column = "id"'))
    until(lambda: len(messages(client, stream)) == 10)
    until(lambda: connectors.status("a")["batches_count"] >= 3)
    assert connectors.stop() == 0
    (state,) = connectors.state.glob("*.state.json")
    before = state.read_bytes()
    rows.execute("INSERT INTO rows (id) VALUES (11)")
    connectors.run(fault=(point,))
    assert connectors.wait() == -9
    assert state.read_bytes() == before
    connectors.run()
    until(lambda: 11 in {row for row, _ in messages(client, stream)})
    until(lambda: b"11" in state.read_bytes())


def test_a_state_of_another_version_is_an_error_and_not_a_reset(
    connectors: Connectors, rows: psycopg.Connection, database_url: str, stream: str, client: headrace.Client
) -> None:
    """CON-5: the status is `error`, with both versions, and nothing is read."""
    connectors.run(polling(database_url, stream, 'cursor_column = "id"'))
    until(lambda: len(messages(client, stream)) == 10)
    assert connectors.stop() == 0
    (state,) = connectors.state.glob("*.state.json")
    changed = state.read_text(encoding="utf-8").replace('"version":1', '"version":2')
    state.write_text(changed, encoding="utf-8")
    rows.execute("INSERT INTO rows (id) VALUES (11)")
    connectors.run()
    status = connectors.becomes("a", "error")
    assert status["error_code"] == "state_version_mismatch"
    assert "has version 2, this plugin reads version 1" in status["last_error"]
    assert state.read_text(encoding="utf-8") == changed
    assert len(messages(client, stream)) == 10


@pytest.fixture
def degraded(
    client: headrace.Client,
    connectors: Connectors,
    proxy: Proxy,
    rows: psycopg.Connection,
    database_url: str,
    stream: str,
) -> dict[str, Any]:
    """Status of a source of changes that has stored ten rows, and cannot reach the server with the eleventh."""
    connectors.run(cdc(database_url, stream) + SHORT_TIMEOUT)
    until(lambda: {row for row, _ in messages(client, stream)} == set(range(1, 11)))
    # The eleventh row alone is to be pending.
    until(lambda: has_snapshot(connectors))
    proxy.stall()
    rows.execute("INSERT INTO rows (id) VALUES (11)")
    return connectors.becomes("a", "degraded")


def test_a_source_of_changes_is_degraded_and_recovers(
    client: headrace.Client, connectors: Connectors, proxy: Proxy, stream: str, degraded: dict[str, Any]
) -> None:
    """CON-4: with the server out of reach it keeps trying, shows `degraded` in status and metrics, and recovers."""
    assert degraded["consecutive_failures"] >= 3
    for prefix in ("headrace", "iggy"):
        assert connectors.metric(f"{prefix}_connector_state", connector_key="a", state="degraded") == 1
        assert connectors.metric(f"{prefix}_connector_state", connector_key="a", state="running") == 0
    proxy.stall(is_stalled=False)
    connectors.becomes("a", "running")
    until(lambda: 11 in {row for row, _ in messages(client, stream)})
    until(lambda: [change["state"] for change in connectors.status("a")["history"]][-2:] == ["degraded", "running"])


@pytest.mark.long
def test_a_commit_that_keeps_failing_degrades_the_source(
    client: headrace.Client, connectors: Connectors, rows: psycopg.Connection, database_url: str, stream: str
) -> None:
    """CON-4: the slot cannot be advanced. Records are stored once, and the status is `degraded`, not `running`."""
    connectors.run(cdc(database_url, stream, snapshot="never"), fault=("failing-commit",))
    connectors.becomes("a", "running")
    rows.execute("INSERT INTO rows (id) VALUES (11)")
    status = connectors.becomes("a", "degraded")
    assert "advancing the slot" in status["last_error"]
    assert connectors.metric("iggy_connector_state", connector_key="a", state="degraded") == 1
    assert [row for row, _ in messages(client, stream)] == [11]
    assert connectors.stop() == 0
    connectors.run()
    until(lambda: connectors.status("a")["batches_count"] >= 1)
    rows.execute("INSERT INTO rows (id) VALUES (12)")
    until(lambda: [row for row, _ in messages(client, stream)] == [11, 12])


@pytest.mark.usefixtures("degraded")
def test_a_batch_can_be_given_up(
    client: headrace.Client, connectors: Connectors, proxy: Proxy, rows: psycopg.Connection, stream: str
) -> None:
    """CON-4: the slot moves to the end of the batch, the status returns to `running`, and the next poll goes on."""
    slot = "SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE database = current_database()"
    before = rows.execute(slot).fetchone()
    answer = connectors.post("/sources/a/cdc/abandon-batch")
    assert answer["abandoned"] == answer["last_abandoned"]
    assert answer["state"] == "running"
    assert answer["last_abandon_at"] is not None
    after = rows.execute(slot).fetchone()
    assert after is not None
    assert after != before
    assert after[0] == answer["abandoned"]
    batches = connectors.status("a")["batches_count"]
    rows.execute("INSERT INTO rows (id) VALUES (12)")
    # Messages that were on their way when the server was out of reach may arrive; none of them is sent again.
    proxy.stall(is_stalled=False)
    until(lambda: 12 in {row for row, _ in messages(client, stream)})
    until(lambda: connectors.status("a")["batches_count"] > batches)
    assert 11 not in [row for row, _ in messages(client, stream)][-1:]
