"""Queries that keep a state: when messages were, and where the state is."""

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
"""Column with the time of a message."""
KEY: Final = "_key"
"""Column with the expressions of ``--key``, as a struct."""

_INCOMPARABLE: Final = re.compile(r"\b(map<|variant\b)")
_NO_TIME: Final = "it has no time"
_SETTINGS: Final = {
    # Not in the memory of executors, which a long window would fill.
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
}


def keyed(spark: SparkSession, rows: DataFrame, key: str, event_time: str) -> DataFrame:
    """Add time and key to rows of messages; those of good ones that have no time are bad ones.

    Args:
        spark: The session.
        rows: With `_message` and `_reason`.
        key: Expressions with commas, as after SELECT.
        event_time: The expression of a time.

    Raises:
        ArgumentError: One of them is wrong.
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
    """The expression of the time that counts: what servers say cannot be wrong by a producer's clock."""
    return event_time if event_time is not None else f"{MESSAGE}.timestamp"


@contextmanager
def stateful(spark: SparkSession, partitions: int | None) -> Iterator[None]:
    """Have queries that start meanwhile keep their state on disks, in so many parts.

    Args:
        spark: The session.
        partitions: How many; as many as there are cores unless said. The first run of a query decides for all.
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
