"""What Spark counts about the micro-batches of a query, added up."""

from __future__ import annotations

import threading
from collections import Counter
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
"""Name of the counts that a query itself finds."""
WINDOWS: Final = "headrace-windows"
"""Name of another one, `ends`: how many messages belong to windows that end when, as `histogram_numeric` tells it."""

_READ: Final = "headrace-read"


def counted(rows: DataFrame, branch: str = "") -> DataFrame:
    """Have Spark count messages that are read, and look at each of them once.

    Spark does what a filter looks at below it, and again above it: values would be decoded several times. It does not
    so where something is counted in between.

    Args:
        rows: With what filters look at.
        branch: Of a query that looks at messages twice, the one that does not tell how many there are.
    """
    return rows.observe(f"{_READ}-{branch}" if branch else _READ, sql.count(sql.lit(1)).alias("in"))


class Tally(StreamingQueryListener):
    """Counts of one query."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        """What the query has observed, by name; `late` and `duplicates` as operators with a state tell them."""
        self.state_rows: int | None = None
        """What is in states after the last micro-batch; None: there are no states."""
        self.state_rows_max: int = 0
        """The most there was after any."""
        self._watermark: float | None = None
        self._rows: dict[int, int] = {}
        self._seen: set[tuple[str, int]] = set()
        self._taking = threading.Lock()

    def rows_of(self, query: StreamingQuery, batch_id: int) -> int | None:
        """How many messages a micro-batch had; None: nothing has counted them."""
        if batch_id not in self._rows:
            for progress in query.recentProgress:
                self.take(progress)
        return self._rows.pop(batch_id, None)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's names
        """Nothing is known yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """Take what a micro-batch tells."""
        self.take(event.progress)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Nothing was read."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """What it had counted stays."""

    def take(self, progress: StreamingQueryProgress) -> None:
        """Count a micro-batch, once."""
        with self._taking:
            batch = (str(progress.runId), progress.batchId)
            if batch in self._seen:
                return
            self._seen.add(batch)
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
        told = progress.eventTime.get("watermark")
        watermark = datetime.fromisoformat(told).timestamp() if told else None
        dropped = 0
        for state in progress.stateOperators:
            dropped += state.numRowsDroppedByWatermark
            self.counts["duplicates"] += int(state.customMetrics.get("numDroppedDuplicateRows", 0))
        if progress.stateOperators:
            self.state_rows = sum(state.numRowsTotal for state in progress.stateOperators)
            self.state_rows_max = max(self.state_rows_max, self.state_rows)
        if dropped and windows is not None:
            # An aggregation counts what is left of messages when they are partly aggregated. What is late is what was
            # over by the watermark of the micro-batch before; of the first one in a run that is not known.
            limit = self._watermark if self._watermark is not None else watermark
            dropped = sum(int(one["y"]) for one in windows if limit is not None and one["x"] <= limit)
        self.counts["late"] += dropped
        self._watermark = watermark


@contextmanager
def tallied(spark: SparkSession, start: Callable[[], StreamingQuery]) -> Iterator[tuple[StreamingQuery, Tally]]:
    """Start a query and count what its micro-batches tell; complete when the block is left.

    Args:
        spark: The session, which has no other query of this kind.
        start: Starts it.
    """
    tally = Tally()
    spark.streams.addListener(tally)
    try:
        query = start()
        yield query, tally
        # Spark tells listeners late, or not any more.
        for progress in query.recentProgress:
            tally.take(progress)
    finally:
        spark.streams.removeListener(tally)
