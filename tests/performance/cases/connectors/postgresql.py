"""Sources and the sink of PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import psycopg

from tests.performance.cases.connectors.runs import BATCH, DESTINATIONS, ONE_BY_ONE, SINGLE, Measurements, Runs, unique
from tests.postgresql import empty_database, postgresql_address

POLLING: Final = "source postgres"
SPREAD: Final = f"{POLLING}, {DESTINATIONS} topics"
ONCE: Final = f"{POLLING}, exactly once"
_CHANGES: Final = "source postgres_cdc"
_SINK: Final = "sink postgres"
_WRITTEN_ONE_BY_ONE: Final = 1000
_SPREAD_PLACE: Final = 'routing = { topic_column = "topic", default_stream = "STREAM", default_topic = "t" }'
_EXACTLY_ONCE: Final = '[sources.a.delivery]\nguarantee = "exactly_once"\n'


class Postgresql(Measurements):
    """Rows of a table into topics and back, with a server of this machine."""

    def __init__(self, runs: Runs) -> None:
        super().__init__(runs)
        self._database: psycopg.Connection | None = None
        self._url = ""

    def turns(self) -> Mapping[str, Callable[[], Mapping[str, float]]]:
        """Return the measurements."""
        single, tenth = self.runs.rows, self.runs.rows // 10
        return {
            POLLING: lambda: {POLLING: self._polling(single)},
            SPREAD: lambda: {SPREAD: self._polling(single, place=_SPREAD_PLACE)},
            ONCE: lambda: {ONCE: self._polling(single, _EXACTLY_ONCE)},
            POLLING + ONE_BY_ONE: lambda: {POLLING + ONE_BY_ONE: self._polling(tenth, one_by_one=True)},
            _CHANGES: lambda: {_CHANGES: self._changes()},
            _SINK: lambda: {_SINK: self._sink()},
            _SINK + ONE_BY_ONE: lambda: {_SINK + ONE_BY_ONE: self._sink(_WRITTEN_ONE_BY_ONE, batch=1)},
        }

    @contextmanager
    def prepared(self) -> Iterator[None]:
        """Fill the table."""
        with postgresql_address() as address, empty_database(address) as database:
            self._database, self._url = database, f"{address}/{database.info.dbname}"
            self._execute("CREATE TABLE rows (id int PRIMARY KEY, topic text, name text, amount int)")
            self._execute(
                "INSERT INTO rows SELECT n, 't' || n %% %s, 'customer ' || md5(n::text), n FROM "
                "generate_series(1, %s) n",
                (DESTINATIONS, self.runs.rows),
            )
            self._execute("CREATE TABLE copies (id int, topic text, name text, amount int)")
            self._execute("CREATE PUBLICATION bench FOR TABLE rows")
            self._execute("ANALYZE rows")
            yield

    def _execute(self, statement: str, values: tuple[object, ...] | None = None) -> None:
        assert self._database is not None
        self._database.execute(statement.encode(), values)

    def _polling(self, count: int, more: str = "", *, place: str = SINGLE, one_by_one: bool = False) -> float:
        settings = (
            f'url = "{self._url}"\ntable = "public.rows"\ncursor_column = "id"\nbatch_size = {BATCH}\n'
            'poll_interval = "10 ms"\n'
        )
        return self.runs.source("postgres", settings + more, count, place=place, one_by_one=one_by_one)

    def _changes(self) -> float:
        slot = unique("bench")
        self._execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", (slot,))
        try:
            self._execute("UPDATE rows SET amount = amount + 1")
            settings = (
                f'url = "{self._url}"\nslot = "{slot}"\npublication = "bench"\ntables = ["public.rows"]\n'
                f'snapshot = "never"\nbatch_size = {BATCH}\npoll_interval = "10 ms"\n'
            )
            return self.runs.source("postgres_cdc", settings, self.runs.rows)
        finally:
            self._execute("SELECT pg_drop_replication_slot(%s)", (slot,))

    def _sink(self, count: int | None = None, batch: int = BATCH) -> float:
        self._execute("DROP TABLE IF EXISTS headrace_offsets")
        self._execute("TRUNCATE copies")
        return self.runs.sink("postgres", f'url = "{self._url}"\ntable = "public.copies"\n', count=count, batch=batch)
