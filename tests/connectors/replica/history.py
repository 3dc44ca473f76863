"""One history: transactions of random tables, kills, and copies that have to be equal when they have caught up."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from unittest import mock

import psycopg
from psycopg import sql

from headrace_connectors.codecs.plain import JsonCodec
from headrace_connectors.contract import Batch, InvalidRecord, Received, Record, Unavailable
from headrace_connectors.sinks.postgres.settings import PostgresSinkSettings
from headrace_connectors.sinks.postgres.sink import PostgresSink
from headrace_connectors.sources.postgres import streaming
from headrace_connectors.sources.postgres.cdc import PostgresCdc
from headrace_connectors.sources.postgres.settings import CdcSettings
from tests.connectors.replica.tables import Table, mark, transaction
from tests.connectors.standalone.changes import MARKER
from tests.connectors.standalone.received import PLACE

_WAYS: tuple[dict[str, Any], ...] = ({}, {}, {"method": "functions"}, {"decoder": "test_decoding"})
_ATTEMPTS = 3000
_KILLED_ATTEMPTS = 300


class History:
    """Source and sink of the product by themselves, a topic in memory, and a database for tables and copies.

    Args:
        url: Address of an empty database.
        seed: Decides everything.
        crash: Ends the database server at once, and starts it again; None: it goes on.
    """

    def __init__(self, url: str, seed: int, crash: Callable[[], None] | None = None) -> None:
        self._draw = draw = random.Random(seed)
        self._url = url
        self._crash = crash
        self._is_exact = draw.random() < 0.7
        self._tables: list[Table] = []
        for number in range(draw.choice((1, 2, 3))):
            self._tables.append(Table.drawn(draw, number, self._tables, is_exact=self._is_exact))
        names = [f"public.{table.name}" for table in self._tables]
        draw.shuffle(names)
        self._source_settings = {
            "url": url,
            "slot": f"replica_{seed}",
            "tables": [*names, MARKER],
            "poll_interval": "1 ms",
            "batch_size": draw.choice((1, 3, 2000)),
            # Transactions are sent whole if changes may come again.
            "max_batch": draw.choice(("1 KiB", "16 MiB")) if self._is_exact else "16 MiB",
            **draw.choice(_WAYS),
        }
        copies = {f"public.{table.name}": f"copy.{table.name}" for table in self._tables}
        self._sink_settings = {"url": url, "mode": "apply_changes", "tables": copies, "ignore_unknown": True}
        self._codec = JsonCodec(JsonCodec.settings_type())
        self._topic: list[tuple[int, bytes]] = []
        self._staged: list[tuple[int, bytes]] = []
        self._state: bytes | None = None
        self._source: PostgresCdc | None = None
        self._sink: PostgresSink | None = None
        self._written = self._flushed = 0
        self._marker = 0
        self.kills: Counter[str] = Counter()
        """Number of kills of each kind."""

    async def run(self) -> None:
        """Run it.

        Raises:
            AssertionError: A copy has not the rows of its table.
        """
        with mock.patch.object(streaming, "_WAIT_SECONDS", 0.05), mock.patch.object(streaming, "_START_ATTEMPTS", 1200):
            try:
                await self._run()
            finally:
                await self._end_source()
                await self._end_sink()

    def _connect(self) -> psycopg.Connection[Any]:
        # The snapshot and the sink keep their locks until this thread goes on with them.
        return psycopg.connect(self._url, autocommit=True, options="-c lock_timeout=20ms")

    async def _run(self) -> None:
        draw = self._draw
        with self._connect() as database:
            database.execute("CREATE SCHEMA copy")
            database.execute(
                sql.SQL("CREATE TABLE {} (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY)").format(
                    sql.Identifier(*MARKER.split("."))
                )
            )
            for schema in ("public", "copy"):
                for table in self._tables:
                    table.create(database, schema)
            for _ in range(draw.randrange(4)):
                transaction(draw, database, self._tables)
        for _ in range(draw.choice((4, 8, 16))):
            with self._connect() as database:
                for _ in range(draw.randrange(4)):
                    transaction(draw, database, self._tables)
                if draw.random() < 0.15:
                    with suppress(psycopg.errors.LockNotAvailable):
                        draw.choice(self._tables).grow(draw, database)
            for _ in range(draw.randrange(8)):
                await draw.choice((self._read, self._write))()
            if draw.random() < 0.1:
                await self._kill_database()
            if draw.random() < 0.15:
                await self._catch_up()
                with suppress(psycopg.errors.LockNotAvailable), self._connect() as database:
                    draw.choice(self._tables).shrink(draw, database)
        await self._catch_up()

    async def _catch_up(self) -> None:
        for attempt in range(_ATTEMPTS):
            if self._state is not None:
                break
            # Killed at one row in twenty, a snapshot that is read row by row would never end.
            await self._read(is_spared=attempt >= _KILLED_ATTEMPTS)
        with self._connect() as database:
            mark(database)
            (last,) = database.execute("SELECT max(id) FROM last").fetchone() or (0,)
        for _ in range(_ATTEMPTS):
            if self._marker >= last:
                break
            await self._read()
        else:
            raise AssertionError("the last change does not arrive")
        for _ in range(_ATTEMPTS):
            if self._flushed == len(self._topic):
                break
            await self._write()
        else:
            raise AssertionError("the last change is not written")
        with self._connect() as database:
            for table in self._tables:
                copy, rows = table.rows(database, "copy"), table.rows(database, "public")
                assert copy == rows, (table, set(copy) ^ set(rows), self._is_exact)

    # ---- source

    async def _read(self, *, is_spared: bool = False) -> None:
        """Poll the source, and store what it has, unless it is killed before or after that."""
        try:
            if self._source is None:
                source = PostgresCdc(CdcSettings.model_validate(self._source_settings))
                source.keeps_incomplete = not self._is_exact
                self._source = source
                await source.open(self._state)
            batch = await self._source.poll()
            if batch is not None:
                await self._store(batch, 1.0 if is_spared else self._draw.random())
        except Unavailable:
            await self._end_source()

    async def _store(self, batch: Batch, chance: float) -> None:
        assert self._source is not None
        if chance < 0.05:
            await self._end_source("source")
            return
        self._staged += [(record.id, self._codec.encode(record.payload)) for record in batch.records]
        if batch.state is None and self._is_exact:
            # Rows of a snapshot count when all of them are read.
            await self._source.commit()
            return
        found, self._staged = self._staged, []
        if chance < 0.1 and not self._is_exact:
            # Killed between messages and state: what was sent comes again.
            found = self._first_transactions(found)
        else:
            self._state = batch.state or self._state
        self._topic += found
        for payload in (self._codec.decode(payload) for _, payload in found):
            if payload["table"] == MARKER and payload["op"] == "insert":
                self._marker = max(self._marker, payload["row"]["id"])
        if chance < 0.15:
            await self._end_source("source")
        else:
            await self._source.commit()

    def _first_transactions(self, found: list[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
        """Return the messages of some transactions: one that comes again in part is not for `at_least_once`."""
        places = [self._codec.decode(payload)["lsn"] for _, payload in found]
        ends = [n for n in range(1, len(places)) if places[n] != places[n - 1]]
        return found[: self._draw.choice([0, *ends, len(found)])]

    async def _end_source(self, kind: str | None = None) -> None:
        self._staged = []
        if self._source is not None:
            source, self._source = self._source, None
            await source.close()
        if kind is not None:
            self.kills[kind] += 1

    # ---- sink

    async def _write(self) -> None:
        """Write some messages, and make them durable, unless it is killed before or after that."""
        part = self._topic[self._written : self._written + self._draw.choice((1, 2, 5, 100))]
        try:
            if self._sink is None:
                self._sink = PostgresSink(PostgresSinkSettings.model_validate(self._sink_settings))
                await self._sink.open()
                self._written = self._flushed = (await self._sink.positions([PLACE])).get(PLACE, 0)
                return
            await self._sink.write(
                [
                    Received(Record(self._codec.decode(payload), id=id_), PLACE, self._written + number, 0, None)
                    for number, (id_, payload) in enumerate(part)
                ]
            )
            self._written += len(part)
            chance = self._draw.random()
            if chance < 0.05:
                await self._end_sink("sink")
            elif chance < 0.7 or self._written == len(self._topic):
                await self._sink.flush({PLACE: self._written})
                self._flushed = self._written
                if chance < 0.1:
                    await self._end_sink("sink")
        except InvalidRecord as error:
            raise AssertionError(f"a change is refused: {error}") from error
        except Unavailable:
            await self._end_sink()

    async def _end_sink(self, kind: str | None = None) -> None:
        if self._sink is not None:
            sink, self._sink = self._sink, None
            await sink.close()
        if kind is not None:
            self.kills[kind] += 1

    async def _kill_database(self) -> None:
        """End the server, or the connections of source and sink."""
        if self._crash is not None and self._draw.random() < 0.3:
            await asyncio.to_thread(self._crash)
            self.kills["server"] += 1
            return
        with suppress(psycopg.OperationalError), self._connect() as database:
            database.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'headrace%'"
            )
        self.kills["connections"] += 1


def run_history(server: str, seed: int, crash: Callable[[], None] | None = None) -> Counter[str]:
    """Run a history in a database of its own, and return the number of kills of each kind.

    Args:
        server: Address of the database server.
        seed: Decides everything.
        crash: As of `History`.

    Raises:
        AssertionError: A copy has not the rows of its table.
    """
    name = f"replica_{seed}"
    with psycopg.connect(f"{server}/postgres", autocommit=True) as administration:
        administration.execute(f"CREATE DATABASE {name}")
    history = History(f"{server}/{name}", seed, crash)
    try:
        asyncio.run(history.run())
    finally:
        with psycopg.connect(f"{server}/postgres", autocommit=True) as administration:
            administration.execute(
                "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE datname = %s", (name,)
            )
            administration.execute(
                "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = %s", (name,)
            )
            administration.execute(f"DROP DATABASE {name} WITH (FORCE)")
    return history.kills
