"""Delays of flights by day and airline, computed with Spark: from a topic into another one and into Parquet.

Two queries. The first counts the flights of each day and carrier as they arrive, and writes the result to a topic,
exactly once, as soon as the day is complete: when the newest flight is so much later that no other flight of that day
is expected. The second copies that topic to Parquet.

Runs with `python delays.py` and with `spark-submit delays.py`, until Ctrl-C, or with --once until all existing messages
have been read. With the same `--directory` the program continues where an earlier run ended, even after a crash.
"""

from __future__ import annotations

import argparse
import logging
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as column
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from pyspark_headrace.lag import LagListener

FLIGHT = (
    "scheduled TIMESTAMP, carrier STRING, airline STRING, flight INT, origin STRING, destination STRING, "
    "departure_delay INT, arrival_delay INT"
)
"""JSON schema of a message of the first topic."""
DELAY = (
    "day DATE, carrier STRING, airline STRING, flights BIGINT, cancelled BIGINT, arrived BIGINT, late BIGINT, "
    "minutes BIGINT"
)
"""JSON schema of a message of the second topic. `minutes` is the sum of all arrival delays; early arrivals are
negative.
"""

LATE_MINUTES = 15

_REPORT_SECONDS = 5.0
_LOOK_SECONDS = 0.2
_ATTEMPTS = 10
# Spark waits ten seconds for the Python worker that a query starts with. The timeout is not configurable.
_TOO_SLOW = "Python worker failed to connect back"
_WAITS = ("Waiting for data to arrive", "Waiting for next trigger")


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Parse the options in `argv`; invalid ones end the program with status 2."""
    parser = argparse.ArgumentParser(
        prog="delays.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--servers", metavar="HOST:PORT,...", default="127.0.0.1:8094", help="gRPC addresses of gateways [%(default)s]"
    )
    parser.add_argument("--stream", default="flights", help="the stream of the topics [%(default)s]")
    parser.add_argument("--flights", default="flights", help="the topic that is read [%(default)s]")
    parser.add_argument("--delays", default="delays", help="the topic that is written [%(default)s]")
    parser.add_argument(
        "--directory",
        type=Path,
        default=Path(".cache/flights"),
        help="where Parquet (`delays`) and checkpoints go [%(default)s]",
    )
    parser.add_argument("--once", action="store_true", help="read what is there, and end")
    parser.add_argument(
        "--lateness",
        default="3 days",
        help="how much earlier than the newest flight another one may be and still be counted [%(default)s]",
    )
    parser.add_argument("--trigger", default="1 second", help="how often the first query looks for more [%(default)s]")
    parser.add_argument(
        "--username",
        default=os.environ.get("HEADRACE_USERNAME", "iggy"),
        help="who logs in [HEADRACE_USERNAME, otherwise iggy]; the password is read from the variable "
        "HEADRACE_PASSWORD, or from the file that HEADRACE_PASSWORD_FILE names",
    )
    parser.add_argument(
        "--option",
        dest="more",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="another option of the data source, such as tls.enabled=true; as often as needed",
    )
    options = parser.parse_args(argv)
    if wrong := [text for text in options.more if "=" not in text]:
        parser.error(f"--option {wrong[0]}: NAME=VALUE is expected")
    if not {"HEADRACE_PASSWORD", "HEADRACE_PASSWORD_FILE"} & os.environ.keys():
        parser.error("the password is not set: export HEADRACE_PASSWORD=...")
    return options


def delays_of(flights: DataFrame, lateness: str) -> DataFrame:
    """Count flights by day and carrier.

    Args:
        flights: Messages with the column `value`, JSON.
        lateness: Maximum delay of a flight behind the newest one.

    Returns:
        `key` and `value` of a message for each day and carrier.
    """
    day = column.window("scheduled", "1 day")
    counted = (
        flights.select(column.from_json(column.col("value").cast("string"), FLIGHT).alias("flight"))
        .select("flight.*")
        .withWatermark("scheduled", lateness)
        .groupBy(day.alias("day"), "carrier", "airline")
        .agg(
            column.count("carrier").alias("flights"),
            column.count_if(column.expr("carrier IS NOT NULL AND departure_delay IS NULL")).alias("cancelled"),
            column.count("arrival_delay").alias("arrived"),
            column.count_if(column.col("arrival_delay") >= LATE_MINUTES).alias("late"),
            column.coalesce(column.sum("arrival_delay"), column.lit(0)).alias("minutes"),
        )
        # A message that only advances the watermark has no carrier.
        .where("flights > 0")
    )
    reported = counted.withColumn("day", column.to_date("day.start"))
    return reported.select(
        "carrier", column.to_json(column.struct(*reported.columns)).alias("value")
    ).withColumnRenamed("carrier", "key")


def table_of(delays: DataFrame) -> DataFrame:
    """Return the columns of the Parquet table, decoded from the column `value`."""
    parsed = delays.select(column.from_json(column.col("value").cast("string"), DELAY).alias("delay")).select("delay.*")
    return parsed.withColumn("mean_minutes", column.try_divide("minutes", "arrived"))


class Pipeline:
    """Both queries of the example."""

    def __init__(self, spark: SparkSession, options: argparse.Namespace) -> None:
        self._spark = spark
        self._options = options
        self._where = source_options(options)

    def count(self) -> StreamingQuery:
        """Start the query that counts flights into the topic."""
        writer = (
            delays_of(self._topic(self._options.flights), self._options.lateness)
            .writeStream.format("headrace")
            .queryName("flights to delays")
            .options(**self._where, topic=self._options.delays)
            .option("checkpointLocation", str(self._options.directory / "checkpoints/delays"))
        )
        return self._triggered(writer, self._options.trigger).start()

    def keep(self) -> StreamingQuery:
        """Start the query that copies the counts from the topic to Parquet."""
        writer = (
            table_of(self._topic(self._options.delays))
            # One file for each micro-batch, which has few rows.
            .coalesce(1)
            .writeStream.format("parquet")
            .queryName("delays to Parquet")
            .option("path", str(self._options.directory / "delays"))
            .option("checkpointLocation", str(self._options.directory / "checkpoints/parquet"))
        )
        return self._triggered(writer, "5 seconds").start()

    def _topic(self, name: str) -> DataFrame:
        options = {"subscribe": name, "startingOffsets": "earliest", "columns": "value"}
        return self._spark.readStream.format("headrace").options(**self._where, **options).load()

    def _triggered(self, writer: DataStreamWriter, interval: str) -> DataStreamWriter:
        return writer.trigger(availableNow=True) if self._options.once else writer.trigger(processingTime=interval)


def source_options(options: argparse.Namespace) -> dict[str, str]:
    """Options of the data source: servers and credentials."""
    secret = (
        {"passwordEnv": "HEADRACE_PASSWORD"}
        if "HEADRACE_PASSWORD" in os.environ
        else {"passwordFile": os.environ["HEADRACE_PASSWORD_FILE"]}
    )
    more = dict(text.split("=", 1) for text in options.more)
    return {"servers": options.servers, "stream": options.stream, "username": options.username, **secret, **more}


class Progress(StreamingQueryListener):
    """Metrics of the first query."""

    def __init__(self) -> None:
        self.messages = self.too_late = 0
        self.watermark = ""

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's names
        """Do nothing: the first progress report has not arrived yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """Record the progress of a micro-batch."""
        progress = event.progress
        if progress.name != "flights to delays":
            return
        self.messages += progress.numInputRows
        self.watermark = (progress.eventTime or {}).get("watermark", self.watermark)
        self.too_late += sum(operator.numRowsDroppedByWatermark for operator in progress.stateOperators)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Do nothing: an idle query has no new metrics."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Do nothing: the metrics stay available."""


