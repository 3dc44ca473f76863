"""One run: a workload, kills, and what has to be true at the end."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pyarrow.parquet as pq

import headrace
from headrace_connectors.sinks.parquet.partition import PartitionFiles
from tests.connectors.process import Connectors
from tests.connectors.soak.workload import LAST_ID, TABLES, Workload, create_tables
from tests.postgresql import USER, PostgresqlServer
from tests.sdk.conftest import url_of
from tests.server_process import ServerProcess

STREAM = "shop"
_POLL_SECONDS = 0.1
_KINDS = ("runtime", "server", "database")


@dataclass
class Outcome:
    """Result of a run."""

    changes: int = 0
    transactions: int = 0
    messages: int = 0
    """Messages in the topics."""
    repeated: int = 0
    """Messages in the topics that another one has the id of."""
    kills: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_KINDS, 0))
    seconds: float = 0.0
    """Time from the first change until both sinks had the last one."""
    problems: list[str] = field(default_factory=list)

    def report(self) -> str:
        """Describe it in a few lines."""
        kills = ", ".join(f"{kind} {count}" for kind, count in self.kills.items())
        lines = [
            f"{self.changes} changes in {self.transactions} transactions",
            f"{self.seconds:.0f} s, {self.changes / max(self.seconds, 1e-9):.0f} changes/s",
            f"{self.messages} messages, {self.repeated} of them repeated; kills: {kills}",
            *(f"PROBLEM: {problem}" for problem in self.problems),
        ]
        return "\n".join(lines)


def pipeline(database: PostgresqlServer, files: Path) -> str:
    """Pipeline file from the shop to its copy and to files."""
    url = f"postgresql://{USER}@127.0.0.1:{database.port}"
    topics = ", ".join(f'{{ stream = "{STREAM}", topic = "{table}" }}' for table in TABLES)
    names = ", ".join(f'"public.{table}"' for table in TABLES)
    routes = "\n".join(f'"public.{table}" = {{ stream = "{STREAM}", topic = "{table}" }}' for table in TABLES)
    retries = 'backoff_min = "20 ms"\nbackoff_max = "500 ms"\n'
    return (
        f'[sources.shop]\nplugin = "postgres_cdc"\n[sources.shop.settings]\nurl = "{url}/shop"\nslot = "shop"\n'
        f'tables = [{names}]\nsnapshot = "never"\nmax_batch = "256 KiB"\n[sources.shop.delivery]\n{retries}'
        f"[sources.shop.routing.by_table]\n{routes}\n"
        f'[sinks.copy]\nplugin = "postgres"\ntopics = [{topics}]\nlinger = "50 ms"\n[sinks.copy.settings]\n'
        f'url = "{url}/copy"\nmode = "apply_changes"\n[sinks.copy.delivery]\n{retries}'
        f'[sinks.files]\nplugin = "parquet"\ntopics = [{topics}]\nlinger = "1 s"\nbatch_size = 5000\n'
        f'[sinks.files.settings]\npath = "{files}"\n[sinks.files.delivery]\n{retries}'
    )


class Run:
    """A server, a database and connectors, which are killed at random.

    Args:
        directory: Directory for everything.
        seed: Decides the changes, and which process is killed when.
        changes_count: Number of changes.
        kills_count: Number of kills.
        say: Gets lines of progress.
        transaction_max: Number of rows of the largest statements.
    """

    def __init__(
        self,
        directory: Path,
        seed: int,
        changes_count: int,
        kills_count: int,
        say: Callable[[str], None],
        *,
        transaction_max: int = 500,
    ) -> None:
        self._directory = directory
        self._draw = random.Random(seed)
        self._seed = seed
        self._changes_count = changes_count
        self._kills_count = kills_count
        self._say = say
        self._transaction_max = transaction_max
        self._files = directory / "files"
        self._database = PostgresqlServer()
        self._server = ServerProcess(directory / "server")
        self._connectors: Connectors | None = None
        self.outcome = Outcome()

    def _url(self, name: str) -> str:
        return f"postgresql://{USER}@127.0.0.1:{self._database.port}/{name}"

    def run(self) -> Outcome:
        """Run it, and check everything.

        Raises:
            AssertionError: The end is not reached in time.
        """
        self._database.start()
        try:
            self._prepare()
            self._server.start()
            connectors = self._connectors = Connectors(self._directory, url_of(self._server.address))
            with headrace.connect(url_of(self._server.address)) as client:
                client.create_stream(STREAM)
                for table in TABLES:
                    client.create_topic(STREAM, table, partitions=1)
            connectors.run(pipeline(self._database, self._files))
            try:
                self._go(connectors)
            finally:
                connectors.kill()
                self._server.kill()
        finally:
            self._database.crash()
            self._database.close()
        return self.outcome

    def _prepare(self) -> None:
        for name in ("shop", "copy"):
            with psycopg.connect(self._url("postgres"), autocommit=True) as database:
                database.execute(f"CREATE DATABASE {name}")
            with psycopg.connect(self._url(name), autocommit=True) as database:
                create_tables(database, is_source=name == "shop")

    def _go(self, connectors: Connectors) -> None:
        self._until("the slot", lambda: self._query("shop", "SELECT 1 FROM pg_replication_slots"))
        began = time.monotonic()
        workload = Workload(self._url("shop"), self._seed, self._changes_count, self._transaction_max)
        workload.start()
        try:
            for number in range(self._kills_count):
                # The next kill comes when the copy has the next part of the changes, and the source is ahead of it.
                part = self._changes_count // (self._kills_count + 1)
                workload.allow(part * (number + 3))
                self._until("progress of the copy", partial(self._has_written, part * number))
                self._kill_one(connectors, workload)
            workload.allow(10 * self._changes_count)
            self._until("the last transaction", lambda: not workload.is_alive())
            self._until("the last changes in the copy", self._copy_is_complete, 1800)
            self._until("the last messages in files", self._files_are_complete, 1800)
        finally:
            workload.stop()
        self.outcome.seconds = time.monotonic() - began
        self.outcome.changes, self.outcome.transactions = workload.changes_count, workload.transactions_count
        if (status := connectors.stop()) != 0:
            self.outcome.problems.append(f"the connectors ended with status {status}")
        self._check()

    def _kill_one(self, connectors: Connectors, workload: Workload) -> None:
        time.sleep(self._draw.uniform(0.0, 0.7))
        kind = self._draw.choice(_KINDS)
        self.outcome.kills[kind] += 1
        if kind == "runtime":
            connectors.kill()
            connectors.run()
        elif kind == "server":
            self._server.kill()
            self._server.start()
        else:
            self._database.crash()
            self._database.start()
        done = sum(self.outcome.kills.values())
        if done % 10 == 0:
            self._say(f"{done} kills, {workload.changes_count} changes committed, {self._written()} in the copy")

    # ---- waiting

    def _until(self, what: str, condition: Callable[[], Any], seconds: float = 300.0) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert self._connectors is not None
            assert time.monotonic() < deadline, f"seed {self._seed}: no {what} in time\n{self._connectors.tail()}"
            time.sleep(_POLL_SECONDS)

    def _query(self, name: str, statement: str) -> list[tuple[Any, ...]]:
        try:
            with psycopg.connect(self._url(name), autocommit=True) as database:
                return database.execute(statement).fetchall()
        except (psycopg.OperationalError, psycopg.errors.UndefinedTable):
            return []

    def _written(self) -> int:
        """Number of messages that the copy has."""
        rows = self._query("copy", "SELECT sum(next_offset)::bigint FROM headrace_offsets")
        return rows[0][0] or 0 if rows else 0

    def _has_written(self, count: int) -> bool:
        return self._written() > count

    def _copy_is_complete(self) -> bool:
        return all(self._query("copy", f"SELECT 1 FROM {table} WHERE id = {LAST_ID}") for table in TABLES)

    def _files_are_complete(self) -> bool:
        with headrace.connect(url_of(self._server.address)) as client:
            counts = {table: client.topic(STREAM, table).messages_count for table in TABLES}
        return all(self._stored(table) == count for table, count in counts.items())

    def _stored(self, table: str) -> int:
        try:
            return int(json.loads((self._directory_of(table) / "manifest.json").read_bytes())["next_offset"])
        except FileNotFoundError:
            return 0

    def _directory_of(self, table: str) -> Path:
        return self._files / f"stream={STREAM}" / f"topic={table}" / "partition=0"

    # ---- checks

    def _check(self) -> None:
        ids: set[int] = set()
        with headrace.connect(url_of(self._server.address)) as client:
            for table in TABLES:
                messages = [(one.id, one.payload) for one in client.read(STREAM, table, count=10**9)]
                self.outcome.messages += len(messages)
                ids |= {number for number, _ in messages}
                self._check_files(table, [payload for _, payload in messages])
                self._check_copy(table)
        self.outcome.repeated = self.outcome.messages - len(ids)
        if len(ids) != self.outcome.changes:
            self.outcome.problems.append(f"{len(ids)} different messages in topics, of {self.outcome.changes} changes")
        dead = [json.dumps(self._status_of(key)) for key in ("copy", "files")]
        self.outcome.problems += [one for one in dead if one != "null"]

    def _status_of(self, key: str) -> Any:
        with headrace.connect(url_of(self._server.address)) as client:
            letters = [topic.name for topic in client.topics(STREAM) if topic.name not in TABLES]
        return {key: letters} if letters else None

    def _check_files(self, table: str, payloads: list[bytes]) -> None:
        rows: list[tuple[int, str]] = []
        for path in PartitionFiles(self._directory_of(table), "zstd").paths():
            found = pq.read_table(path, partitioning=None)
            rows += zip(found.column("_offset").to_pylist(), found.column("payload").to_pylist(), strict=True)
        rows.sort()
        if [offset for offset, _ in rows] != list(range(len(payloads))):
            self.outcome.problems.append(f"{table}: files have {len(rows)} rows, of {len(payloads)} messages")
        elif any(text.encode() != payload for (_, text), payload in zip(rows, payloads, strict=True)):
            self.outcome.problems.append(f"{table}: files have other payloads than the topic")

    def _check_copy(self, table: str) -> None:
        rows = f"SELECT * FROM {table} ORDER BY id"
        source, copy = self._query("shop", rows), self._query("copy", rows)
        if source != copy:
            differing = {row[0] for row in set(source) ^ set(copy)}
            self.outcome.problems.append(
                f"{table}: {len(copy)} rows in the copy, {len(source)} at the source, {len(differing)} keys differ"
            )
