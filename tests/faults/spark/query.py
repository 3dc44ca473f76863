"""Streaming queries as a user would run them: one topic into Parquet files and into another topic, until the process
ends.

This is a separate program that imports nothing of this repository except the data source.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as column
from pyspark.sql.streaming.query import StreamingQuery

SHUFFLES = ("none", "in turns", "at random")
FAILURES_MAX = 100
"""Maximum number of failures of one process, which then exits; the supervisor starts another one."""
ALONE_SECONDS_MAX = 15.0
RETRIES = "20"
"""Number of retries: a killed server restarts within some seconds, or longer on a busy machine."""


def main() -> int:
    """Run both queries, and restart each that fails, as in production."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--servers", required=True)
    parser.add_argument("--username", required=True)
    parser.add_argument("--password-file", required=True)
    parser.add_argument("--stream", required=True)
    parser.add_argument("--directory", type=Path, required=True)
    parser.add_argument("--shuffle", choices=SHUFFLES, required=True)
    options = parser.parse_args()
    where = {
        "servers": options.servers,
        "username": options.username,
        "passwordFile": options.password_file,
        "stream": options.stream,
        "retry.max": RETRIES,
    }
    spark = session(options.directory)
    begin = {
        "files": lambda: begin_files(spark, where, options.directory, options.shuffle),
        "topic": lambda: begin_topic(spark, where, options.directory, options.shuffle),
    }
    running = {name: begun(start) for name, start in begin.items()}
    for _ in range(FAILURES_MAX):
        try:
            spark.streams.awaitAnyTermination()
        except StreamingQueryException as error:
            sys.stderr.write(f"a query failed: {reason(error)}\n")
        spark.streams.resetTerminated()
        for name, query in running.items():
            if not query.isActive:
                running[name] = begun(begin[name])
    sys.stderr.write("queries fail again and again\n")
    return 1


def begun(start: Callable[[], StreamingQuery]) -> StreamingQuery:
    """Start a query and wait for its first progress: Spark gives its processes only ten seconds to start, so start one
    at a time.
    """
    query = start()
    deadline = time.monotonic() + ALONE_SECONDS_MAX
    while query.isActive and query.lastProgress is None and time.monotonic() < deadline:
        time.sleep(0.1)
    return query


def reason(error: StreamingQueryException) -> str:
    """Return the line with the cause: of Python's error, if it was one, otherwise the first line."""
    lines = [line.strip() for line in str(error).splitlines() if not line.startswith(("\t", "  "))]
    named = [line for line in lines if line.startswith("pyspark_headrace.")]
    return (named or [line.rpartition("with exception: ")[2] for line in lines])[0][:400]


def session(directory: Path) -> SparkSession:
    """Create a session with two executors in separate processes."""
    return (
        SparkSession.builder.master("local-cluster[2,1,700]")
        .appName("kills")
        .config("spark.executor.memory", "600m")
        .config("spark.driver.memory", "600m")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .config("spark.executor.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .config("spark.local.dir", str(directory / "local"))
        .config("spark.sql.warehouse.dir", str(directory / "warehouse"))
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        # Python processes start slowly on a busy machine.
        .config("spark.python.authenticate.socketTimeout", "60s")
        # The test kills executors any number of times.
        .config("spark.deploy.maxExecutorRetries", "-1")
        .config("spark.task.maxFailures", "8")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )


def source(spark: SparkSession, where: dict[str, str], reader: str) -> DataFrame:
    """Read the input topic in micro-batches of limited size."""
    given = where | {
        "subscribe": "in",
        "startingOffsets": "earliest",
        "readerId": reader,
        "maxOffsetsPerTrigger": "3000",
    }
    return spark.readStream.format("headrace").options(**given).load()


def shuffled(frame: DataFrame, how: str) -> DataFrame:
    """Distribute the same rows over other tasks and in another order."""
    if how == "in turns":
        return frame.repartition(2)
    if how == "at random":
        return frame.withColumn("place", column.rand()).repartition(2, "place").drop("place")
    return frame


def begin_files(spark: SparkSession, where: dict[str, str], directory: Path, shuffle: str) -> StreamingQuery:
    """Start a query with Spark's own Parquet sink."""
    rows = source(spark, where, "files").select("partition", "offset", "value")
    return (
        shuffled(rows, shuffle)
        .writeStream.queryName("files")
        .format("parquet")
        .option("path", str(directory / "files"))
        .option("checkpointLocation", str(directory / "checkpoints/files"))
        .start()
    )


def begin_topic(spark: SparkSession, where: dict[str, str], directory: Path, shuffle: str) -> StreamingQuery:
    """Start a query with the sink that writes to a topic exactly once."""
    rows = source(spark, where, "topic").select("value")
    return (
        shuffled(rows, shuffle)
        .writeStream.queryName("topic")
        .format("headrace")
        .options(**where | {"topic": "out", "transactionalId": "kills", "stageLifetime": "10m", "batchBytes": "4k"})
        .option("checkpointLocation", str(directory / "checkpoints/topic"))
        .start()
    )


if __name__ == "__main__":
    sys.exit(main())
