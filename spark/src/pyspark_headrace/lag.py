"""Lag of streaming queries, from the progress that Spark reports."""

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
    """Lag of one query after its last micro-batch."""

    query_id: str
    name: str | None
    batch_id: int
    rows: int
    """Number of rows that the micro-batch has read."""
    batch_seconds: float
    """Duration of the micro-batch."""
    messages: dict[tuple[str, int], int]
    """Number of unread messages by topic (``stream/topic``) and partition."""

    @property
    def total(self) -> int:
        """Sum over all partitions."""
        return sum(self.messages.values())


class LagListener(StreamingQueryListener):
    """Listener that keeps the lag of each query.

    Use: ``spark.streams.addListener(listener)``, then ``listener.of(query.id)``.
    """

    def __init__(self) -> None:
        self._lags: dict[str, Lag] = {}
        self._lock = threading.Lock()

    def of(self, query_id: str) -> Lag | None:
        """Return the lag of a query; None before its first report and after its end."""
        with self._lock:
            return self._lags.get(str(query_id))

    def all(self) -> list[Lag]:
        """Return the lag of all queries."""
        with self._lock:
            return list(self._lags.values())

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's names
        """Do nothing: the first progress report has not arrived yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """Record the progress of a micro-batch."""
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
        """Do nothing: an idle query reports no new lag."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Remove the lag of the query."""
        with self._lock:
            self._lags.pop(str(event.id), None)


def behind(end: str | None, latest: str | None) -> dict[tuple[str, int], int] | None:
    """Return the number of messages between two offsets by topic and partition; None if the source is another one."""
    ends, latests = _positions(end), _positions(latest)
    if ends is None or latests is None:
        return None
    return {key: max(offset - ends.get(key, 0), 0) for key, offset in latests.items()}


def between(start: str | None, end: str | None) -> dict[tuple[str, int], int] | None:
    """Return the number of messages of a micro-batch by topic and partition; None if the source is another one.

    A topic that is missing at the start joins the stream in this micro-batch, and none of its messages is read yet.
    """
    moved = behind(start, end)
    known = {title for title, _ in _positions(start) or {}}
    return None if moved is None else {key: count for key, count in moved.items() if key[0] in known}


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
