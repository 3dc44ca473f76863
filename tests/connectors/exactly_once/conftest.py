"""A table that grows, a source of its changes that writes exactly once, and two processes that share it."""

from __future__ import annotations

import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

import headrace
from tests.connectors.process import Connectors, until
from tests.connectors.test_commits import messages
from tests.sdk.conftest import url_of
from tests.server_process import ServerProcess

LEASE = "20 s"
"""Lease of a process that keeps its source, however slow the machine is."""


class Rows:
    """A table whose changes go to a topic.

    Args:
        database: Database of the table.
        url: Its address.
        client: Client of the server.
        stream: Stream of the topic.
    """

    def __init__(self, database: psycopg.Connection, url: str, client: headrace.Client, stream: str) -> None:
        self._database = database
        # The slot of a suspended process is free after this time.
        self._url = f"{url}?options=-c%20wal_sender_timeout%3D2s"
        self._client = client
        self._stream = stream
        database.execute("CREATE TABLE rows (id serial PRIMARY KEY, done bool)")

    def pipeline(self, *, lease: str | None = None, isolation: str = "task", more: str = "") -> str:
        """Pipeline file, with settings of the source at its end; without a lease it is not shared."""
        group = ""
        if lease is not None:
            group = f'[sharing]\ngroup = "g"\nstream = "{self._stream}-leases"\nlease = "{lease}"\n'
        return (
            f'{group}[sources.a]\nplugin = "postgres_cdc"\nstream = "{self._stream}"\ntopic = "t"\n'
            f'isolation = "{isolation}"\n[sources.a.delivery]\nguarantee = "exactly_once"\n'
            'backoff_min = "5 ms"\nbackoff_max = "50 ms"\n'
            f'[sources.a.settings]\nurl = "{self._url}"\nslot = "{self._database.info.dbname}"\n'
            f'tables = ["public.rows"]\nsnapshot = "never"\npoll_interval = "10 ms"\n{more}'
        )

    def insert(self, count: int = 1) -> int:
        """Commit more rows in one transaction; return the number of all rows."""
        self._database.execute("INSERT INTO rows SELECT FROM generate_series(1, %s)", (count,))
        (total,) = self._database.execute("SELECT count(*) FROM rows").fetchone() or (0,)
        return int(total)

    def insert_until(self, condition: Callable[[], bool]) -> None:
        """Commit one row after the other until a condition holds."""

        def holds() -> bool:
            self.insert()
            return condition()

        until(holds)

    def has_slot(self) -> bool:
        """True if the source has begun to read."""
        # A slot is listed before it has found its beginning: rows of this time are never read.
        slots = "SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE database = current_database()"
        return (self._database.execute(slots).fetchone() or (None,))[0] is not None

    def stored(self) -> Counter[int]:
        """Rows in the topic, with the number of messages of each."""
        return Counter(row for row, _ in messages(self._client, self._stream))

    def stored_once(self, count: int) -> None:
        """Wait for a number of rows, and check that each is there once."""
        until(lambda: len(self.stored()) >= count)
        assert self.stored() == Counter(range(1, count + 1))


@pytest.fixture
def rows(database: psycopg.Connection, database_url: str, client: headrace.Client, stream: str) -> Rows:
    """A table without rows."""
    return Rows(database, database_url, client, stream)


@pytest.fixture
def pair(shared_server: ServerProcess, tmp_path: Path) -> Iterator[tuple[Connectors, Connectors]]:
    """Two processes; not started."""
    processes = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        processes.append(Connectors(tmp_path / name, url_of(shared_server.address)))
    yield processes[0], processes[1]
    for process in processes:
        process.send_signal(signal.SIGCONT)
        process.kill()
        sys.stdout.write(process.tail())
