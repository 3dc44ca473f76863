"""Removal of duplicates."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sql

from pyspark_headrace.jobs.dead_letter_headers import KEY as KEY_HEADER
from pyspark_headrace.jobs.dedupe.config import DedupeConfig
from pyspark_headrace.jobs.records.config import JSON
from pyspark_headrace.jobs.records.dead_letters import HEADERS
from pyspark_headrace.jobs.records.decoding import MESSAGE, REASON, decoded, refused
from pyspark_headrace.jobs.records.outgoing import PARTS
from pyspark_headrace.jobs.records.states import KEY, TIME, keyed, message_time
from pyspark_headrace.jobs.records.tally import counted
from pyspark_headrace.jobs.running.arguments import ArgumentError

_OWN: Final = "_own"
"""Column with a unique value per message without key; NULL for messages with a key."""
_ID: Final = "id"


def following(spark: SparkSession, source: DataFrame, config: DedupeConfig) -> DataFrame:
    """Remove duplicates from a stream: those within the time window, and later ones until the watermark has moved.

    Raises:
        ArgumentError: An expression or the schema is wrong.
    """
    rows = _keyed(spark, source, config)
    timed = counted(rows).where(sql.col(REASON).isNull()).withWatermark(TIME, f"{config.within} milliseconds")
    kept = timed.dropDuplicatesWithinWatermark([KEY, _OWN]).select(MESSAGE, REASON)
    if config.decode == JSON or config.event_time is not None:
        # A message without key or time is never a duplicate.
        kept = kept.unionByName(counted(rows, "bad").where(sql.col(REASON).isNotNull()).select(MESSAGE, REASON))
    return kept


def exactly(spark: SparkSession, source: DataFrame, config: DedupeConfig) -> DataFrame:
    """Remove duplicates from a batch: exactly those within the time window after a kept message.

    Raises:
        ArgumentError: An expression or the schema is wrong.
    """
    rows = _keyed(spark, source, config)
    place = [sql.col(f"{MESSAGE}.{name}").alias(name) for name in ("topic", "partition", "offset")]
    moments = sql.struct(sql.unix_micros(TIME).alias("at"), *place)
    alike = rows.where(sql.col(REASON).isNull() & sql.col(_OWN).isNull()).groupBy(KEY)
    several = alike.agg(sql.sort_array(sql.collect_list(moments)).alias("all")).where(sql.size("all") > 1)
    within = config.within * 1000
    choose = sql.udf(lambda times: duplicates(times, within), "array<int>", useArrow=False)
    numbers = several.select("all", sql.explode(choose(sql.col("all.at"))).alias("number"))
    gone = numbers.select(sql.expr("all[number]").alias("one")).select("one.topic", "one.partition", "one.offset")
    kept = rows.select("*", *place).join(gone, ["topic", "partition", "offset"], "left_anti")
    return kept.select(MESSAGE, REASON)


def duplicates(times: Sequence[int], within: int) -> list[int]:
    """Return the duplicates among messages with one key.

    Args:
        times: Times of all messages, ascending.
        within: Time window after a kept message.

    Returns:
        Indexes of the duplicates, ascending.
    """
    found: list[int] = []
    kept = 0
    while kept < len(times):
        after = bisect_right(times, times[kept] + within, kept)
        found += range(kept + 1, after)
        kept = after
    return found


def metrics() -> list[Column]:
    """Return the metrics of kept messages."""
    return [sql.count(sql.lit(1)).alias("out"), sql.count_if(sql.col(REASON).isNotNull()).alias("bad")]


def written(kept: DataFrame, topic: str) -> DataFrame:
    """Convert kept messages, unchanged, to rows for a topic. A message that cannot be written unchanged is an error."""
    parts = {part: sql.col(f"{MESSAGE}.{part}") for part in PARTS}
    # The sink does not write empty values, because official clients refuse to read them.
    empty = _not_copied("it is empty", "length(value) > 0").cast("binary")
    parts["value"] = sql.when(sql.octet_length(parts["value"]) > 0, parts["value"]).otherwise(empty)
    unreadable = _not_copied(
        "its headers cannot be read, since their producer has encrypted them", "headers IS NOT NULL"
    )
    # The sink stores keys in such a header, and refuses rows that have another one.
    ambiguous = _not_copied(
        f"it has several headers {KEY_HEADER}, or one whose name is not a text",
        f"NOT exists(headers, header -> header.key = '{KEY_HEADER}')",
    )
    parts["headers"] = (
        sql.when(parts["headers"].isNull(), unreadable.cast(HEADERS))
        .when(sql.exists(parts["headers"], lambda header: header["key"] == KEY_HEADER), ambiguous.cast(HEADERS))
        .otherwise(parts["headers"])
    )
    return kept.select(sql.lit(topic).alias("topic"), *(column.alias(part) for part, column in parts.items()))


def _not_copied(reason: str, condition: str) -> Column:
    advice = f"transform copies the others to a topic for this job: --decode raw, and WHERE {condition} in its query"
    return refused("message", sql.lit(reason), advice)


def _keyed(spark: SparkSession, source: DataFrame, config: DedupeConfig) -> DataFrame:
    rows = decoded(source, config)
    key = config.key
    if key.strip() == _ID and config.decode == JSON:
        if _ID in rows.columns:
            raise ArgumentError(f"--key id: the schema has an id, too: say `id` in backticks, or {MESSAGE}.id")
        key = f"{MESSAGE}.{_ID}"
    found = keyed(spark, rows, key, message_time(config.event_time))
    return found.select(MESSAGE, REASON, TIME, KEY, sql.when(_has_no_key(found), _place()).alias(_OWN))


def _has_no_key(rows: DataFrame) -> Column:
    names = rows.schema[KEY].dataType.fieldNames()  # type: ignore[attr-defined] # it is a struct
    is_none = sql.lit(True)  # noqa: FBT003 - a column
    for place in range(len(names)):
        is_none &= rows[KEY].getField(names[place]).isNull()
    return is_none


def _place() -> Column:
    return sql.concat_ws("/", *(sql.col(f"{MESSAGE}.{name}") for name in ("topic", "partition", "offset")))
