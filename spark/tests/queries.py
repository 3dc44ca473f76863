"""Streaming queries that collect rows in this process."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from place import Place
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

WAIT_SECONDS = 90.0


class Seen:
    """Rows by micro-batch. A repeated micro-batch replaces its earlier rows."""

    def __init__(self) -> None:
        self.batches: dict[int, list[tuple[int, int]]] = {}

    def take(self, frame: DataFrame, batch_id: int) -> None:
        self.batches[batch_id] = [(row.partition, row.offset) for row in frame.select("partition", "offset").collect()]

    @property
    def rows(self) -> Counter[tuple[int, int]]:
        # Copied at once, because Spark's thread adds rows concurrently.
        return Counter(row for rows in list(self.batches.values()) for row in rows)

    @property
    def sizes(self) -> list[int]:
        return [len(rows) for _, rows in sorted(self.batches.items()) if rows]


def stream(spark: SparkSession, place: Place, **options: str) -> DataFrame:
    return spark.readStream.format("headrace").options(**place.options(**options)).load()


@contextmanager
def running(frame: DataFrame, seen: Seen, checkpoint: Path, **trigger: Any) -> Iterator[StreamingQuery]:
    """Run a query that is stopped at the end of the block."""
    writer = frame.writeStream.foreachBatch(seen.take).option("checkpointLocation", str(checkpoint))
    query = (writer.trigger(**trigger) if trigger else writer).start()
    try:
        yield query
    finally:
        query.stop()


def run_once(frame: DataFrame, seen: Seen, checkpoint: Path) -> StreamingQuery:
    """Read all available messages, and end."""
    with running(frame, seen, checkpoint, availableNow=True) as query:
        assert query.awaitTermination(int(WAIT_SECONDS)), "the query does not end"
    return query


def wait_for(what: Callable[[], bool], query: StreamingQuery) -> None:
    """Wait for a condition while the query is running."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not what():
        error = query.exception()
        if error is not None:
            raise error
        assert time.monotonic() < deadline, query.lastProgress
        time.sleep(0.02)


def all_of(partition: int, *numbers: range) -> Counter[tuple[int, int]]:
    """Return each of these offsets once."""
    return Counter((partition, number) for part in numbers for number in part)
