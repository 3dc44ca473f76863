"""Decoder from messages with JSON objects as values to rows, with the reasons for bad ones."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.types import BooleanType, StringType, StructField, StructType

from pyspark_headrace.jobs.dead_letter_headers import EMPTY
from pyspark_headrace.jobs.records.config import JSON, RecordsConfig
from pyspark_headrace.jobs.records.schemas import quoted, read_schema, required
from pyspark_headrace.jobs.records.sql import said
from pyspark_headrace.jobs.running.arguments import ArgumentError

COLUMNS: Final = ("topic", "partition", "offset", "timestamp", "origin_timestamp", "id", "key", "value", "headers")
"""Columns of messages to read."""

MESSAGE: Final = "_message"
"""Column with the message that a row was decoded from."""
REASON: Final = "_reason"
"""Column with the reason why a message is bad; NULL for good messages."""

Ranges = Mapping[str, Mapping[int, tuple[int, int]]]
"""Start and end offsets by topic and partition."""

_TEXT: Final = "_text"
_PARSED: Final = "_parsed"
_CORRUPT: Final = "_corrupt"


def stream_of(spark: SparkSession, config: RecordsConfig) -> DataFrame:
    """Messages of the job's topics, as a stream."""
    reader = spark.readStream.format("headrace").options(**config.stream_options()).options(**config.reading())
    return reader.option("columns", ",".join(COLUMNS)).load()


def batch_of(spark: SparkSession, config: RecordsConfig, ranges: Ranges) -> DataFrame:
    """Existing messages, as a batch."""
    starts, ends = (
        json.dumps({topic: {str(part): pair[place] for part, pair in parts.items()} for topic, parts in ranges.items()})
        for place in (0, 1)
    )
    given = config.source_options() | config.reading() | {"startingOffsets": starts, "endingOffsets": ends}
    return spark.read.format("headrace").options(**given).option("columns", ",".join(COLUMNS)).load()


def decoded(messages: DataFrame, config: RecordsConfig) -> DataFrame:
    """Decode messages to rows.

    Returns:
        Members of the objects, or the parts of messages if values are not decoded; `_message` and `_reason`.

    Raises:
        ArgumentError: The schema is wrong.
    """
    whole = messages.select("*", sql.struct(*COLUMNS).alias(MESSAGE))
    if config.decode != JSON or config.schema is None:
        return whole.select("*", sql.lit(None).cast("string").alias(REASON))
    schema = read_schema(config.schema)
    taken = [name for name in schema.fieldNames() if name.startswith("_")]
    if taken:
        raise ArgumentError(f"--schema {config.schema}: names that begin with _ are taken: {', '.join(taken)}")
    try:
        return _objects(whole, schema)
    except PySparkException as error:
        raise ArgumentError(f"--schema {config.schema}: {said(error)}") from error


def refused(what: str, reason: Column, advice: str) -> Column:
    """Return an expression that ends the job, with the position of the message.

    Args:
        what: Kind of message, for the error message.
        reason: Reason why the message ends the job.
        advice: Advice to users.
    """
    position = [sql.col(f"{MESSAGE}.{name}").cast("string") for name in ("topic", "partition", "offset")]
    text = sql.concat(
        sql.lit(f"{what} in topic "),
        position[0],
        sql.lit(", partition "),
        position[1],
        sql.lit(", offset "),
        position[2],
        sql.lit(": "),
        reason,
        sql.lit(f"; {advice}"),
    )
    return sql.raise_error(text)


def _objects(messages: DataFrame, schema: StructType) -> DataFrame:
    # Spark's JSON parser stops after the first object and ignores the rest of the text. To detect trailing text, the
    # value is nested in an object that continues after the value, with random member names that no value has. The value
    # is also the only element of a list, so that it cannot add members. Trailing text breaks one of the two.
    token = uuid.uuid4().hex
    value, end = f"v{token}", f"e{token}"
    around = StructType(
        [StructField(value, schema), StructField(end, BooleanType()), StructField(_CORRUPT, StringType())]
    )
    text = messages.select(
        MESSAGE,
        sql.concat(sql.lit(f'{{"{value}":'), sql.col("value").cast("string"), sql.lit(f',"{end}":true}}')).alias(_TEXT),
    )
    how = {
        "mode": "PERMISSIVE",
        "columnNameOfCorruptRecord": _CORRUPT,
        "allowSingleQuotes": "false",
        "allowNonNumericNumbers": "false",
    }
    parsed = text.select("*", sql.from_json(_TEXT, around, how).alias(_PARSED))
    found = sql.col(f"{_PARSED}.{value}")
    alone = sql.json_array_length(sql.concat(sql.lit("["), sql.col(f"{MESSAGE}.value").cast("string"), sql.lit("]")))
    is_odd = sql.col(f"{_PARSED}.{end}").isNull() | sql.col(f"{_PARSED}.{_CORRUPT}").isNotNull()
    is_more = sql.coalesce(alone, sql.lit(0)) != 1
    reason = (
        sql.when(sql.octet_length(f"{MESSAGE}.value") == 0, EMPTY)
        .when(~sql.is_valid_utf8(f"{MESSAGE}.value"), "it is not UTF-8")
        .when(is_more | (is_odd & sql.try_parse_json(_TEXT).isNull()), "it is not JSON")
        .when(is_odd, "it does not fit the schema")
        .when(found.isNull(), "it is null")
    )
    fields = [sql.col(f"{_PARSED}.{value}.{quoted(name)}").alias(name) for name in schema.fieldNames()]
    rows = parsed.select(*fields, MESSAGE, reason.alias(REASON))
    missing = [
        sql.when(sql.expr(f"{path} IS NULL" + (f" AND {above} IS NOT NULL" if above else "")), f"it has no {path}")
        for path, above in required(schema)
    ]
    return rows.withColumn(REASON, sql.coalesce(sql.col(REASON), *missing))
