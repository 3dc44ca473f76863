"""One run: a workload, kills, and what has to be true at the end."""

from __future__ import annotations

import json
import random
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import psycopg

import headrace
from tests.connectors.soak.checks import Message, Topics, copy_problem, files_problem
from tests.connectors.soak.runtimes import Runtimes
from tests.connectors.soak.variants import LEASE_SECONDS, SOURCE, Kind, Variant
from tests.connectors.soak.workload import LAST_ID, TABLES, Workload, create_tables, insert_first_rows
from tests.postgresql import USER, PostgresqlServer
from tests.sdk.conftest import url_of
from tests.server_process import ServerProcess

_POLL_SECONDS = 0.1
_SHARED = {"HEARTBEAT_ENABLED": "true", "HEARTBEAT_INTERVAL": "2 s"}
"""A suspended process loses its partitions as it loses its leases."""
_SENDER_TIMEOUT = "3s"
"""Time after which the database gives the slot of a suspended process to another one."""


@dataclass
class Outcome:
    """Result of a run."""

    changes: int = 0
    transactions: int = 0
    messages: int = 0
    """Messages in the topics."""
    repeated: int = 0
    """Messages in the topics that another one has the id of."""
    kills: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    """Time from the first change until both sinks had the last one."""
    problems: list[str] = field(default_factory=list)
    command: str = ""
    """The command that repeats it."""

    def report(self) -> str:
        """Describe it in a few lines."""
        kills = ", ".join(f"{kind} {count}" for kind, count in self.kills.items())
        lines = [
            f"{self.changes} changes in {self.transactions} transactions",
            f"{self.seconds:.0f} s, {self.changes / max(self.seconds, 1e-9):.0f} changes/s",
            f"{self.messages} messages, {self.repeated} of them repeated; kills: {kills}",
            *(f"PROBLEM: {problem}" for problem in self.problems),
            *([f"repeat it with: {self.command}"] if self.problems else []),
        ]
        return "\n".join(lines)


