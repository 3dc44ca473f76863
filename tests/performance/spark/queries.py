"""Streaming queries: duration of a micro-batch with one message, and cost of an idle query."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from tests.performance.loads.load import STREAM
from tests.performance.spark.counting_proxy import counting_listener
from tests.performance.spark.runs import Meter, jvm_of_this_process
from tests.performance.spark.session import source_options
from tests.performance.spark.topics import create, fill
from tests.server_process import ServerProcess

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

    from tests.performance.rounds import Turn

TRIGGER, TRIGGER_RATE = "a micro-batch of one message", "a micro-batch of one row of Spark's own source of numbers"
IDLE, IDLE_FILES = "of a core, idle", "of a core, idle on an empty directory of Parquet"
CALLS = "calls of a gateway, idle"

_TOPIC = "ticks"
_WARM_UP = 10
_TRIGGERS = 30
_SETTLING_SECONDS = 2.0
_IDLE_SECONDS = 5.0
_WAIT_SECONDS = 600.0


class Queries:
    """Streaming queries on a topic with one message per measured micro-batch."""

    def __init__(self, spark: SparkSession, server: ServerProcess, directory: Path) -> None:
        self._spark = spark
        self._server = server
        self._directory = directory
        self._checkpoints = (directory / f"checkpoint-{number}" for number in count())
        self._meter = Meter(jvm_of_this_process(), [server.process.pid])
        self._empty = directory / "empty"
        self._empty.mkdir()
        create(server, _TOPIC, 1)
        fill(server, _TOPIC, rows=_WARM_UP + _TRIGGERS, value_bytes=100)

    def turns(self) -> dict[str, Turn[float]]:
        """Return the measurements."""
        return {
            TRIGGER: lambda: {TRIGGER: self._trigger_millis(self._one_by_one())},
            TRIGGER_RATE: lambda: {TRIGGER_RATE: self._trigger_millis(self._numbers())},
            IDLE: self._idle,
            IDLE_FILES: lambda: {IDLE_FILES: self._idle_percent(self._no_files())},
        }

    def _one_by_one(self) -> DataFrame:
        options = source_options(self._server, STREAM, _TOPIC, startingOffsets="earliest", maxOffsetsPerTrigger="1")
        return self._spark.readStream.format("headrace").options(**options).load()

    def _numbers(self) -> DataFrame:
        return self._spark.readStream.format("rate-micro-batch").option("rowsPerBatch", "1").load()

    def _no_files(self) -> DataFrame:
        return self._spark.readStream.schema("value BINARY").parquet(str(self._empty))

    def _trigger_millis(self, frame: DataFrame) -> float:
        with self._running(frame) as query:
            _wait(query, lambda: len(_with_rows(query)) >= _WARM_UP + _TRIGGERS)
            done = _with_rows(query)[_WARM_UP : _WARM_UP + _TRIGGERS]
        return statistics.median(done)

    def _idle(self) -> dict[str, float]:
        with counting_listener(self._server.grpc_address) as listener:
            options = source_options(self._server, STREAM, _TOPIC) | {"servers": listener.address}
            frame = self._spark.readStream.format("headrace").options(**options).load()
            with self._waiting(frame):
                before = listener.calls
                time.sleep(_IDLE_SECONDS)
                calls = listener.calls - before
        # Bypass the proxy, which runs in this process and would add to its CPU time.
        direct = self._spark.readStream.format("headrace").options(**source_options(self._server, STREAM, _TOPIC))
        return {CALLS: calls / _IDLE_SECONDS, IDLE: self._idle_percent(direct.load())}

    def _idle_percent(self, frame: DataFrame) -> float:
        with self._waiting(frame):
            run = self._meter.run(1, 1, lambda: time.sleep(_IDLE_SECONDS))
        return run.cpu_seconds / run.wall_seconds * 100

    @contextmanager
    def _waiting(self, frame: DataFrame) -> Generator[None]:
        with self._running(frame) as query:
            _wait(query, lambda: "Waiting" in query.status["message"])
            # Skip the startup phase of the query.
            time.sleep(_SETTLING_SECONDS)
            yield

    @contextmanager
    def _running(self, frame: DataFrame) -> Generator[StreamingQuery]:
        writer = frame.writeStream.format("noop").option("checkpointLocation", str(next(self._checkpoints)))
        query = writer.start()
        try:
            yield query
        finally:
            query.stop()


def _with_rows(query: StreamingQuery) -> list[int]:
    """Return the durations in milliseconds of the micro-batches with rows."""
    return [progress.durationMs["triggerExecution"] for progress in query.recentProgress if progress.numInputRows]


def _wait(query: StreamingQuery, is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _WAIT_SECONDS
    while not is_so():
        error = query.exception()
        if error is not None:
            raise error
        if time.monotonic() > deadline:
            raise TimeoutError(str(query.lastProgress))
        time.sleep(0.02)
