"""Connectors: rows per second of sources and sinks, fan-out, and dispatch of single messages in the same run."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import psycopg

import headrace
from tests.performance.results.metrics import Metric, at_least, at_most, ratios
from tests.performance.results.section import Section
from tests.performance.rounds import Turn, alternate
from tests.performance.workbench import Workbench
from tests.postgresql import empty_database, postgresql_address
from tests.server_process import PASSWORD, USERNAME, ServerProcess

_ROOT: Final = Path(__file__).resolve().parents[3]
_DESTINATIONS: Final = 50
_BATCH: Final = 5000
_ONE_BY_ONE: Final = "polling, each message by itself"
_ONCE: Final = "polling, exactly once"
_SPREAD: Final = f"polling, {_DESTINATIONS} topics"
_SINGLE: Final = "polling, one topic"
_numbers = itertools.count()


def run(bench: Workbench) -> Section:
    """Measure the case."""
    rows = max(1000, bench.scale.large_bytes // 50_000)
    with bench.server("connectors") as server, postgresql_address() as address, empty_database(address) as database:
        load = _Load(bench, server, database, f"{address}/{database.info.dbname}", rows)
        with load.prepared():
            samples = alternate(load.turns(), bench.scale.rounds, bench.started)
    metrics = [Metric(name, tuple(values), "rows/s") for name, values in samples.items()]
    single = samples[_SINGLE]
    metrics += [
        Metric(
            f"time of {_DESTINATIONS} topics, one topic = 1",
            ratios(single, samples[_SPREAD]),
            goal=at_most(1.3),
        ),
        Metric("rows/s, each message by itself = 1", ratios(single, samples[_ONE_BY_ONE]), goal=at_least(1.0)),
        Metric("rows/s exactly once, at least once = 1", ratios(samples[_ONCE], single)),
    ]
    return Section(
        name="connectors",
        title="sources and sinks of connectors",
        metrics=metrics,
        notes=[
            (
                f"{rows:,} rows of about 100 B as JSON, batches of {_BATCH:,}, from the start of the connector until "
                "the last row is stored. PostgreSQL, server and connector are on this machine. Single messages: each "
                "is sent and awaited, a tenth of the rows. Topics exist."
            )
        ],
    )


class _Load:
    def __init__(
        self, bench: Workbench, server: ServerProcess, database: psycopg.Connection, url: str, rows: int
    ) -> None:
        self._directory = bench.directory
        self._server = server
        self._database = database
        self._url = url
        self._rows = rows

    @contextmanager
    def prepared(self) -> Iterator[None]:
        """Fill the table, and a topic with the same rows."""
        execute = self._database.execute
        execute("CREATE TABLE rows (id int PRIMARY KEY, topic text, name text, amount int)")
        execute(
            "INSERT INTO rows SELECT n, 't' || n %% %s, 'customer ' || md5(n::text), n FROM generate_series(1, %s) n",
            (_DESTINATIONS, self._rows),
        )
        execute("CREATE TABLE copies (id int, topic text, name text, amount int)")
        execute("CREATE PUBLICATION bench FOR TABLE rows")
        execute("ANALYZE rows")
        with headrace.connect(self._server.address, username=USERNAME, password=PASSWORD) as client:
            client.create_stream("filled")
            client.create_topic("filled", "t")
            with client.producer("filled", "t") as producer:
                for n in range(self._rows):
                    row = {"id": n, "topic": "t", "name": f"customer {n:032}", "amount": n}
                    producer.send(json.dumps(row).encode())
                producer.flush()
            yield

    def turns(self) -> Mapping[str, Turn[float]]:
        """All candidates."""
        spread = 'routing = { topic_column = "topic", default_stream = "STREAM", default_topic = "t" }'
        single = 'stream = "STREAM"\ntopic = "t"'
        exactly_once = '[sources.a.delivery]\nguarantee = "exactly_once"\n'
        return {
            _SINGLE: lambda: {_SINGLE: self._polling(single)},
            _SPREAD: lambda: {_SPREAD: self._polling(spread)},
            _ONCE: lambda: {_ONCE: self._polling(single, exactly_once)},
            _ONE_BY_ONE: lambda: {_ONE_BY_ONE: self._polling(single, one_by_one=True)},
            "change data capture": lambda: {"change data capture": self._changes()},
            "sink PostgreSQL": lambda: {"sink PostgreSQL": self._sink(self._into_postgresql())},
            "sink Parquet": lambda: {"sink Parquet": self._sink(self._into_parquet())},
        }

    def _polling(self, place: str, more: str = "", *, one_by_one: bool = False) -> float:
        count = self._rows // 10 if one_by_one else self._rows
        settings = (
            f'url = "{self._url}"\ntable = "public.rows"\ncursor_column = "id"\nbatch_size = {_BATCH}\n'
            'poll_interval = "10 ms"\n'
        )
        return self._source("postgres", place, settings + more, count, one_by_one=one_by_one)

    def _changes(self) -> float:
        slot = f"bench{next(_numbers)}"
        execute = self._database.execute
        execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", (slot,))
        try:
            execute("UPDATE rows SET amount = amount + 1")
            settings = (
                f'url = "{self._url}"\nslot = "{slot}"\npublication = "bench"\ntables = ["public.rows"]\n'
                f'snapshot = "never"\nbatch_size = {_BATCH}\npoll_interval = "10 ms"\n'
            )
            return self._source("postgres_cdc", 'stream = "STREAM"\ntopic = "t"', settings, self._rows)
        finally:
            execute("SELECT pg_drop_replication_slot(%s)", (slot,))

    def _source(self, plugin: str, place: str, settings: str, count: int, *, one_by_one: bool = False) -> float:
        stream = f"s{next(_numbers)}"
        with headrace.connect(self._server.address, username=USERNAME, password=PASSWORD) as client:
            client.create_stream(stream)
            for topic in ("t", *(f"t{number}" for number in range(_DESTINATIONS))):
                client.create_topic(stream, topic)
        pipeline = f'[sources.a]\nplugin = "{plugin}"\n{place}\n[sources.a.settings]\n{settings}'
        try:
            return self._rate(pipeline.replace("STREAM", stream), count, *(["one-by-one"] if one_by_one else []))
        finally:
            with headrace.connect(self._server.address, username=USERNAME, password=PASSWORD) as client:
                client.delete_stream(stream)

    def _into_postgresql(self) -> str:
        self._database.execute("TRUNCATE copies")
        return f'plugin = "postgres"\nSHARED\n[sinks.a.settings]\nurl = "{self._url}"\ntable = "public.copies"\n'

    def _into_parquet(self) -> str:
        path = self._directory / f"files{next(_numbers)}"
        return f'plugin = "parquet"\nSHARED\n[sinks.a.settings]\npath = "{path}"\n'

    def _sink(self, sink: str) -> float:
        shared = f'stream = "filled"\ntopic = "t"\ngroup = "g{next(_numbers)}"\nbatch_size = {_BATCH}'
        self._database.execute("DROP TABLE IF EXISTS headrace_offsets")
        return self._rate(f"[sinks.a]\n{sink.replace('SHARED', shared)}", self._rows)

    def _rate(self, pipeline: str, count: int, *shape: str) -> float:
        directory = self._directory / f"connector{next(_numbers)}"
        directory.mkdir()
        file = directory / "pipeline.toml"
        server = f'url = "headrace://{self._server.address}"\nusername = "{USERNAME}"\npassword = "{PASSWORD}"\n'
        top = f'[server]\n{server}[http]\naddress = "127.0.0.1:0"\n[runtime]\nstate_directory = "state"\n'
        file.write_text(top + pipeline, encoding="utf-8")
        command = [sys.executable, "-m", "tests.performance.loads.connector_load", str(file), str(count), *shape]
        done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False)
        if done.returncode:
            raise AssertionError(done.stderr)
        result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
        return result["messages"] / result["seconds"]
