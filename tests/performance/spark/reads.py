"""Ways to read the same messages; each query evaluates every value of the columns that it names."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.performance.loads.load import STREAM
from tests.performance.rivals.kafka_broker import Broker
from tests.performance.spark.archives import ARCHIVE, WRITE, archive, write
from tests.performance.spark.row_source import RowSource
from tests.performance.spark.runs import Meter, SparkRun, jvm_of_this_process
from tests.performance.spark.session import CORES, source_options
from tests.performance.spark.without_spark import decoded, fetched, payloads
from tests.server_process import ServerProcess

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tests.performance.rounds import Turn

VALUE, THREE, DEFAULT, FULL = "value", "3 columns", "default columns", "all columns"
SCHEMAS: Mapping[str, Sequence[str]] = {
    VALUE: ("value",),
    THREE: ("offset", "timestamp", "value"),
    DEFAULT: ("topic", "partition", "offset", "timestamp", "key", "value"),
    FULL: (
        "stream",
        "topic",
        "partition",
        "offset",
        "timestamp",
        "origin_timestamp",
        "id",
        "key",
        "value",
        "headers",
    ),
}
PARQUET, KAFKA = "Parquet", "Kafka"
ROWS, TINY, TEN = "as tuples", "batches of 1,000 rows", "batches of 10,000 rows"
FETCH, CODEC = "gRPC fetch alone", "codec alone"

PARTITIONS = CORES
_PROBE_ROWS = 2_000_000
_CODEC_ROWS = 500_000
_LOOKED_AT = {
    "stream": "sum(length(stream))",
    "topic": "sum(length(topic))",
    "partition": "max(partition)",
    "offset": "max(offset)",
    "timestamp": "max(timestamp)",
    "origin_timestamp": "max(origin_timestamp)",
    "id": "sum(length(id))",
    "key": "count(key)",
    "value": "sum(length(value))",
    "headers": "sum(size(headers))",
}


def row_of(value_bytes: int, what: str) -> str:
    """Return the name of a row of the table."""
    return f"{value_bytes} B, {what}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reads:
    """Messages to read, stored in up to three systems."""

    spark: SparkSession
    server: ServerProcess
    topic: str
    rows: int
    value_bytes: int
    parquet: Path
    broker: Broker | None

    def store(self) -> None:
        """Copy the messages of the topic to the other systems."""
        frame = self._source(THREE)
        frame.write.parquet(str(self.parquet))
        if self.broker is not None:
            written = frame.select("value").write.format("kafka")
            written.option("kafka.bootstrap.servers", self.broker.address).option("topic", self.topic).save()

    def turns(self, *, with_probes: bool) -> dict[str, Turn[SparkRun]]:
        """Return all measurements.

        Args:
            with_probes: Include other batch sizes and tuples on a part of the messages, and archives of all.
        """
        turns: dict[str, Turn[SparkRun]] = {}

        def add(what: str, run: Callable[..., SparkRun], *given: object, **options: str) -> None:
            row = row_of(self.value_bytes, what)
            turns[row] = lambda: {row: run(*given, **options)}

        for schema in SCHEMAS:
            add(schema, self._read_topic, schema)
        for schema in (VALUE, THREE):
            add(f"{schema}, {PARQUET}", self._read_files, schema)
            if self.broker is not None:
                add(f"{schema}, {KAFKA}", self._read_kafka, schema)
        if with_probes:
            self.spark.dataSource.register(RowSource)
            add(f"{THREE}, {ROWS}", self._probe, "headrace-rows")
            add(f"{THREE}, {TINY}", self._probe, "headrace", batchRows="1000")
            add(f"{THREE}, {TEN}", self._probe, "headrace", batchRows="10000")
            add(ARCHIVE, self._write, archive)
            add(WRITE, self._write, write)
        source = source_options(self.server, STREAM, self.topic)
        add(FETCH, fetched, source, self.server.process.pid, self.value_bytes)
        split, kept = payloads(source, _CODEC_ROWS)
        for schema, columns in SCHEMAS.items():
            add(f"{CODEC}, {schema}", decoded, split, kept, columns, self.value_bytes)
        return turns

    def _source(self, schema: str, kind: str = "headrace", **options: str) -> DataFrame:
        wanted = source_options(self.server, STREAM, self.topic, **options)
        names = ", ".join(SCHEMAS[schema])
        if kind == "headrace":
            return self.spark.read.format(kind).options(**wanted, columns=names).load()
        from pyspark_headrace.columns.schema import COLUMNS

        ddl = ", ".join(f"{name} {COLUMNS[name]}" for name in SCHEMAS[schema])
        return self.spark.read.format(kind).schema(ddl).options(**wanted).load()

    def _read_topic(self, schema: str) -> SparkRun:
        return self._query(self._source(schema), schema)

    def _read_files(self, schema: str) -> SparkRun:
        return self._query(self.spark.read.parquet(str(self.parquet)), schema)

    def _read_kafka(self, schema: str) -> SparkRun:
        assert self.broker is not None, "there is one"
        where = {"kafka.bootstrap.servers": self.broker.address, "subscribe": self.topic}
        return self._query(self.spark.read.format("kafka").options(**where).load(), schema)

    def _probe(self, kind: str, **options: str) -> SparkRun:
        each = min(self.rows, _PROBE_ROWS) // PARTITIONS
        ends = json.dumps({self.topic: {str(number): each for number in range(PARTITIONS)}})
        frame = self._source(THREE, kind, endingOffsets=ends, **options)
        return self._query(frame, THREE, rows=each * PARTITIONS)

    def _write(self, act: Callable[[SparkSession, Mapping[str, str], Path], int]) -> SparkRun:
        source, place = source_options(self.server, STREAM, self.topic), self.parquet.with_name("archive")
        return self._measured(self.rows, lambda: act(self.spark, source, place))

    def _query(self, frame: DataFrame, schema: str, *, rows: int | None = None) -> SparkRun:
        rows = self.rows if rows is None else rows
        looked_at = [_LOOKED_AT[name] for name in SCHEMAS[schema]]
        return self._measured(rows, lambda: frame.selectExpr("count(*)", *looked_at).collect()[0][0])

    def _measured(self, rows: int, act: Callable[[], int]) -> SparkRun:
        """Measure an action that reads `rows` rows, and check the count that it returns."""
        seen: list[int] = []
        # Include all servers: those without a part in the query use almost no CPU.
        servers = [self.server.process.pid] + ([self.broker.pid] if self.broker is not None else [])
        meter = Meter(jvm_of_this_process(), servers)
        run = meter.run(rows, rows * self.value_bytes, lambda: seen.append(act()))
        assert seen == [rows], f"{seen} rows are not {rows}"
        return run
