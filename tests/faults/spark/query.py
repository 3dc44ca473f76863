"""What a user runs on Spark: one topic into Parquet files and into another topic, for as long as the process lives.

A program of its own, which imports nothing of this repository but the data source.
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
"""Of a life; afterwards the process ends, and another one has to go on."""
ALONE_SECONDS_MAX = 15.0
RETRIES = "20"
"""A server that was killed is there again within some seconds; on a machine with much to do, within some more."""


def main() -> int:
    """Run both queries, and each again when it fails, as who runs them for good does."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--servers", required=True)
    parser.add_argument("--username", required=True)
    parser.add_argument("--password-file", required=True)
    parser.add_argument("--stream", required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--shuffle", choices=SHUFFLES, required=True)
    options = parser.parse_args()
    where = {
        "servers": options.servers,
        "username": options.username,
        "passwordFile": options.password_file,
        "stream": options.stream,
        "retry.max": RETRIES,
    }
    spark = session(options.folder)
    begin = {
        "files": lambda: begin_files(spark, where, options.folder, options.shuffle),
        "topic": lambda: begin_topic(spark, where, options.folder, options.shuffle),
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
    """Start a query and let it get to work: Spark gives its processes ten seconds to start, little for all at once."""
    query = start()
    deadline = time.monotonic() + ALONE_SECONDS_MAX
    while query.isActive and query.lastProgress is None and time.monotonic() < deadline:
        time.sleep(0.1)
    return query


def reason(error: StreamingQueryException) -> str:
    """The line that says what was wrong: of Python, where it was that, otherwise the first one."""
    lines = [line.strip() for line in str(error).splitlines() if not line.startswith(("\t", "  "))]
    named = [line for line in lines if line.startswith("pyspark_headrace.")]
    return (named or [line.rpartition("with exception: ")[2] for line in lines])[0][:400]


def session(folder: Path) -> SparkSession:
    """Two executors in processes of their own."""
    return (
        SparkSession.builder.master("local-cluster[2,1,700]")
        .appName("kills")
        .config("spark.executor.memory", "600m")
        .config("spark.driver.memory", "600m")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .config("spark.executor.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .config("spark.local.dir", str(folder / "local"))
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        # Processes of Python take long to start on a machine with much to do.
        .config("spark.python.authenticate.socketTimeout", "60s")
        # Executors die here as often as it pleases whoever kills them.
        .config("spark.deploy.maxExecutorRetries", "-1")
        .config("spark.task.maxFailures", "8")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )


def source(spark: SparkSession, where: dict[str, str], reader: str) -> DataFrame:
    """The input topic, in micro-batches that are not too large."""
    given = where | {
        "subscribe": "in",
        "startingOffsets": "earliest",
        "readerId": reader,
        "maxOffsetsPerTrigger": "3000",
    }
    return spark.readStream.format("headrace").options(**given).load()


def shuffled(frame: DataFrame, how: str) -> DataFrame:
    """The same rows in other tasks, and in another order."""
    if how == "in turns":
        return frame.repartition(2)
    if how == "at random":
        return frame.withColumn("place", column.rand()).repartition(2, "place").drop("place")
    return frame


def begin_files(spark: SparkSession, where: dict[str, str], folder: Path, shuffle: str) -> StreamingQuery:
    """Parquet through Spark's own sink."""
    rows = source(spark, where, "files").select("partition", "offset", "value")
    return (
        shuffled(rows, shuffle)
        .writeStream.queryName("files")
        .format("parquet")
        .option("path", str(folder / "files"))
        .option("checkpointLocation", str(folder / "checkpoints/files"))
        .start()
    )


def begin_topic(spark: SparkSession, where: dict[str, str], folder: Path, shuffle: str) -> StreamingQuery:
    """A topic through the sink that writes exactly once."""
    rows = source(spark, where, "topic").select("value")
    return (
        shuffled(rows, shuffle)
        .writeStream.queryName("topic")
        .format("headrace")
        .options(**where | {"topic": "out", "transactionalId": "kills", "stageLifetime": "10m", "batchBytes": "4k"})
        .option("checkpointLocation", str(folder / "checkpoints/topic"))
        .start()
    )


if __name__ == "__main__":
    sys.exit(main())
