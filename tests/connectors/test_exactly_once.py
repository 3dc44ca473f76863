"""CON-17: sinks that store offsets with their data: whatever stops in between, each message is there once."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable
from pathlib import Path

import psycopg
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

import headrace
from headrace_connectors.sinks.parquet.partition import PartitionFiles
from tests.connectors.process import Connectors, until
from tests.connectors.test_sinks import FAST
from tests.sdk.conftest import url_of
from tests.server_process import ServerProcess

POINTS = (
    "sink-before-writing",
    "sink-before-flushing",
    "sink-within-flushing",
    "sink-before-storing",
    "sink-after-storing",
)
OF_THE_SINK = ("sink-within-flushing", "sink-before-storing")
"""Points that depend on the sink: what counts at once, and what the server has not heard of."""


def send(client: headrace.Client, stream: str, numbers: range) -> None:
    """Send objects to the four partitions of a topic; each tenth is no JSON."""
    with client.producer(stream, "t") as producer:
        for number in numbers:
            payload = b"poison" if number % 10 == 9 else b'{"id": %d}' % number
            producer.send_many([payload], partition=number % 4)


@pytest.fixture
def topic(client: headrace.Client, stream: str) -> str:
    """A stream with the topic `t` of four partitions."""
    client.create_stream(stream)
    client.create_topic(stream, "t", partitions=4)
    return stream


def written(numbers: range) -> list[int]:
    return [number for number in numbers if number % 10 != 9]


def written_once(
    client: headrace.Client,
    connectors: Connectors,
    topic: str,
    point: str,
    plugin: str,
    settings: str,
    found: Callable[[], list[int]],
) -> None:
    """Check that a sink is killed at a point before it has written everything, and then writes each message once."""
    send(client, topic, range(100))
    connectors.run(
        f'[sinks.a]\nplugin = "{plugin}"\nstream = "{topic}"\ntopic = "t"\nlinger = "5 ms"\nbatch_size = 5\n'
        f"[sinks.a.settings]\n{settings}\n{FAST}",
        fault=(point,),
    )
    assert connectors.wait() == -9
    assert len(found()) < 90
    send(client, topic, range(100, 120))
    connectors.run()
    until(lambda: len(found()) >= len(written(range(120))))
    assert connectors.stop() == 0
    assert sorted(found()) == written(range(120))


@pytest.mark.long(but=1)
@pytest.mark.parametrize("point", OF_THE_SINK)
def test_rows_are_written_once_whatever_is_killed(
    client: headrace.Client,
    connectors: Connectors,
    database: psycopg.Connection,
    database_url: str,
    topic: str,
    point: str,
) -> None:
    """The table has no key that would hide a repetition."""
    database.execute("CREATE TABLE rows (id int)")

    def found() -> list[int]:
        return [row[0] for row in database.execute("SELECT id FROM rows")]

    settings = f'url = "{database_url}"\ntable = "public.rows"'
    written_once(client, connectors, topic, point, "postgres", settings, found)


def test_a_second_process_takes_over_and_rows_are_written_once(
    client: headrace.Client,
    connectors: Connectors,
    database: psycopg.Connection,
    database_url: str,
    topic: str,
) -> None:
    """The offsets at the server are behind, as after an outage: the table decides where a partition continues."""
    database.execute("CREATE TABLE rows (id int)")
    pipeline = (
        f'[sinks.a]\nplugin = "postgres"\nstream = "{topic}"\ntopic = "t"\nlinger = "5 ms"\n'
        f'[sinks.a.settings]\nurl = "{database_url}"\ntable = "public.rows"\n{FAST}'
    )
    send(client, topic, range(40))
    connectors.run(pipeline)
    until(lambda: len(database.execute("SELECT id FROM rows").fetchall()) == len(written(range(40))))
    assert connectors.stop() == 0
    send(client, topic, range(40, 60))
    # Another group has no offsets at the server at all.
    connectors.run(pipeline.replace('topic = "t"\n', 'topic = "t"\ngroup = "other"\n'))
    until(lambda: len(database.execute("SELECT id FROM rows").fetchall()) >= len(written(range(60))))
    assert sorted(row[0] for row in database.execute("SELECT id FROM rows").fetchall()) == written(range(60))


@pytest.mark.long(but=1)
@pytest.mark.parametrize("point", OF_THE_SINK)
def test_files_have_each_message_once_whatever_is_killed(
    client: headrace.Client, connectors: Connectors, topic: str, tmp_path: Path, point: str
) -> None:
    """The manifests name every file in the directories, and the files have every message once."""
    settings = f'path = "{tmp_path}/files"\ncolumns = {{ id = "int64" }}'
    written_once(client, connectors, topic, point, "parquet", settings, lambda: ids(tmp_path))
    named = [file for directory in directories(tmp_path) for file in PartitionFiles(directory, "zstd").paths()]
    assert sorted(named) == sorted(tmp_path.glob("files/*/*/*/*.parquet"))


def directories(path: Path) -> list[Path]:
    """Directories of the partitions."""
    return [manifest.parent for manifest in path.glob("files/*/*/*/manifest.json")]


@pytest.mark.long(but=1)
@pytest.mark.parametrize("point", POINTS)
def test_rows_of_sqlite_are_written_once_whatever_is_killed(
    client: headrace.Client, connectors: Connectors, topic: str, tmp_path: Path, point: str
) -> None:
    """The table has no key that would hide a repetition."""
    with contextlib.closing(sqlite3.connect(tmp_path / "rows.db", isolation_level=None)) as database:
        database.execute("CREATE TABLE rows (id INTEGER)")

        def found() -> list[int]:
            return [row[0] for row in database.execute("SELECT id FROM rows")]

        settings = f'path = "{tmp_path}/rows.db"\ntable = "rows"'
        written_once(client, connectors, topic, point, "sqlite", settings, found)
    letters = [letter.headers["x-dead-letter-offset"] for letter in client.read(topic, "t-dead") if letter.headers]
    assert 12 <= len(letters) <= 24


@pytest.mark.long(but=1)
@pytest.mark.parametrize("point", OF_THE_SINK)
def test_delta_tables_have_each_message_once_whatever_is_killed(
    client: headrace.Client, connectors: Connectors, topic: str, tmp_path: Path, point: str
) -> None:
    def found() -> list[int]:
        return list(DeltaTable(tmp_path / "table").to_pyarrow_table(columns=["id"])["id"].to_pylist())

    settings = f'path = "{tmp_path}/table"\ncolumns = {{ id = "int64" }}'
    written_once(client, connectors, topic, point, "delta", settings, found)


def ids(path: Path) -> list[int]:
    """Column `id` of all files of all partitions that count."""
    found: list[int] = []
    for directory in directories(path):
        for file in PartitionFiles(directory, "zstd").paths():
            found += pq.read_table(file, partitioning=None).column("id").to_pylist()
    return found


@pytest.mark.long
def test_two_processes_that_are_killed_in_turn_write_rows_once(
    client: headrace.Client,
    connectors: Connectors,
    shared_server: ServerProcess,
    database: psycopg.Connection,
    database_url: str,
    topic: str,
    tmp_path: Path,
) -> None:
    """Partitions change hands at each kill and each start, under load."""
    database.execute("CREATE TABLE rows (id int)")
    (tmp_path / "other").mkdir()
    other = Connectors(tmp_path / "other", url_of(shared_server.address))
    pipeline = (
        f'[sinks.a]\nplugin = "postgres"\nstream = "{topic}"\ntopic = "t"\nlinger = "5 ms"\nbatch_size = 20\n'
        f'[sinks.a.settings]\nurl = "{database_url}"\ntable = "public.rows"\n{FAST}'
    )
    count = "SELECT count(*) FROM rows"
    try:
        for process in (connectors, other):
            process.run(pipeline)
        for turn in range(6):
            send(client, topic, range(turn * 200, turn * 200 + 200))
            least = turn * 90
            until(lambda least=least: (database.execute(count).fetchone() or (0,))[0] >= least)  # type: ignore[misc]
            process = (connectors, other)[turn % 2]
            process.kill()
            process.run()
        expected = written(range(1200))
        until(lambda: (database.execute(count).fetchone() or (0,))[0] >= len(expected))
        for process in (connectors, other):
            assert process.stop() == 0
    finally:
        other.kill()
    assert sorted(row[0] for row in database.execute("SELECT id FROM rows").fetchall()) == expected


def test_a_sink_is_degraded_while_its_database_refuses_it_and_recovers(
    client: headrace.Client,
    connectors: Connectors,
    database: psycopg.Connection,
    database_url: str,
    topic: str,
) -> None:
    """A row that another transaction holds makes PostgreSQL answer with a timeout, which is tried again."""
    database.execute("CREATE TABLE rows (id int)")
    database.execute(f"ALTER DATABASE {database.info.dbname} SET lock_timeout = '20ms'")
    connectors.run(
        f'[sinks.a]\nplugin = "postgres"\nstream = "{topic}"\ntopic = "t"\nlinger = "5 ms"\n'
        f'[sinks.a.settings]\nurl = "{database_url}"\ntable = "public.rows"\n{FAST}'
    )
    connectors.becomes("a", "running")
    with database.transaction():
        database.execute("LOCK TABLE rows IN ACCESS EXCLUSIVE MODE")
        send(client, topic, range(9))
        status = connectors.becomes("a", "degraded")
        assert "lock timeout" in status["last_error"]
    connectors.becomes("a", "running")
    until(lambda: len(database.execute("SELECT id FROM rows").fetchall()) == 9)
