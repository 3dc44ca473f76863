"""Spark: peak memory of reading one partition with very many messages by four tasks."""

from __future__ import annotations

import importlib.util
import json
from contextlib import ExitStack
from typing import TYPE_CHECKING

from tests.performance.loads.load import STREAM
from tests.performance.results.metrics import Metric, at_least, at_most
from tests.performance.results.section import Section
from tests.performance.workbench import Workbench

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tests.performance.loads.measurement import Measurement

TOPIC = "many"
VALUE_BYTES = 100
TASKS = 4
SHARE = 10
"""Ratio to the smaller first read; memory that grows with the amount read would show."""
MB = 1_000_000


def run(bench: Workbench) -> Section:
    """Measure the case once: repetition adds nothing to a peak."""
    if importlib.util.find_spec("pyspark") is None:
        return Section(name="spark-memory", title="not measured", notes=("`make setup-spark` brings Spark.",))
    from tests.performance.spark import peaks
    from tests.performance.spark.runs import COLUMNS, Meter, jvm_of_this_process
    from tests.performance.spark.session import CORES, session, source_options
    from tests.performance.spark.topics import filled

    directory = bench.directory / "spark-memory"
    directory.mkdir()
    rows = bench.scale.spark_messages
    runs: dict[str, list[Measurement]] = {}
    seen: list[dict[str, int]] = []
    with ExitStack() as stack:
        server = stack.enter_context(bench.server("spark-memory-server"))
        bench.started(f"{rows} messages")
        stack.enter_context(filled(server, TOPIC, rows=rows, value_bytes=VALUE_BYTES))
        spark = stack.enter_context(session(directory))
        jvm = jvm_of_this_process()
        meter, memory = Meter(jvm, [server.process.pid]), peaks.Peaks(jvm)
        for count in (rows // SHARE, rows):
            bench.started(f"reading {count} messages")
            options = source_options(
                server,
                STREAM,
                TOPIC,
                endingOffsets=json.dumps({TOPIC: {"0": count}}),
                maxRecordsPerPartition=str(-(-count // TASKS)),
                maxBytesPerPartition="1000g",
            )
            frame = spark.read.format("headrace").options(**options).load()
            with memory.watched():
                measured = meter.run(count, count * VALUE_BYTES, lambda frame=frame, count=count: _read(frame, count))
            runs[f"{count:,} messages"] = [measured]
            seen.append(dict(memory.bytes))
    few, many = seen
    value = many[peaks.WORKER] / few[peaks.WORKER]
    return Section(
        name="spark-memory",
        title=f"{rows:,} messages of {VALUE_BYTES} B in one partition, read by {TASKS} tasks on local[{CORES}]",
        columns=COLUMNS,
        samples=runs,
        metrics=[
            Metric("rows per CPU s, default columns", (rows / measured.cpu_seconds / 1e6,), "M", at_least(1.0)),
            *(Metric(f"peak of {kind}", (many[kind] / MB,), "MB") for kind in sorted(many)),
            Metric(f"peak of a worker, after all / after a {SHARE}th of them", (value,), "", at_most(1.25)),
        ],
        notes=("The JVM may have 2 GB. Each offset was there once: their number and their sum say so.",),
    )


def _read(frame: DataFrame, rows: int) -> None:
    from pyspark.sql.functions import spark_partition_id

    tasks = frame.groupBy(spark_partition_id().alias("task")).agg(
        {"offset": "sum", "*": "count", "timestamp": "max", "topic": "max"}
    )
    found = tasks.selectExpr("`count(1)` AS count", "`sum(offset)` AS sum").collect()
    # Splits begin at index entries, so that there may be one more.
    assert TASKS <= len(found) <= TASKS + 1, f"{len(found)} tasks"
    assert sum(row["count"] for row in found) == rows, "messages are missing, or there are too many"
    assert sum(row["sum"] for row in found) == rows * (rows - 1) // 2, "some are missing, and others were there twice"
