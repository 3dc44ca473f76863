"""Supervision of a streaming query until its end."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from pyspark_headrace.jobs.running.config import StreamJobConfig
from pyspark_headrace.jobs.running.job import Context
from pyspark_headrace.lag import LagListener, behind, between

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import QueryProgressEvent, StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_LOOK_SECONDS: Final = 0.25
_FINISH_SECONDS: Final = 0.02
_SAMPLES_MAX: Final = 4096
_NOWHERE: Final = '{"t":{}}'
"""Offsets before the first message of every topic."""


@dataclass(frozen=True)
class StreamTotals:
    """Totals of a query in this run."""

    batches: int
    """Number of completed micro-batches."""
    rows: int
    """Number of messages read."""
    seconds: float
    """Total duration of the micro-batches."""
    behind: int | None
    """Number of unread messages at the end of the last micro-batch; None without any micro-batch."""
    is_stopped: bool
    """True if the query was stopped on request; False if it has ended by itself."""

    @property
    def status(self) -> Literal["done", "stopped"]:
        """Status for the report."""
        return "stopped" if self.is_stopped else "done"

    @property
    def counts(self) -> dict[str, int | float]:
        """Return the counts for the report."""
        counts: dict[str, int | float] = {"batches": self.batches, "rows": self.rows}
        return counts if self.behind is None else counts | {"behind": self.behind}


class LagClock:
    """Estimator of the age of the oldest unread message, from the numbers of messages over time.

    The estimate is a lower bound: the clock has no samples before its start, and takes samples only at the ends of
    micro-batches.
    """

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def lag(self, now: float, there: int, read: int) -> float:
        """Add a sample and return the lag.

        Args:
            now: Monotonic time in seconds.
            there: Total number of messages ever written, over all partitions.
            read: Number of messages read.

        Returns:
            Lag in seconds.
        """
        self._seen.append((now, there))
        while self._seen and self._seen[0][1] <= read:
            self._seen.popleft()
        if len(self._seen) > _SAMPLES_MAX:
            # Thin the samples: the estimate becomes smaller, but stays a lower bound.
            self._seen = deque(sample for place, sample in enumerate(self._seen) if place % 2 == 1)
        return now - self._seen[0][0] if self._seen else 0.0


class _Watch(LagListener):
    """Metrics of one query. Progress that Spark reports late or not at all is taken from the query itself."""

    def __init__(self, query: StreamingQuery, context: Context, rows_of: Callable[[int], int | None] | None) -> None:
        super().__init__()
        self._query_id = str(query.id)
        self._context = context
        self._rows_of = rows_of
        self._clock = LagClock()
        self._taking = threading.Lock()
        self._last = -1
        self.batches = 0
        self.rows = 0
        self.seconds = 0.0
        self.behind: int | None = None

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - Spark's name
        """Record the progress of a micro-batch."""
        super().onQueryProgress(event)
        if str(event.progress.id) == self._query_id:
            self.take(event.progress)

    def take(self, progress: StreamingQueryProgress) -> None:
        """Add the counts of a micro-batch, once."""
        with self._taking:
            if progress.batchId <= self._last:
                return
            self._last = progress.batchId
            lags: dict[tuple[str, int], int] = {}
            read = 0
            for source in progress.sources:
                lags |= behind(source.endOffset, source.latestOffset) or {}
                read += sum((behind(_NOWHERE, source.endOffset) or {}).values())
            rows = self._rows(progress)
            seconds = progress.batchDuration / 1000
            self.batches += 1
            self.rows += rows
            self.seconds += seconds
            self.behind = sum(lags.values())
            lag_seconds = self._clock.lag(time.monotonic(), read + self.behind, read)
        metrics = self._context.metrics
        metrics.add(rows=rows)
        metrics.batch(seconds)
        metrics.lag(lags, lag_seconds)
        self._context.log.debug("batch", batch=progress.batchId, rows=rows, seconds=seconds, behind=self.behind)
        self._context.progress.update(f"batch {progress.batchId}: {rows} messages, {self.behind} behind")

    def _rows(self, progress: StreamingQueryProgress) -> int:
        reported = None if self._rows_of is None else self._rows_of(progress.batchId)
        if reported is not None:
            return reported
        rows = 0
        for source in progress.sources:
            # Spark counts rows twice if a plan reads them twice. The start of the first micro-batch is not reported.
            moved = between(source.startOffset, source.endOffset)
            rows += source.numInputRows if moved is None else sum(moved.values())
        return rows


def begin(writer: DataStreamWriter, config: StreamJobConfig, part: str = "") -> StreamingQuery:
    """Start a query with the checkpoint, trigger and name of a job.

    Args:
        writer: The query.
        config: Configuration of the job.
        part: Name of the query, in a job with several.
    """
    name = "-".join(word for word in (config.name, part) if word)
    checkpoint = config.checkpoint if not part else f"{config.checkpoint.rstrip('/')}/{part}"
    writer = writer.option("checkpointLocation", checkpoint)
    if name:
        writer = writer.queryName(name)
    trigger = config.trigger.arguments()
    return (writer.trigger(**trigger) if trigger else writer).start()


def follow(
    query: StreamingQuery,
    config: StreamJobConfig,
    context: Context,
    rows_of: Callable[[int], int | None] | None = None,
) -> StreamTotals:
    """Wait for the end of a query, or stop the query between two micro-batches on request.

    Args:
        query: The running query.
        config: Configuration of the job.
        context: Context of the job.
        rows_of: Number of messages by micro-batch, for queries on ranges, whose rows are not messages.

    Raises:
        StreamingQueryException: The query has failed.
    """
    from pyspark.sql import SparkSession  # noqa: PLC0415 - jobs are listed without it

    watch = _Watch(query, context, rows_of)
    streams = SparkSession.active().streams
    streams.addListener(watch)
    is_stopped = False
    context.log.info("query", id=str(query.id), run=str(query.runId), trigger=str(config.trigger))
    try:
        while not query.awaitTermination(_LOOK_SECONDS):  # type: ignore[arg-type] # it takes fractions, too
            if context.stop.is_set():
                context.log.info("stopping after the current micro-batch")
                _let_finish(query)
                is_stopped = True
                break
    finally:
        query.stop()
        streams.removeListener(watch)
    error = query.exception()
    if error is not None:
        raise error
    for progress in query.recentProgress:
        watch.take(progress)
    return StreamTotals(watch.batches, watch.rows, round(watch.seconds, 3), watch.behind, is_stopped)


def _let_finish(query: StreamingQuery) -> None:
    """Wait for the end of the current micro-batch, which stopping the query would interrupt.

    If the next micro-batch has started meanwhile, it is interrupted and repeated by the next run, as after a crash.
    """
    before = _last_batch(query)
    while query.isActive and _last_batch(query) == before:
        status = query.status
        if not (status["isTriggerActive"] and status["isDataAvailable"]):
            return
        time.sleep(_FINISH_SECONDS)


def _last_batch(query: StreamingQuery) -> int:
    progress = query.lastProgress
    return -1 if progress is None else progress.batchId
