"""The source that reads a server of InfluxDB."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from tests.influxdb import PASSWORD, USERNAME, InfluxDb, influxdb, is_there
from tests.performance.cases.connectors.runs import BATCH, ONE_BY_ONE, LeftOut, Measurements, Runs

_INFLUXQL: Final = "source influxdb_query"
_FLUX: Final = "source influxdb_query, Flux"
_SERIES: Final = 20
_POINTS_OF_A_WRITE: Final = 5000


class Influx(Measurements):
    """Points of twenty series, of which one each has the same time, with a server of this machine."""

    def __init__(self, runs: Runs) -> None:
        super().__init__(runs)
        self._server: InfluxDb | None = None

    def turns(self) -> Mapping[str, Callable[[], Mapping[str, float]]]:
        """Return the measurements."""
        rows, tenth = self.runs.rows, self.runs.rows // 10
        database = f'database = "bench"\nusername = "{USERNAME}"\npassword = "{PASSWORD}"\n'
        bucket = f'bucket = "bench/autogen"\ntoken = "{USERNAME}:{PASSWORD}"\n'
        alone = _INFLUXQL + ONE_BY_ONE
        return {
            _INFLUXQL: lambda: {_INFLUXQL: self._read(database, rows)},
            alone: lambda: {alone: self._read(database, tenth, one_by_one=True)},
            _FLUX: lambda: {_FLUX: self._read(bucket, rows)},
        }

    @contextmanager
    def prepared(self) -> Iterator[None]:
        """Start the server, and write the points."""
        if not is_there("1.8"):
            raise LeftOut("InfluxDB was left out: `make influxdb` builds it")
        directory = self.runs.directory / "influxdb"
        directory.mkdir()
        with influxdb(directory, "1.8") as server:
            self._server = server
            server.create("bench")
            for first in range(0, self.runs.rows, _POINTS_OF_A_WRITE):
                numbers = range(first, min(first + _POINTS_OF_A_WRITE, self.runs.rows))
                server.write("bench", *map(_line, numbers))
            yield

    def _read(self, place: str, count: int, *, one_by_one: bool = False) -> float:
        assert self._server is not None
        settings = f'url = "{self._server.url}"\n{place}batch_size = {BATCH}\nlag = "0 s"\npoll_interval = "10 ms"\n'
        return self.runs.source("influxdb_query", settings, count, one_by_one=one_by_one)


def _line(number: int) -> str:
    # One time for each of the series, a hundred times a second.
    time_ns = 1_700_000_000_000_000_000 + number // _SERIES * 10_000_000
    return f'orders,topic=t{number % _SERIES} name="customer {number:032}",amount={number}i {time_ns}'
