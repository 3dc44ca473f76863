"""Aggregates as messages."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sql

from pyspark_headrace.jobs.aggregate.config import AggregateConfig
from pyspark_headrace.jobs.records.dead_letters import HEADERS, dead_letters, good
from pyspark_headrace.jobs.records.decoding import decoded
from pyspark_headrace.jobs.records.outgoing import FIELD_BYTES_MAX, as_json
from pyspark_headrace.jobs.records.schemas import quoted
from pyspark_headrace.jobs.records.sql import query
from pyspark_headrace.jobs.records.states import KEY, TIME, keyed, message_time
from pyspark_headrace.jobs.records.tally import OBSERVED, WINDOWS
from pyspark_headrace.jobs.running.arguments import ArgumentError

START: Final = "window_start"
END: Final = "window_end"

_WINDOW: Final = "_window"
_ENDS_MAX: Final = 1000
"""Maximum number of windows of a micro-batch for exact counts of late messages; with more, the counts are approximate.
"""


def aggregated(spark: SparkSession, source: DataFrame, config: AggregateConfig) -> DataFrame:
    """Compute the aggregates.

    Returns:
        Messages with a column `topic`: aggregates, and bad messages.

    Raises:
        ArgumentError: An expression or the schema is wrong.
    """
    rows = keyed(spark, decoded(source, config), config.key, message_time(config.event_time))
    timed = good(rows, config.dlq)
    if source.isStreaming:
        ends = sql.histogram_numeric(_last_end(config), sql.lit(_ENDS_MAX))
        timed = timed.withWatermark(TIME, f"{config.watermark} milliseconds").observe(WINDOWS, ends.alias("ends"))
    window = config.window.sql
    text = f"SELECT {window} AS {_WINDOW}, {KEY}, {config.agg}\nFROM input GROUP BY {window}, {KEY}"
    written = _messages(query(spark, timed, text, "--agg"), config)
    if config.dlq is not None:
        written = written.unionByName(dead_letters(rows, config.dlq))
    return written.observe(
        OBSERVED,
        sql.count_if(sql.col("topic") == config.to_topic).alias("out"),
        sql.count_if(sql.col("topic") != config.to_topic).alias("bad"),
    )


def _last_end(config: AggregateConfig) -> Column:
    """End, in seconds, of the last window of a message. The message is late if the watermark has passed this time."""
    length, slide = config.window.length_ms * 1000, config.window.slide_ms * 1000
    return sql.expr(f"(unix_micros({TIME}) DIV {slide} * {slide} + {length}) / 1e6D")


def _messages(aggregates: DataFrame, config: AggregateConfig) -> DataFrame:
    keys = aggregates.schema[KEY].dataType.fieldNames()  # type: ignore[attr-defined] # it is a struct
    found = [name for name in aggregates.columns if name not in {_WINDOW, KEY}]
    names = [START, END, *keys, *found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ArgumentError(f"--key, --agg: several aggregates are named {', '.join(twice)}; AS gives them other names")
    start, end = sql.col(f"{_WINDOW}.start").alias(START), sql.col(f"{_WINDOW}.end").alias(END)
    parts = [sql.col(f"{KEY}.{quoted(name)}").alias(name) for name in keys]
    # All results of one window and key share a message key, so they are in one partition, in order.
    key = as_json(*parts, start)
    return aggregates.select(
        sql.lit(config.to_topic).alias("topic"),
        sql.when(sql.octet_length(key) <= FIELD_BYTES_MAX, key)
        .otherwise(sql.sha2(key, 256))
        .cast("binary")
        .alias("key"),
        as_json(start, end, *parts, *(sql.col(quoted(name)) for name in found)).cast("binary").alias("value"),
        sql.lit(None).cast("binary").alias("id"),
        sql.lit(None).cast("timestamp").alias("origin_timestamp"),
        sql.lit(None).cast(HEADERS).alias("headers"),
    )
