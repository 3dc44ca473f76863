"""Sums of the metrics that Spark reports for the micro-batches of a query."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.streaming.listener import StreamingQueryListener

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
        StreamingQueryProgress,
    )
    from pyspark.sql.streaming.query import StreamingQuery

OBSERVED: Final = "headrace"
"""Name of the observation with the counts of a query."""
WINDOWS: Final = "headrace-windows"
"""Name of another observation, `ends`: number of messages by window end, as returned by `histogram_numeric`."""

_READ: Final = "headrace-read"
_REMEMBERED: Final = 1000
"""Minimum number of micro-batches that are remembered one by one. Spark repeats the reports of about a hundred."""


def counted(rows: DataFrame, branch: str = "") -> DataFrame:
    """Observe the number of messages that are read, and evaluate each of them once.

    Spark evaluates a filter's inputs below and again above the filter, so values would be decoded several times. An
    observation in between prevents that.

    Args:
        rows: Rows with the inputs of filters.
        branch: Branch of a query that reads messages twice; this branch does not count them.
    """
    return rows.observe(f"{_READ}-{branch}" if branch else _READ, sql.count(sql.lit(1)).alias("in"))


class Taken:
    """Micro-batches of a run whose reports were taken: recent ones one by one, so that memory does not grow."""

    def __init__(self) -> None:
        self._recent: set[int] = set()
        self._first = 0
        """First micro-batch that is not older than the remembered ones. All before it count as taken."""

    def __len__(self) -> int:
        """Return the number of remembered micro-batches."""
        return len(self._recent)

    def add(self, batch_id: int) -> bool:
        """Add a micro-batch. Returns whether it is new."""
        if batch_id < self._first or batch_id in self._recent:
            return False
        self._recent.add(batch_id)
        if len(self._recent) > 2 * _REMEMBERED:
            self._first = max(self._recent) - _REMEMBERED
            self._recent = {number for number in self._recent if number >= self._first}
        return True


class Tally(StreamingQueryListener):
    """Counts of one query."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        """Observed counts by name; `late` and `duplicates` as reported by stateful operators."""
        self.state_rows: int | None = None
        """Number of state rows after the last micro-batch; None for stateless queries."""
        self.state_rows_max: int = 0
        """Maximum number of state rows."""
        self._watermark: float | None = None
        self._rows: dict[int, int] = {}
        self._taken: defaultdict[str, Taken] = defaultdict(Taken)
        self._taking = threading.Lock()

    def rows_of(self, query: StreamingQuery, batch_id: int) -> int | None:
        """Number of messages in a micro-batch; None if not observed."""
        if batch_id not in self._rows:
            for progress in query.recentProgress:
                self.take(progress)
        return self._rows.pop(batch_id, None)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's names
        """Do nothing: the first progress report has not arrived yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """Record the progress of a micro-batch."""
        self.take(event.progress)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Do nothing: an idle query has read no messages."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Do nothing: the counts stay available."""

    def take(self, progress: StreamingQueryProgress) -> None:
        """Add the counts of a micro-batch, once."""
        with self._taking:
            if not self._taken[str(progress.runId)].add(progress.batchId):
                return
            observed = progress.observedMetrics.get(OBSERVED)
            read = progress.observedMetrics.get(_READ)
            if read is not None:
                self._rows[progress.batchId] = read["in"]
                self.counts["in"] += read["in"]
            if observed is not None:
                self.counts.update({name: int(count or 0) for name, count in observed.asDict().items()})
            windows = progress.observedMetrics.get(WINDOWS)
            self._take_states(progress, windows["ends"] if windows is not None else None)

    def _take_states(self, progress: StreamingQueryProgress, windows: Any) -> None:
        found = progress.eventTime.get("watermark")
        watermark = datetime.fromisoformat(found).timestamp() if found else None
        dropped = 0
        for state in progress.stateOperators:
            dropped += state.numRowsDroppedByWatermark
            self.counts["duplicates"] += int(state.customMetrics.get("numDroppedDuplicateRows", 0))
        if progress.stateOperators:
            self.state_rows = sum(state.numRowsTotal for state in progress.stateOperators)
            self.state_rows_max = max(self.state_rows_max, self.state_rows)
        if dropped and windows is not None:
            # An aggregation counts late rows after partial aggregation, not messages. A message is late if it is older
            # than the watermark of the preceding micro-batch, which is unknown for the first one of a run.
            limit = self._watermark if self._watermark is not None else watermark
            dropped = sum(int(one["y"]) for one in windows if limit is not None and one["x"] <= limit)
        self.counts["late"] += dropped
        self._watermark = watermark


@contextmanager
def tallied(spark: SparkSession, start: Callable[[], StreamingQuery]) -> Iterator[tuple[StreamingQuery, Tally]]:
    """Start a query and count its micro-batches. The counts are complete after the block.

    Args:
        spark: The session, without other queries of this kind.
        start: Function that starts the query.
    """
    tally = Tally()
    spark.streams.addListener(tally)
    try:
        query = start()
        yield query, tally
        # Spark notifies listeners late, and not at all after the end.
        for progress in query.recentProgress:
            tally.take(progress)
    finally:
        spark.streams.removeListener(tally)
