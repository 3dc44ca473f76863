"""Stateful queries: event time and state store."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.types import TimestampType

from pyspark_headrace.jobs.records.decoding import MESSAGE, REASON
from pyspark_headrace.jobs.records.sql import query
from pyspark_headrace.jobs.running.arguments import ArgumentError

TIME: Final = "_time"
"""Column with the event time of a message."""
KEY: Final = "_key"
"""Column with the expressions of ``--key``, as a struct."""

_INCOMPARABLE: Final = re.compile(r"\b(map<|variant\b)")
_NO_TIME: Final = "it has no time"
_SETTINGS: Final = {
    # RocksDB instead of executor memory, which a long window would fill.
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
}


def keyed(spark: SparkSession, rows: DataFrame, key: str, event_time: str) -> DataFrame:
    """Add time and key to the rows of messages. Good messages without a time become bad ones.

    Args:
        spark: The session.
        rows: Rows with `_message` and `_reason`.
        key: Comma-separated expressions, as after SELECT.
        event_time: Expression of the event time.

    Raises:
        ArgumentError: An expression is wrong.
    """
    timed = query(spark, rows, f"SELECT *, ({event_time}\n) AS {TIME} FROM input", "--event-time")  # noqa: S608
    if not isinstance(timed.schema[TIME].dataType, TimestampType):
        kind = timed.schema[TIME].dataType.simpleString()
        raise ArgumentError(f"--event-time: it is {kind}, and has to be timestamp")
    found = query(spark, timed, f"SELECT *, struct({key}\n) AS {KEY} FROM input", "--key")  # noqa: S608
    keys = found.schema[KEY].dataType
    if _INCOMPARABLE.search(keys.simpleString()):
        raise ArgumentError(f"--key: {keys.simpleString()} has parts that cannot be compared")
    names = keys.fieldNames()  # type: ignore[attr-defined] # it is a struct
    if len({name.lower() for name in names}) < len(names):
        raise ArgumentError(f"--key: several expressions are named alike: {', '.join(names)}; AS gives them names")
    is_bad = sql.col(REASON).isNotNull()
    return found.withColumns(
        {
            TIME: sql.when(~is_bad, sql.col(TIME)),
            REASON: sql.when(is_bad, sql.col(REASON)).when(sql.col(TIME).isNull(), _NO_TIME),
        }
    )


def message_time(event_time: str | None) -> str:
    """Return the expression of the event time; by default the server time, which no producer's clock can falsify."""
    return event_time if event_time is not None else f"{MESSAGE}.timestamp"


@contextmanager
def stateful(spark: SparkSession, partitions: int | None) -> Iterator[None]:
    """Use on-disk state with a given number of partitions for queries started within the block.

    Args:
        spark: The session.
        partitions: Number of partitions; default: number of cores. The first run of a query fixes the number.
    """
    parts = partitions if partitions is not None else spark.sparkContext.defaultParallelism
    wanted = {**_SETTINGS, "spark.sql.shuffle.partitions": str(parts)}
    before = {name: spark.conf.get(name, None) for name in wanted}
    for name, value in wanted.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, earlier in before.items():
            if earlier is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, earlier)
