"""Exactly once: every record is in its topic once, whatever is killed, and one runtime writes for a source."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

import headrace
from tests.connectors.process import Connectors, until
from tests.connectors.test_commits import SOURCES, messages, polling
from tests.sdk.conftest import url_of
from tests.server_process import ServerProcess

EXACTLY_ONCE = 'guarantee = "exactly_once"\n'
IN_DELIVERY = ("before-saving", "within-saving", "before-renaming", "before-transaction-1", "after-transaction-1")
IN_LATER_BATCHES = ("before-transaction-2", "after-transaction-2", "after-transaction-3")
IN_RECOVERY = ("after-transaction-1", "before-saving", "after-transaction-2", "before-renaming", "before-transaction-3")


@pytest.fixture
def rows(database: psycopg.Connection) -> psycopg.Connection:
    """A table with ten rows, every third one for another stream."""
    database.execute("CREATE TABLE rows (id int PRIMARY KEY, done bool, stream text)")
    database.execute("INSERT INTO rows SELECT n FROM generate_series(1, 10) n")
    return database


def stored_once(client: headrace.Client, stream: str, count: int) -> None:
    """Wait for rows, and check that each is there once."""
    until(lambda: len(messages(client, stream)) >= count)
    assert Counter(row for row, _ in messages(client, stream)) == Counter(range(1, count + 1))


def killed_at(connectors: Connectors, point: str) -> None:
    """Run the connectors up to a fault point."""
    connectors.run(fault=(point,))
    assert connectors.wait() == -9, connectors.tail()


@pytest.mark.long(but=3)
@pytest.mark.parametrize(
    ("source", "point"),
    [
        ("delete", "after-transaction-1"),
        ("mark", "after-transaction-2"),
        *(("cdc", point) for point in reversed(IN_DELIVERY)),
        *(("cursor", point) for point in IN_LATER_BATCHES),
    ],
)
def test_every_row_is_stored_once_whatever_is_killed(
    client: headrace.Client,
    connectors: Connectors,
    rows: psycopg.Connection,
    database_url: str,
    stream: str,
    source: str,
    point: str,
) -> None:
    """CON-60: the process is killed within the delivery, then at a step of the start after it, and goes on."""
    connectors.write(SOURCES[source](database_url, stream) + EXACTLY_ONCE)
    killed_at(connectors, point)
    # A start looks the pending batch up, and saves what it has found.
    killed_at(connectors, "after-transaction-1" if point.endswith("1") else "before-saving")
    connectors.run()
    stored_once(client, stream, 10)
    rows.execute("INSERT INTO rows (id) VALUES (11)")
    stored_once(client, stream, 11)


@pytest.mark.long
def test_a_start_that_is_killed_at_every_step_stores_nothing_twice(
    client: headrace.Client, connectors: Connectors, rows: psycopg.Connection, database_url: str, stream: str
) -> None:
    """CON-60: a batch is pending, and each start after it is killed one step later."""
    connectors.write(SOURCES["cdc"](database_url, stream) + EXACTLY_ONCE)
    connectors.run()
    stored_once(client, stream, 10)
    assert connectors.stop() == 0
    for number, point in enumerate(IN_RECOVERY, 11):
        rows.execute("INSERT INTO rows (id) VALUES (%s)", (number,))
        killed_at(connectors, "before-committing")
        killed_at(connectors, point)
    connectors.run()
    stored_once(client, stream, 10 + len(IN_RECOVERY))


def routed(url: str, stream: str) -> str:
    """A source that writes to the streams that its rows name."""
    return polling(url, stream, 'cursor_column = "id"').replace(
        f'stream = "{stream}"\ntopic = "t"\n',
        f'routing = {{ stream_column = "stream", default_stream = "{stream}", default_topic = "t" }}\n',
    )


@pytest.mark.long(but=1)
@pytest.mark.parametrize("point", [f"{when}-transaction-{n}" for when in ("after", "before") for n in (1, 2, 3, 4)])
def test_a_batch_for_two_streams_is_stored_once_in_each(
    client: headrace.Client,
    connectors: Connectors,
    rows: psycopg.Connection,
    database_url: str,
    stream: str,
    point: str,
) -> None:
    """CON-60: killed before, between and after the commits in two streams, in the first batch and in the second."""
    other = f"{stream}-other"
    rows.execute("UPDATE rows SET stream = CASE WHEN id %% 2 = 0 THEN %s END", (other,))
    connectors.write(routed(database_url, stream) + EXACTLY_ONCE)
    killed_at(connectors, point)
    connectors.run()
    until(lambda: len(messages(client, stream)) + len(messages(client, other)) >= 10)
    assert Counter(row for row, _ in messages(client, stream)) == Counter(range(1, 11, 2))
    assert Counter(row for row, _ in messages(client, other)) == Counter(range(2, 11, 2))


@pytest.fixture
def second(shared_server: ServerProcess, connectors: Connectors) -> Iterator[Connectors]:
    """Another runtime, with the same pipeline file to be written."""
    directory = connectors.directory / "second"
    directory.mkdir()
    process = Connectors(directory, url_of(shared_server.address))
    yield process
    process.kill()


def copied(connectors: Connectors, to: Path) -> None:
    """Copy the state files. The next one may be half written beside them: a restored backup has none of it."""
    shutil.copytree(connectors.state, to, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.unfinished"))


@pytest.mark.long
def test_a_second_runtime_without_the_state_is_refused(
    client: headrace.Client,
    connectors: Connectors,
    second: Connectors,
    rows: psycopg.Connection,
    database_url: str,
    stream: str,
) -> None:
    """CON-60: it begins with the first row, which is stored; the first runtime is not disturbed."""
    pipeline = SOURCES["cursor"](database_url, stream) + EXACTLY_ONCE
    connectors.run(pipeline)
    stored_once(client, stream, 10)
    for _ in range(2):
        second.run(pipeline)
        status = second.becomes("a", "error")
        assert status["error_code"] == "fenced"
        assert "another runtime writes under the transaction connector-a" in status["last_error"]
        assert second.stop() == 0
    rows.execute("INSERT INTO rows (id) VALUES (11)")
    stored_once(client, stream, 11)
    assert connectors.status("a")["state"] == "running"


def test_a_second_runtime_with_the_state_takes_over_and_the_first_one_ends(
    client: headrace.Client,
    connectors: Connectors,
    second: Connectors,
    rows: psycopg.Connection,
    database_url: str,
    stream: str,
) -> None:
    """CON-60: and with its state, which is old now, the first one is not started again."""
    pipeline = SOURCES["cursor"](database_url, stream) + EXACTLY_ONCE
    connectors.run(pipeline)
    stored_once(client, stream, 10)
    copied(connectors, second.state)
    second.run(pipeline)
    second.becomes("a", "running")
    rows.execute("INSERT INTO rows (id) VALUES (11)")
    stored_once(client, stream, 11)
    assert connectors.becomes("a", "error")["error_code"] == "fenced"
    rows.execute("INSERT INTO rows (id) VALUES (12)")
    stored_once(client, stream, 12)
    assert connectors.stop() == 0
    connectors.run()
    assert connectors.becomes("a", "error")["error_code"] == "stale_state"
    stored_once(client, stream, 12)


def test_the_guarantee_can_be_changed(
    client: headrace.Client, connectors: Connectors, rows: psycopg.Connection, database_url: str, stream: str
) -> None:
    """CON-60: a pending batch is looked up before the source goes on without transactions, and then with them again."""
    pipeline = SOURCES["cursor"](database_url, stream)
    connectors.write(pipeline + EXACTLY_ONCE)
    killed_at(connectors, "before-committing")
    for guarantee, row in (("", 11), (EXACTLY_ONCE, 12)):
        connectors.run(pipeline + guarantee)
        rows.execute("INSERT INTO rows (id) VALUES (%s)", (row,))
        stored_once(client, stream, row)
        assert connectors.stop() == 0
    (state,) = connectors.state.glob("*.state.json")
    assert "pending" not in json.loads(state.read_text(encoding="utf-8"))["state"]["delivery"]


def test_a_source_whose_senders_repeat_is_refused(connectors: Connectors, stream: str) -> None:
    """CON-60: exactly once cannot be promised for a webhook."""
    connectors.run(
        f'[sources.a]\nplugin = "webhook"\nstream = "{stream}"\ntopic = "t"\n[sources.a.settings]\n'
        f'address = "127.0.0.1:0"\ntoken = "secret"\n[sources.a.delivery]\n{EXACTLY_ONCE}'
    )
    assert connectors.wait() == 2
    assert "senders of the plugin webhook" in connectors.log.read_text(encoding="utf-8")
