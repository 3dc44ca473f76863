"""Progress of connectors over the last hour, sampled at a fixed interval and kept in memory."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, NoReturn

from headrace_connectors.contract import Lag
from headrace_connectors.runtime.connector import Connector

INTERVAL_SECONDS: Final = 10.0
SAMPLES_MAX: Final = 360
_LAG_SECONDS: Final = 5.0
_log = logging.getLogger(__name__)


class Sample(NamedTuple):
    """Progress of a connector at one time."""

    at: datetime
    state: str
    records_count: int
    """Records that were stored or written since the connector was made."""
    records_per_second: float | None
    """Rate since the sample before; None for the first one."""
    lag: Lag | None
    """None: not known."""

    def document(self) -> dict[str, Any]:
        """Describe it, for the status API."""
        return {
            "at": self.at.isoformat(timespec="milliseconds"),
            "state": self.state,
            "records_count": self.records_count,
            "records_per_second": self.records_per_second,
            "lag": None if self.lag is None else self.lag._asdict(),
        }


@dataclass(slots=True)
class _Series:
    connector: Connector
    samples: deque[Sample] = field(default_factory=lambda: deque(maxlen=SAMPLES_MAX))
    taken_at: float = 0.0
    """Monotonic time of the newest sample, in seconds."""


class History:
    """Samples of all connectors; those of a connector that is gone are dropped.

    Args:
        connectors: Returns the connectors of the process.
        clock: A monotonic clock, in seconds.
    """

    def __init__(self, connectors: Callable[[], Sequence[Connector]], clock: Callable[[], float]) -> None:
        self._connectors = connectors
        self._clock = clock
        self._series: dict[str, _Series] = {}

    def samples(self, key: str) -> list[Sample]:
        """Return the samples of a connector, the oldest first."""
        found = self._series.get(key)
        return [] if found is None else list(found.samples)

    def lag_of(self, key: str) -> Lag | None:
        """Return the lag of a connector as of the newest sample, for metrics."""
        found = self._series.get(key)
        return found.samples[-1].lag if found is not None and found.samples else None

    def newest(self, key: str) -> dict[str, Any]:
        """Return rate and lag of a connector as of the newest sample, for its status."""
        found = self._series.get(key)
        last = found.samples[-1].document() if found is not None and found.samples else {}
        return {"records_per_second": last.get("records_per_second"), "lag": last.get("lag")}

    async def run(self) -> NoReturn:
        """Take samples until cancelled."""
        while True:
            await self.take()
            await asyncio.sleep(INTERVAL_SECONDS)

    async def take(self) -> None:
        """Take a sample of each connector now."""
        connectors = self._connectors()
        lags = await asyncio.gather(*(_lag(one) for one in connectors))
        kept = {}
        for connector, lag in zip(connectors, lags, strict=True):
            series = self._series.get(connector.key) or _Series(connector)
            self._add(series, connector, lag)
            kept[connector.key] = series
        self._series = kept

    def _add(self, series: _Series, connector: Connector, lag: Lag | None) -> None:
        now, status = self._clock(), connector.status
        before = series.samples[-1] if series.samples else None
        # Another object with the same name, after a change of the configuration, counts from 0.
        start = before.records_count if before is not None and series.connector is connector else 0
        rate = None
        if before is not None and now > series.taken_at:
            rate = max(0, status.records_count - start) / (now - series.taken_at)
        series.connector, series.taken_at = connector, now
        series.samples.append(Sample(datetime.now(UTC), status.state, status.records_count, rate, lag))


async def _lag(connector: Connector) -> Lag | None:
    try:
        async with asyncio.timeout(_LAG_SECONDS):
            return await connector.lag()
    except Exception as error:  # noqa: BLE001 - whatever it is, the lag is not known; the connector reports its own
        _log.debug("the lag of %s is not known: %s", connector.key, error)
        return None
