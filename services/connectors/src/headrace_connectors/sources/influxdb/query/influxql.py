"""Points in InfluxQL: `/query` of InfluxDB 1, answered in parts of JSON."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any, Final

import msgspec

from headrace_connectors.contract import ConnectorError, Unavailable
from headrace_connectors.json_errors import NOT_JSON
from headrace_connectors.sources.influxdb.line_protocol import Point
from headrace_connectors.sources.influxdb.query.server import InfluxServer, Points
from headrace_connectors.sources.influxdb.query.settings import InfluxQuerySettings

_ROWS: Final = 2000
"""Rows of a part of an answer."""
_OF_THE_QUERY: Final = re.compile("database not found|retention policy not found|error parsing query|not authorized")
"""Errors that stay until something is corrected; all others pass, such as a time limit or a shard that is closed."""


class _Series(msgspec.Struct):
    name: str = ""
    columns: list[str] = []
    values: list[list[Any]] = []
    tags: dict[str, str] = {}


class _Result(msgspec.Struct):
    statement_id: int = 0
    series: list[_Series] = []
    error: str | None = None
    partial: bool = False


class _Part(msgspec.Struct):
    results: list[_Result] = []
    error: str | None = None


class InfluxQl:
    """Reads points with statements of InfluxQL.

    Args:
        server: The server.
        settings: Database and measurements.
    """

    def __init__(self, server: InfluxServer, settings: InfluxQuerySettings) -> None:
        self._server = server
        self._parameters = {"db": settings.database or "", "epoch": "ns", "chunked": "true", "chunk_size": str(_ROWS)}
        names = [_quoted(name) for name in settings.measurements] or ["/.*/"]
        policy = "" if settings.retention_policy is None else f"{_quoted(settings.retention_policy)}."
        self._from = ", ".join(f"{policy}{name}" for name in names)
        self._decoder = msgspec.json.Decoder(_Part)

    async def first_time(self, start_ns: int, stop_ns: int) -> int | None:
        """Return the time of the first point: the earliest one of all measurements."""
        times = [
            int(series.values[0][0])
            async for _, series in self._series(f"{self._select(start_ns, stop_ns)} ORDER BY time LIMIT 1")
            if series.values
        ]
        return min(times, default=None)

    async def points(self, start_ns: int, stop_ns: int, maximum: int | None) -> list[Point]:
        """Return points. JSON has whole numbers for fields of type float, too: their types are asked for."""
        points = Points(maximum)
        floats: set[tuple[str, str]] = set()
        statements = f"{self._select(start_ns, stop_ns)} GROUP BY *; SHOW FIELD KEYS FROM {self._from}"
        async for statement, series in self._series(statements):
            if statement == 1:
                floats.update((series.name, name) for name, kind in series.values if kind == "float")
                continue
            # A series that has not got a tag of another one has it empty.
            tags = tuple(sorted((name, value) for name, value in series.tags.items() if value))
            names = series.columns[1:]
            for time_ns, *values in series.values:
                fields = points.fields(series.name, tags, time_ns)
                fields.update((name, value) for name, value in zip(names, values, strict=True) if value is not None)
        found = points.all()
        for point in found:
            for name, value in point.fields.items():
                if type(value) is int and (point.measurement, name) in floats:
                    point.fields[name] = float(value)
        return found

    def _select(self, start_ns: int, stop_ns: int) -> str:
        return f"SELECT *::field FROM {self._from} WHERE time >= {start_ns} AND time <= {stop_ns}"  # noqa: S608 - quoted

    async def _series(self, statements: str) -> AsyncIterator[tuple[int, _Series]]:
        """Send statements, and return the parts of series with the number of their statement."""
        is_partial = False
        async with self._server.answer("/query", params=self._parameters, data={"q": statements}) as pieces:
            async for line in _lines(pieces):
                part = self._decoded(line)
                if part.error is not None:
                    raise _failure(part.error)
                for result in part.results:
                    if result.error is not None:
                        raise _failure(result.error)
                    is_partial = result.partial
                    for series in result.series:
                        yield result.statement_id, series
        if is_partial:
            raise Unavailable("the answer of InfluxDB breaks off: its server was stopped, or limits rows of answers")

    def _decoded(self, line: bytes) -> _Part:
        try:
            return self._decoder.decode(line)
        except NOT_JSON as error:
            raise Unavailable(f"the answer is not that of InfluxDB 1: {error}; correct settings.url") from error


async def _lines(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    rest = b""
    async for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            if line.strip():
                yield line
    if rest.strip():
        yield rest


def _failure(error: str) -> ConnectorError:
    text = f"InfluxDB refuses the query: {error}"
    if _OF_THE_QUERY.search(error):
        return ConnectorError(f"{text}; correct settings.database, retention_policy or the login")
    return Unavailable(text)


def _quoted(name: str) -> str:
    escaped = name.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
