"""SQL that users write, looked at before anything starts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from pyspark_headrace.jobs.running.arguments import ArgumentError

VIEW: Final = "input"
"""What a query selects from."""

_STATEFUL: Final = re.compile(
    r"^[\s:+-]*~(Aggregate|Deduplicate\w*|Distinct|Window|Sort|GlobalLimit|LocalLimit|Offset|Tail|Intersect|Except)\b",
    re.MULTILINE,
)
"""In a plan, where what is of streams begins with a wave."""
_JOINING: Final = re.compile(r"^[\s:+-]*~Join\b", re.MULTILINE)
_READING: Final = (re.compile(r"~StreamingRelation"), re.compile(r"~CTERelationRef"))


def said(error: PySparkException) -> str:
    """What Spark says about SQL, without the plans that it adds."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0].rstrip(";") if lines else type(error).__name__


def query(spark: SparkSession, frame: DataFrame, sql: str, flag: str) -> DataFrame:
    """Have a query select from a frame, which it knows as `input`.

    Args:
        spark: The session.
        frame: What it selects from.
        sql: One query, and nothing that changes anything.
        flag: The argument that has it, for errors.

    Raises:
        ArgumentError: It is no query, or one of something else.
    """
    text = sql.strip().rstrip(";").rstrip()
    if not text:
        raise ArgumentError(f"{flag}: there is no query")
    try:
        with _viewed(spark, frame):
            # In brackets it can only be a query: a command would be run at once.
            return spark.sql(f"SELECT * FROM ({text}\n)")  # noqa: S608 - what users write is what they want
    except PySparkException as error:
        raise ArgumentError(f"{flag}: {said(error)}") from error


def check_row_by_row(rows: DataFrame, flag: str) -> None:
    """See that each row of a query on a stream is made of one row of `input` alone.

    Raises:
        ArgumentError: It is not.
    """
    if not rows.isStreaming:
        raise ArgumentError(f"{flag}: the query does not read {VIEW}")
    plan = str(rows._jdf.queryExecution().analyzed().toString())  # noqa: SLF001 - nobody else tells
    stateful = _STATEFUL.search(plan)
    if stateful is not None:
        raise ArgumentError(f"{flag}: {stateful[1]} needs other rows; a query has one row of {VIEW} at a time")
    if _JOINING.search(plan) and any(len(reading.findall(plan)) > 1 for reading in _READING):
        raise ArgumentError(f"{flag}: {VIEW} cannot be joined with itself; a query has one row of it at a time")


@contextmanager
def _viewed(spark: SparkSession, frame: DataFrame) -> Iterator[None]:
    frame.createOrReplaceTempView(VIEW)
    try:
        yield
    finally:
        spark.catalog.dropTempView(VIEW)
