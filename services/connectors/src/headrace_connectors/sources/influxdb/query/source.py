"""The source `influxdb_query`: points of a server, in the order of their times."""

from __future__ import annotations

import asyncio
import time
from typing import ClassVar, Final

import msgspec

from headrace_connectors.contract import Batch, Polling, Settings, Source, decode_state, encode_state
from headrace_connectors.sources.influxdb.endpoint import point_record
from headrace_connectors.sources.influxdb.line_protocol import Point
from headrace_connectors.sources.influxdb.query.flux import Flux
from headrace_connectors.sources.influxdb.query.influxql import InfluxQl
from headrace_connectors.sources.influxdb.query.server import InfluxServer, Reader, TooManyPoints
from headrace_connectors.sources.influxdb.query.settings import InfluxQuerySettings

_STATE_VERSION: Final = 1
_FIRST_NS: Final = -(2**63) + 2
"""Smallest time that InfluxDB has."""
_SPAN_NS: Final = 10**9
_SPAN_NS_MAX: Final = 2**62


class _State(msgspec.Struct):
    after_ns: int
    """All points up to this time were read."""


class InfluxQuery(Source):
    """Reads the points of a database or a bucket in the order of their times, each once.

    A batch has all points of a span of time, so that those with the same time are never divided. The span is made
    shorter when it has more points than a batch may have, and longer when it has few.
    """

    settings_type: ClassVar[type[Settings]] = InfluxQuerySettings

    def __init__(self, settings: InfluxQuerySettings) -> None:
        """Connect to nothing yet."""
        self._settings = settings
        self._server = InfluxServer(settings)
        self._reader: Reader = (InfluxQl if settings.bucket is None else Flux)(self._server, settings)
        self._after_ns: int | None = None
        self._polled_ns: int | None = None
        self._span_ns = _SPAN_NS

    def mode(self) -> Polling:
        """Points stay where they are."""
        return Polling(destructive=False)

    async def open(self, state: bytes | None) -> None:
        """Continue after the state.

        Raises:
            Unavailable: The server does not answer.
            ConnectorError: The login is refused, or there is no such database or bucket.
        """
        if state is not None:
            self._after_ns = decode_state(state, _STATE_VERSION, _State).after_ns
        await self._server.open()
        # A wrong name is found here and not later.
        start_ns = _FIRST_NS if self._after_ns is None else self._after_ns
        await self._reader.first_time(start_ns, start_ns)

    async def poll(self) -> Batch | None:
        """Return the points of the next span."""
        until_ns = time.time_ns() - round(self._settings.lag.seconds * 1e9)
        if self._after_ns is None and self._settings.start == "end":
            # A start after a crash continues here, and not at another end.
            return self._batch([], until_ns)
        points = await self._next(until_ns)
        if not points:
            await asyncio.sleep(self._settings.poll_interval.seconds)
            return None
        points.sort(key=lambda point: (point.timestamp_ns, point.measurement, *point.tags.items()))
        return self._batch(points, points[-1].timestamp_ns or 0)

    async def commit(self) -> None:
        """Go on after these points."""
        self._after_ns = self._polled_ns

    async def close(self) -> None:
        """Close connections."""
        await self._server.close()

    def _batch(self, points: list[Point], after_ns: int) -> Batch:
        self._polled_ns = after_ns
        place = self._settings.place
        records = [point_record(point, place, after_ns) for point in points]
        return Batch(records, encode_state(_STATE_VERSION, _State(after_ns)))

    async def _next(self, until_ns: int) -> list[Point]:
        """Return points of the next span that has some; none if there are no more."""
        if self._after_ns is not None:
            points = await self._points(self._after_ns + 1, until_ns)
            if points or self._after_ns + 1 + self._span_ns >= until_ns:
                return points
        start_ns = _FIRST_NS if self._after_ns is None else self._after_ns + 1
        if start_ns > until_ns or (first_ns := await self._reader.first_time(start_ns, until_ns)) is None:
            return []
        return await self._points(first_ns, until_ns)

    async def _points(self, start_ns: int, until_ns: int) -> list[Point]:
        batch_size = self._settings.batch_size
        while start_ns <= until_ns:
            # However many have one time, they are read together.
            maximum = batch_size if self._span_ns else None
            try:
                points = await self._reader.points(start_ns, min(start_ns + self._span_ns, until_ns), maximum)
            except TooManyPoints:
                self._span_ns //= 4
                continue
            if len(points) < batch_size // 2:
                self._span_ns = min(max(self._span_ns, 1) * 2, _SPAN_NS_MAX)
            return points
        return []
