"""Conversion of query rows to messages."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    MapType,
    NullType,
    StringType,
    StructType,
    TimestampType,
    VariantType,
)

from pyspark_headrace.jobs.records.dead_letters import HEADERS, headers
from pyspark_headrace.jobs.records.decoding import MESSAGE
from pyspark_headrace.jobs.records.schemas import quoted
from pyspark_headrace.jobs.running.arguments import ArgumentError

PARTS: Final = ("key", "value", "id", "origin_timestamp", "headers")
"""Parts of a message."""

FIELD_BYTES_MAX: Final = 255
"""Maximum size of a key, which servers store as a header."""

_ID_BYTES: Final = 16
_SHAPELESS: Final = (ArrayType, MapType, StructType, VariantType)


def as_json(*columns: str | Column) -> Column:
    """Return the columns as a JSON object; NULL becomes null."""
    return sql.to_json(sql.struct(*columns), {"ignoreNullFields": "false"})


def messages(rows: DataFrame, topic: str, dlq: str | None, flag: str) -> DataFrame:
    """Convert the rows of a query to messages.

    The columns `key`, `value`, `id`, `origin_timestamp` and `headers` become those parts. Without a column `value` the
    remaining columns become a JSON object. A row that cannot be a message is written to the dead-letter topic.

    Args:
        rows: Rows of the query; `_message` is not written.
        topic: Target topic.
        dlq: Dead-letter topic; None: the first bad row fails the job.
        flag: Argument with the query, for errors.

    Raises:
        ArgumentError: The columns cannot be parts of messages.
    """
    names = [name for name in rows.columns if name != MESSAGE]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ArgumentError(f"{flag}: several columns are named {', '.join(twice)}; AS gives them other names")
    others = [name for name in names if name not in PARTS]
    if "value" in names and others:
        raise ArgumentError(
            f"{flag}: with a column value there are only {', '.join(PARTS)} besides, and not {', '.join(others)}"
        )
    if "value" not in names and not others:
        raise ArgumentError(f"{flag}: there is nothing to make a value of")
    kinds = {name: rows.schema[name].dataType for name in names}
    given = {name: _part(name, kinds.get(name), flag) for name in PARTS}
    if "value" not in names:
        given["value"] = as_json(*map(quoted, others)).cast("binary")
    parts = rows.select(
        *(column.alias(name) for name, column in given.items()),
        as_json(*map(quoted, names)).alias("_row"),
        *([MESSAGE] if MESSAGE in rows.columns else []),
    )
    reason = (
        sql.when(_is_empty("value"), "it has no value")
        .when(sql.octet_length("key") > FIELD_BYTES_MAX, f"its key has more than {FIELD_BYTES_MAX} bytes")
        .when(sql.octet_length("id") != _ID_BYTES, f"its id has other than {_ID_BYTES} bytes")
    )
    judged = parts.select("*", reason.alias("_why"))
    if dlq is None:
        complaint = sql.concat(sql.col("_why"), sql.lit("; --dlq has a topic for such rows: "), sql.col("_row"))
        judged = judged.where(sql.col("_why").isNull() | sql.raise_error(complaint).cast("boolean"))
        return judged.select(sql.lit(topic).alias("topic"), *PARTS)
    is_good = sql.col("_why").isNull()
    about = headers(sql.col("_why"), MESSAGE if MESSAGE in rows.columns else None)
    return judged.select(
        sql.when(is_good, topic).otherwise(dlq).alias("topic"),
        sql.when(is_good, sql.col("key")).alias("key"),
        sql.when(is_good, sql.col("value")).otherwise(sql.col("_row").cast("binary")).alias("value"),
        sql.when(is_good, sql.col("id")).alias("id"),
        "origin_timestamp",
        sql.when(is_good, sql.col("headers")).otherwise(about).alias("headers"),
    )


def _part(name: str, kind: DataType | None, flag: str) -> Column:
    wanted = {"origin_timestamp": "timestamp", "headers": HEADERS}.get(name, "binary")
    if kind is None or isinstance(kind, NullType):
        return sql.lit(None).cast(wanted)
    column = sql.col(name)
    match name:
        case "key" | "value" if isinstance(kind, (BinaryType, StringType)):
            # An empty key is no key.
            return sql.nullif(column.cast("binary"), sql.lit(b"")) if name == "key" else column.cast("binary")
        case "key" | "value" if not isinstance(kind, _SHAPELESS):
            return column.cast("string").cast("binary")
        case "id" if isinstance(kind, BinaryType):
            return column
        case "origin_timestamp" if isinstance(kind, TimestampType):
            return column
        case "headers" if kind.simpleString() == HEADERS:
            return column
        case "key" | "value":
            raise ArgumentError(f"{flag}: column {name} is {kind.simpleString()}; to_json() makes a text of it")
        case _:
            raise ArgumentError(f"{flag}: column {name} is {kind.simpleString()}, and has to be {wanted}")


def _is_empty(name: str) -> Column:
    return sql.col(name).isNull() | (sql.octet_length(name) == 0)
