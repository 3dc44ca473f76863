"""How far behind streaming queries are, from what Spark reports about them."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.listener import StreamingQueryListener

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )


@dataclass(frozen=True, slots=True)
class Lag:
    """Of one query, after its last micro-batch."""

    query_id: str
    name: str | None
    batch_id: int
    rows: int
    """Read by that micro-batch."""
    batch_seconds: float
    """It has taken."""
    messages: dict[tuple[str, int], int]
    """How many were there and not read, by topic (``stream/topic``) and partition."""

    @property
    def total(self) -> int:
        """Of all partitions."""
        return sum(self.messages.values())


class LagListener(StreamingQueryListener):
    """Keeps the lag of each query: ``spark.streams.addListener(listener)``, then ``listener.of(query.id)``."""

    def __init__(self) -> None:
        self._lags: dict[str, Lag] = {}
        self._lock = threading.Lock()

    def of(self, query_id: str) -> Lag | None:
        """Of a query; None before it has told anything, and after its end."""
        with self._lock:
            return self._lags.get(str(query_id))

    def all(self) -> list[Lag]:
        """Of all queries."""
        with self._lock:
            return list(self._lags.values())

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's names
        """Nothing is known yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """Take what a micro-batch tells."""
        progress = event.progress
        messages: dict[tuple[str, int], int] = {}
        rows = 0
        is_ours = False
        for source in progress.sources:
            found = behind(source.endOffset, source.latestOffset)
            if found is not None:
                is_ours = True
                messages |= found
                rows += source.numInputRows
        if is_ours:
            lag = Lag(str(progress.id), progress.name, progress.batchId, rows, progress.batchDuration / 1000, messages)
            with self._lock:
                self._lags[lag.query_id] = lag

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Nothing was read, so nothing has changed that is known here."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Forget it."""
        with self._lock:
            self._lags.pop(str(event.id), None)


def behind(end: str | None, latest: str | None) -> dict[tuple[str, int], int] | None:
    """Messages from one offset to the other, by topic and partition; None: these are no offsets of this source."""
    ends, latests = _positions(end), _positions(latest)
    if ends is None or latests is None:
        return None
    return {key: max(offset - ends.get(key, 0), 0) for key, offset in latests.items()}


def _positions(text: str | None) -> dict[tuple[str, int], int] | None:
    try:
        found: Any = json.loads(text or "")
        return {
            (title, int(number)): int(offset)
            for title, topic in found["t"].items()
            for number, offset in topic["p"].items()
        }
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