def follow(
    starts: Sequence[Callable[[], StreamingQuery]], metrics: Progress, lags: LagListener, stop: threading.Event
) -> None:
    """Start queries, and report their progress until all have ended or a stop is requested.

    `starts` are functions that start one query each. They may be called again, since queries are exactly-once.
    `metrics` has the metrics of the first query, `lags` the lag of all queries, and `stop` is the stop request.

    Raises:
        PySparkException: A query has failed.
    """
    queries: list[StreamingQuery] = []
    attempts = 1
    reported, printed_at = "", time.monotonic()
    while not stop.is_set() and (len(queries) < len(starts) or any(query.isActive for query in queries)):
        for index, query in enumerate(queries):
            failure = query.exception()
            if failure is not None and _TOO_SLOW in str(failure) and attempts < _ATTEMPTS:
                say(f"{query.name}: Python takes its time to start, once more")
                attempts += 1
                queries[index] = starts[index]()
            elif failure is not None:
                raise failure
        # Start one query after the other: starting is the most expensive part.
        if len(queries) < len(starts) and all(is_on_its_way(query) for query in queries):
            queries.append(starts[len(queries)]())
        text = progress_of(metrics, sum(lag.total for lag in lags.all()), queries)
        if text != reported and time.monotonic() - printed_at >= _REPORT_SECONDS:
            reported, printed_at = text, time.monotonic()
            say(text)
        stop.wait(_LOOK_SECONDS)
    for query in queries:
        query.stop()
        if (failure := query.exception()) is not None:
            raise failure


