"""Bad messages, on their way to a topic of their own: as they were, and what is wrong in headers."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from pyspark_headrace.jobs import dead_letter_headers as names
from pyspark_headrace.jobs.records.decoding import MESSAGE, REASON
from pyspark_headrace.jobs.records.tally import counted


def good(rows: DataFrame, dlq: str | None) -> DataFrame:
    """Rows of good messages, with all of them counted. Without a topic for bad ones the first of those is an error."""
    if dlq is None:
        # Nothing gets past what is counted: with the conditions of a query beside it Spark would be free to look at
        # those first, and a bad message that they leave out would be no error.
        rows = counted(rows).where(sql.col(REASON).isNull() | _refused())
        return counted(rows, "good").drop(REASON)
    return counted(rows).where(sql.col(REASON).isNull()).drop(REASON)


def dead_letters(rows: DataFrame, dlq: str) -> DataFrame:
    """Messages for the topic of bad ones.

    Args:
        rows: With `_message` and `_reason`.
        dlq: The topic.
    """
    part = {name: sql.col(f"{MESSAGE}.{name}") for name in ("key", "value", "origin_timestamp", "headers")}
    return (
        counted(rows, "bad")
        .where(sql.col(REASON).isNotNull())
        .select(
            sql.lit(dlq).alias("topic"),
            part["key"].alias("key"),
            part["value"].alias("value"),
            sql.lit(None).cast("binary").alias("id"),
            part["origin_timestamp"].alias("origin_timestamp"),
            headers(sql.col(REASON), MESSAGE, part["headers"]).alias("headers"),
        )
    )


def headers(reason: Column, message: str | None, kept: Column | None = None) -> Column:
    """What says why something is a bad message, and which one.

    Args:
        reason: Why.
        message: Column with the message; None: it is not known.
        kept: Headers that it has had.
    """
    said = [(names.REASON, reason)]
    if message is not None:
        said += [
            (names.TOPIC, sql.col(f"{message}.topic")),
            (names.PARTITION, sql.col(f"{message}.partition").cast("string")),
            (names.OFFSET, sql.col(f"{message}.offset").cast("string")),
        ]
    ours = sql.array(
        *(
            sql.struct(
                sql.lit(name).alias("key"),
                sql.substring(text.cast("binary"), 1, names.VALUE_BYTES_MAX).alias("value"),
            )
            for name, text in said
        )
    )
    if kept is None:
        return ours
    before = sql.filter(sql.coalesce(kept, sql.array().cast(HEADERS)), lambda header: ~header["key"].isin(*names.OURS))
    size = sql.aggregate(
        before,
        sql.lit(0),
        lambda total, header: (
            total + sql.octet_length(header["key"]) + sql.octet_length(header["value"]) + names.HEADER_BYTES
        ),
    )
    return sql.concat(sql.when(size <= names.KEPT_BYTES_MAX, before).otherwise(sql.array().cast(HEADERS)), ours)


HEADERS: Final = "array<struct<key:string,value:binary>>"
"""Their type."""


def _refused() -> Column:
    where = [sql.col(f"{MESSAGE}.{name}").cast("string") for name in ("topic", "partition", "offset")]
    text = sql.concat(
        sql.lit("bad message in topic "),
        where[0],
        sql.lit(", partition "),
        where[1],
        sql.lit(", offset "),
        where[2],
        sql.lit(": "),
        sql.col(REASON),
        sql.lit("; --dlq has a topic for such messages"),
    )
    return sql.raise_error(text).cast("boolean")
