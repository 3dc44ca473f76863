"""Program that Spark runs outside the test process: reads a topic and writes into another one.

Gets its input as JSON on stdin and writes its observations as JSON to stdout.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as column

WAIT_SECONDS = 500


def session(reported: dict[str, Any]) -> SparkSession:
    builder = SparkSession.builder.appName("headrace elsewhere")
    builder = builder.remote(reported["remote"]) if "remote" in reported else builder.master(reported["master"])
    given = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "700m",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.log.level": "ERROR",
        # Workers start slowly on a busy machine.
        "spark.python.authenticate.socketTimeout": "60s",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    for name, value in (given | reported["conf"]).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def add_worker(spark: SparkSession) -> None:
    """Add a second executor at another address: Spark starts no speculative attempt at the address of the first
    attempt.
    """
    context = spark.sparkContext
    jvm = context._jvm
    cluster = context._jsc.sc().schedulerBackend()
    masters = cluster.getClass().getDeclaredField("masters")
    masters.setAccessible(True)
    worker = jvm.org.apache.spark.deploy.worker.Worker
    nothing = jvm.scala.Option.apply(None)
    conf = getattr(worker, "startRpcEnvAndEndpoint$default$9")()
    number = jvm.scala.Option.apply(2)
    worker.startRpcEnvAndEndpoint("127.0.0.2", 0, 0, 1, 700, masters.get(cluster), None, number, conf, nothing)
    deadline = time.monotonic() + WAIT_SECONDS
    # Two executors and the driver.
    while context._jsc.sc().getExecutorMemoryStatus().size() < 3:
        if time.monotonic() > deadline:
            raise RuntimeError("the second executor does not come")
        time.sleep(0.05)


def disturbed(frame: DataFrame, how: str, directory: str) -> DataFrame:
    """Disturb the first attempt of one task of a frame; notes about it are files in a directory."""

    def touched(value: bytes) -> bytes:
        context = TaskContext.get()
        if context.partitionId() != 1:
            return value
        notes = Path(directory)
        attempt = context.attemptNumber()
        is_first_row = not (mine := notes / f"{how}-{attempt}").exists()
        if is_first_row:
            mine.touch()
        if how == "fails" and attempt < 2:
            raise RuntimeError("a test has this task fail")
        if how == "dies" and attempt == 0 and is_first_row:
            # Process chain: worker, the daemon that has forked it, executor.
            daemon = Path(f"/proc/{os.getppid()}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
            os.kill(int(daemon[1]), signal.SIGKILL)
            time.sleep(WAIT_SECONDS)
        if how == "slow" and attempt == 0 and is_first_row:
            # Wait for the speculative attempt, then continue: both attempts write all rows.
            deadline = time.monotonic() + WAIT_SECONDS / 2
            while not (notes / "slow-1").exists() and time.monotonic() < deadline:
                time.sleep(0.05)
        return value

    return frame.select("key", column.udf(touched, "binary", useArrow=False)("value").alias("value"))


def main() -> None:
    reported = json.load(sys.stdin)
    spark = session(reported)
    where = reported["options"]
    batch = spark.read.format("headrace").options(**where, subscribe="a").load()
    seen: dict[str, Any] = {
        "is_connect": type(spark).__module__.startswith("pyspark.sql.connect"),
        "count": batch.count(),
        "offsets": batch.agg(column.sum("offset")).collect()[0][0],
        # Pitfall 5.1, for every kind of planning.
        "filtered": batch.filter("offset >= 5").count() - batch.count(),
    }
    notes = Path(reported["notes"])
    if "slow" in reported["disturbances"]:
        add_worker(spark)
    for how in reported["disturbances"]:
        arriving = spark.readStream.format("headrace").options(
            **where, subscribe="a", startingOffsets="earliest", minPartitions="4"
        )
        rows = arriving.load()
        if how == "dies":
            # The executor's shuffle output is lost with it: a stage is repeated.
            rows = rows.repartition(2)
        query = (
            disturbed(rows, how, str(notes))
            .writeStream.format("headrace")
            .options(**where, topic=f"out-{how}", batchBytes="1k")
            .option("checkpointLocation", str(notes / f"checkpoint-{how}"))
            .trigger(availableNow=True)
            .start()
        )
        if not query.awaitTermination(WAIT_SECONDS):
            raise RuntimeError(f"{how}: the query does not end: {query.status}")
    spark.createDataFrame([("x",)], "value STRING").write.format("headrace").mode("append").options(
        **where, topic="batch", guarantee="exactly-once"
    ).save()
    spark.stop()
    print(json.dumps(seen))  # noqa: T201 - this is the output


if __name__ == "__main__":
    main()