def is_on_its_way(query: StreamingQuery) -> bool:
    """Return whether the query has started its work, or has ended successfully."""
    if not query.isActive:
        return query.exception() is None
    return query.lastProgress is not None or stage_of(query) in _WAITS


def stage_of(query: StreamingQuery) -> str:
    """Current stage of a query, in Spark's words."""
    return str(query.status["message"]).partition(" from ")[0]


def progress_of(metrics: Progress, behind: int, queries: Sequence[StreamingQuery] = ()) -> str:
    """Format the progress as one line."""
    day = metrics.watermark[:10]
    closed = f", days before {day} are closed" if day > "1970-01-01" else ""
    beginning = "".join(f" ({query.name}: {stage_of(query)})" for query in queries if not is_on_its_way(query))
    return f"{metrics.messages:,} messages read, {behind:,} to go{closed}{beginning}"


def session(variables: Mapping[str, str] = os.environ) -> SparkSession:
    """Return the session configured by spark-submit, or a local one."""
    builder = SparkSession.builder.appName("flights").config("spark.sql.session.timeZone", "UTC")
    if "PYSPARK_GATEWAY_PORT" not in variables:
        small: dict[str, str | bool | float | int | None] = {
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            # Python starts slowly on a busy machine.
            "spark.python.authenticate.socketTimeout": "60s",
            # Short start-up time matters more than peak performance here.
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        }
        builder = builder.config(map=small)
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = builder.getOrCreate()
    if spark.sparkContext.getConf().get("spark.sql.shuffle.partitions") is None:
        # With few groups, each additional partition costs more than it gains.
        spark.conf.set("spark.sql.shuffle.partitions", "2")
    # Errors are reported below in one line.
    spark.sparkContext.setLogLevel("OFF")
    logging.getLogger("DataFrameQueryContextLogger").setLevel(logging.CRITICAL)
    return spark


def reason(error: PySparkException) -> str:
    """Extract the cause from an error of Spark."""
    text = str(error)
    named = re.findall(r"pyspark_headrace\.errors\.(\w+: .+)", text)
    return named[-1] if named else text.splitlines()[0]


def say(text: str) -> None:
    """Print a line for the user."""
    sys.stderr.write(f"delays: {text}\n")


def main(argv: Sequence[str]) -> int:
    """Run the program; returns the exit status."""
    options = parse(argv)
    spark = session()
    stop = threading.Event()
    # Spark has installed handlers of its own.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    metrics, lags = Progress(), LagListener()
    spark.streams.addListener(metrics)
    spark.streams.addListener(lags)
    pipeline = Pipeline(spark, options)
    say(f"Spark {spark.version} reads {options.stream}/{options.flights}; Parquet in {options.directory / 'delays'}")
    try:
        if options.once:
            # Run the queries one after the other: the second reads the output of the first.
            follow([pipeline.count], metrics, lags, stop)
            if not stop.is_set():
                follow([pipeline.keep], metrics, lags, stop)
        else:
            follow([pipeline.count, pipeline.keep], metrics, lags, stop)
    except PySparkException as error:
        say(f"error: {reason(error)}")
        return 1
    finally:
        if metrics.too_late:
            say(f"{metrics.too_late} groups of flights came later than --lateness allows, and are in no result")
        say(progress_of(metrics, sum(lag.total for lag in lags.all())))
        spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
