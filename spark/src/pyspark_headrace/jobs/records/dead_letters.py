"""Dead letters: bad messages, unchanged as far as possible, with the reason in headers, for a topic of their own."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from pyspark_headrace.jobs import dead_letter_headers as names
from pyspark_headrace.jobs.records.decoding import MESSAGE, REASON, refused
from pyspark_headrace.jobs.records.tally import counted


def good(rows: DataFrame, dlq: str | None) -> DataFrame:
    """Return the rows of good messages and count all. Without a dead-letter topic the first bad message is an error."""
    if dlq is None:
        # The observation is a barrier for the optimizer: otherwise Spark could evaluate the conditions of a query
        # first, and a bad message that these filter out would not be an error.
        refusal = refused("bad message", sql.col(REASON), "--dlq has a topic for such messages")
        rows = counted(rows).where(sql.col(REASON).isNull() | refusal.cast("boolean"))
        return counted(rows, "good").drop(REASON)
    return counted(rows).where(sql.col(REASON).isNull()).drop(REASON)


def dead_letters(rows: DataFrame, dlq: str) -> DataFrame:
    """Convert bad messages to rows for the dead-letter topic.

    Args:
        rows: Rows with `_message` and `_reason`.
        dlq: Dead-letter topic.
    """
    part = {name: sql.col(f"{MESSAGE}.{name}") for name in ("key", "value", "origin_timestamp", "headers")}
    return (
        counted(rows, "bad")
        .where(sql.col(REASON).isNotNull())
        .select(
            sql.lit(dlq).alias("topic"),
            part["key"].alias("key"),
            sql.when(sql.octet_length(part["value"]) == 0, sql.lit(names.EMPTY_VALUE))
            .otherwise(part["value"])
            .alias("value"),
            sql.lit(None).cast("binary").alias("id"),
            part["origin_timestamp"].alias("origin_timestamp"),
            headers(sql.col(REASON), MESSAGE, part["headers"]).alias("headers"),
        )
    )


def headers(reason: Column, message: str | None, kept: Column | None = None) -> Column:
    """Return the headers with the reason and the origin of a bad message.

    Args:
        reason: Reason why the message is bad.
        message: Column with the message; None if unknown.
        kept: Original headers, NULL for unreadable ones; None: the message is a new one, without headers.
    """
    said = [(names.REASON, reason)]
    if message is not None:
        said += [
            (names.TOPIC, sql.col(f"{message}.topic")),
            (names.PARTITION, sql.col(f"{message}.partition").cast("string")),
            (names.OFFSET, sql.col(f"{message}.offset").cast("string")),
        ]
    ours = sql.array(*(_header(name, text) for name, text in said))
    if kept is None:
        return ours
    none = sql.array().cast(HEADERS)
    before = sql.filter(sql.coalesce(kept, none), lambda header: ~header["key"].isin(*names.OURS))
    size = sql.aggregate(
        before,
        sql.lit(0),
        lambda total, header: (
            total + sql.octet_length(header["key"]) + sql.octet_length(header["value"]) + names.HEADER_BYTES
        ),
    )
    lost = sql.when(kept.isNull(), names.UNREADABLE).when(size > names.KEPT_BYTES_MAX, names.TOO_LARGE)
    return sql.concat(
        sql.when(lost.isNull(), before).otherwise(none),
        ours,
        sql.when(lost.isNotNull(), sql.array(_header(names.HEADERS, lost))).otherwise(none),
    )


HEADERS: Final = "array<struct<key:string,value:binary>>"
"""SQL type of headers."""


def _header(name: str, text: Column) -> Column:
    value = sql.substring(text.cast("binary"), 1, names.VALUE_BYTES_MAX)
    return sql.struct(sql.lit(name).alias("key"), value.alias("value"))