class Run:
    """A server, a database and connectors, which are killed at random.

    Args:
        directory: Directory for everything.
        seed: Decides the changes, and which process is killed when.
        changes_count: Number of changes.
        kills_count: Number of kills.
        say: Gets lines of progress.
        variant: The way of running it.
        transaction_max: Number of rows of the largest statements.
    """

    def __init__(
        self,
        directory: Path,
        seed: int,
        changes_count: int,
        kills_count: int,
        say: Callable[[str], None],
        variant: Variant,
        *,
        transaction_max: int = 500,
    ) -> None:
        self._directory = directory
        self._draw = random.Random(seed)
        self._seed = seed
        self._changes_count = changes_count
        self._kills_count = kills_count
        self._say = say
        self._variant = variant
        self._topics = variant.topics
        self._transaction_max = transaction_max
        self._files = directory / "files"
        self._database = PostgresqlServer()
        self._server = ServerProcess(directory / "server", _SHARED if variant.is_shared else None)
        self._runtimes: Runtimes | None = None
        command = (
            f"python -m tests.connectors.soak --changes {changes_count} --kills {kills_count} --seed {seed} "
            f"--transaction-max {transaction_max} {variant.arguments()}"
        )
        self.outcome = Outcome(kills=dict.fromkeys(variant.kinds, 0), command=command)

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
            count = 2 if self._variant.is_shared else 1
            url = url_of(self._server.address)
            runtimes = self._runtimes = Runtimes(self._directory, url, count, self._draw)
            with headrace.connect(url) as client:
                for stream in dict.fromkeys(self._topics.values()):
                    client.create_stream(stream)
                for table, stream in self._topics.items():
                    client.create_topic(stream, table, partitions=1)
            runtimes.run(self._variant.pipeline(self._database, self._files))
            try:
                self._go(runtimes)
            finally:
                runtimes.kill()
                self._server.kill()
        finally:
            self._database.crash()
            self._database.close()
        return self.outcome

    def _prepare(self) -> None:
        for name in ("shop", "copy"):
            with psycopg.connect(self._url("postgres"), autocommit=True) as database:
                database.execute(f"CREATE DATABASE {name}")
            is_source = name == "shop"
            with psycopg.connect(self._url(name), autocommit=True) as database:
                create_tables(database, is_source=is_source)
                if is_source and self._variant.has_rows:
                    insert_first_rows(database, self._changes_count)
                if self._variant.is_shared:
                    database.execute(f"ALTER DATABASE {name} SET wal_sender_timeout = '{_SENDER_TIMEOUT}'")

    def _go(self, runtimes: Runtimes) -> None:
        # A slot is listed before it has found its beginning: changes of this time are never read.
        slots = "SELECT 1 FROM pg_replication_slots WHERE confirmed_flush_lsn IS NOT NULL"
        self._until("the slot", lambda: self._query("shop", slots))
        began = time.monotonic()
        workload = Workload(self._url("shop"), self._seed, self._changes_count, self._transaction_max)
        workload.start()
        try:
            part = self._changes_count // (self._kills_count + 1)
            workload.allow(2 * part)
            # Rows that exist are in topics and in the copy when all of them are read.
            kills_before_progress = min(3, self._kills_count) if self._variant.has_rows else 0
            for number in range(self._kills_count):
                # The next kill comes when the copy has the next part of the changes, and while more are committed.
                if number >= kills_before_progress:
                    self._until("progress of the copy", partial(self._has_written, part * number))
                workload.allow(part * (number + 3))
                self._kill_one(runtimes, workload)
            workload.allow(10 * self._changes_count)
            self._until("the last transaction", lambda: not workload.is_alive())
            self._until("the last changes in the copy", self._copy_is_complete, 1800)
            self._until("the last messages in files", self._files_are_complete, 1800)
        finally:
            workload.stop()
        self.outcome.seconds = time.monotonic() - began
        self.outcome.changes, self.outcome.transactions = workload.changes_count, workload.transactions_count
        self.outcome.problems += [f"connectors ended with status {status}" for status in runtimes.stop()]
        self._check()

    def _kill_one(self, runtimes: Runtimes, workload: Workload) -> None:
        time.sleep(self._draw.uniform(0.0, 0.7))
        kind: Kind = self._draw.choice(self._variant.kinds)
        self.outcome.kills[kind] += 1
        match kind:
            case "runtime":
                runtimes.kill_one()
            case "worker":
                runtimes.kill_worker()
            case "suspension":
                runtimes.suspend_one()
            case "stall":
                # Leases end meanwhile, and outcomes stay unknown.
                self._server.process.send_signal(signal.SIGSTOP)
                time.sleep(LEASE_SECONDS * self._draw.uniform(0.1, 1.5))
                self._server.process.send_signal(signal.SIGCONT)
            case "server":
                self._server.kill()
                self._server.start()
            case "database":
                self._database.crash()
                self._database.start()
        done = sum(self.outcome.kills.values())
        if done % 10 == 0:
            self._say(f"{done} kills, {workload.changes_count} changes committed, {self._written()} in the copy")

    # ---- waiting

    def _until(self, what: str, condition: Callable[[], Any], seconds: float = 300.0) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert self._runtimes is not None
            assert time.monotonic() < deadline, (
                f"no {what} in time; repeat it with: {self.outcome.command}\n{self._runtimes.tail()}"
            )
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
            counts = {table: client.topic(stream, table).messages_count for table, stream in self._topics.items()}
        return all(self._stored(table) == count for table, count in counts.items())

    def _stored(self, table: str) -> int:
        try:
            return int(json.loads((self._directory_of(table) / "manifest.json").read_bytes())["next_offset"])
        except FileNotFoundError:
            return 0

    def _directory_of(self, table: str) -> Path:
        return self._files / f"stream={self._topics[table]}" / f"topic={table}" / "partition=0"

    # ---- checks

    def _check(self) -> None:
        topics, outcome = Topics(SOURCE), self.outcome
        with headrace.connect(url_of(self._server.address)) as client:
            for table, stream in self._topics.items():
                messages = [Message(one.id, one.payload) for one in client.read(stream, table, count=10**9)]
                topics.add(table, messages)
                rows = f"SELECT * FROM {table} ORDER BY id"
                for problem in (
                    files_problem(self._directory_of(table), [one.payload for one in messages]),
                    copy_problem(self._query("shop", rows), self._query("copy", rows)),
                ):
                    outcome.problems += [] if problem is None else [f"{table}: {problem}"]
            streams = dict.fromkeys(self._topics.values())
            others = [topic.name for stream in streams for topic in client.topics(stream) if topic.name not in TABLES]
        outcome.problems += [f"there are dead letters in {topic}" for topic in others]
        outcome.messages, outcome.repeated = topics.count, topics.repeated
        # Changes before the snapshot come as its rows.
        changes_count = None if self._variant.has_rows else outcome.changes
        outcome.problems += topics.problems(changes_count, is_exact=self._variant.is_exact)
