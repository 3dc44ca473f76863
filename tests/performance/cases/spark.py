"""Spark: cost of reading a topic compared with reading Parquet, with Kafka, and without Spark."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from tests.performance.results.metrics import Goal, Metric, at_least, at_most, each, ratios
from tests.performance.results.section import Section
from tests.performance.rounds import alternate
from tests.performance.workbench import Workbench

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.performance.loads.measurement import Measurement
    from tests.performance.rivals.kafka_broker import Broker
    from tests.server_process import ServerProcess

SIZES = (100, 1000)
NOTES = (
    "CPU is that of the JVM, its Python workers and the server (or broker); without Spark, of a process and server.",
    "Values are different texts of 64 letters by chance; there are no keys and no headers.",
)

Runs = Mapping[str, Sequence["Measurement"]]


def run(bench: Workbench) -> Section:
    """Measure the case."""
    if importlib.util.find_spec("pyspark") is None:
        return Section(name="spark", title="not measured", notes=("Spark is not there: `make setup-spark` brings it.",))
    from tests.performance.spark.runs import COLUMNS
    from tests.performance.spark.session import session

    directory = bench.directory / "spark"
    directory.mkdir()
    runs: dict[str, list[Measurement]] = {}
    with ExitStack() as stack:
        server = stack.enter_context(bench.server("spark-server"))
        spark = stack.enter_context(session(directory, _jars(bench)))
        for value_bytes in SIZES:
            runs |= _reads(bench, spark, server, directory / str(value_bytes), value_bytes)
        metrics = [*_metrics(runs), *_queries(bench, spark, server, directory)]
    return Section(
        name="spark",
        title=f"{bench.scale.spark_bytes / 1e9:.3g} GB in messages of 100 B, and of 1000 B, read by local[2]",
        columns=COLUMNS,
        samples=runs,
        metrics=metrics,
        notes=NOTES,
    )


def _jars(bench: Workbench) -> list[Path]:
    from tests.performance.spark.kafka import source_jars

    if not bench.kafka:
        return []
    bench.started("loading Spark's source for Kafka")
    return source_jars()


def _reads(
    bench: Workbench, spark: SparkSession, server: ServerProcess, directory: Path, value_bytes: int
) -> dict[str, list[Measurement]]:
    from tests.performance.spark.kafka import broker
    from tests.performance.spark.reads import PARTITIONS, Reads
    from tests.performance.spark.topics import filled

    rows = bench.scale.spark_bytes // value_bytes // PARTITIONS * PARTITIONS
    topic = f"values-{value_bytes}"
    directory.mkdir()
    with ExitStack() as stack:
        bench.started(f"messages of {value_bytes} B")
        stack.enter_context(filled(server, topic, rows=rows, value_bytes=value_bytes, partitions=PARTITIONS))
        kafka: Broker | None = stack.enter_context(broker(directory / "kafka", spark)) if bench.kafka else None
        reads = Reads(
            spark=spark,
            server=server,
            topic=topic,
            rows=rows,
            value_bytes=value_bytes,
            parquet=directory / "parquet",
            broker=kafka,
        )
        reads.store()
        turns = reads.turns(with_probes=value_bytes == SIZES[0])
        samples = alternate(turns, bench.scale.rounds, bench.started)
    shutil.rmtree(directory)
    return {row: list(samples[row]) for row in turns}


def _metrics(runs: Runs) -> list[Metric]:
    from tests.performance.spark import reads
    from tests.performance.spark.archives import ARCHIVE, WRITE

    def rate(row: str) -> tuple[float, ...]:
        return each(runs[row], lambda run: run.requests / run.cpu_seconds / 1e6)

    def metric(name: str, value_bytes: int, of: str, beside: str, goal: Goal | None = None) -> Metric:
        values = ratios(rate(reads.row_of(value_bytes, of)), rate(reads.row_of(value_bytes, beside)))
        return Metric(f"{value_bytes} B: rows per CPU s, {name}", values, "", goal)

    small = SIZES[0]
    value, three = (rate(reads.row_of(small, schema)) for schema in (reads.VALUE, reads.THREE))
    tuples, tiny, ten = (f"{reads.THREE}, {kind}" for kind in (reads.ROWS, reads.TINY, reads.TEN))
    metrics = [
        Metric(f"{small} B: rows per CPU s, value only", value, "M", at_least(1.0)),
        Metric(f"{small} B: rows per CPU s, 3 columns", three, "M"),
        metric("value only / all columns", small, reads.VALUE, reads.FULL, at_least(2.0)),
        metric("3 columns, as columns / as tuples", small, ten, tuples, at_least(4.0)),
        metric("3 columns, batches of 10,000 / of 1,000 rows", small, ten, tiny, at_least(1.5)),
        metric("Parquet (zstd), archived / written by Spark", small, ARCHIVE, WRITE, at_least(1.5)),
    ]
    beside = [
        metric(f"{schema}, topic / {other}", size, schema, f"{schema}, {other}")
        for size in SIZES
        for schema in (reads.VALUE, reads.THREE)
        for other in (reads.PARQUET, reads.KAFKA)
        if reads.row_of(size, f"{schema}, {other}") in runs
    ]
    return [*metrics, *beside]


def _queries(bench: Workbench, spark: SparkSession, server: ServerProcess, directory: Path) -> list[Metric]:
    from tests.performance.spark.queries import CALLS, IDLE, IDLE_FILES, TRIGGER, TRIGGER_RATE, Queries

    turns = Queries(spark, server, directory).turns()
    samples = alternate(turns, bench.scale.rounds, bench.started)

    def metric(what: str, unit: str, goal: Goal | None = None) -> Metric:
        return Metric(what, tuple(samples[what]), unit, goal)

    return [
        metric(TRIGGER, "ms", at_most(300.0)),
        metric(TRIGGER_RATE, "ms"),
        metric(IDLE, "%"),
        metric(IDLE_FILES, "%"),
        metric(CALLS, "1/s", at_most(10.0)),
    ]
