"""Validation of users' SQL before a job starts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from pyspark_headrace.jobs.running.arguments import ArgumentError

VIEW: Final = "input"
"""Name of the view that a query selects from."""

_STATEFUL: Final = re.compile(
    r"^[\s:+-]*~(Aggregate|Deduplicate\w*|Distinct|Window|Sort|GlobalLimit|LocalLimit|Offset|Tail|Intersect|Except)\b",
    re.MULTILINE,
)
"""Pattern of a plan that keeps state; streaming nodes of a plan start with a tilde."""
_JOINING: Final = re.compile(r"^[\s:+-]*~Join\b", re.MULTILINE)
_READING: Final = (re.compile(r"~StreamingRelation"), re.compile(r"~CTERelationRef"))


def said(error: PySparkException) -> str:
    """Describe an SQL error of Spark, without the plans that Spark adds."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0].rstrip(";") if lines else type(error).__name__


def query(spark: SparkSession, frame: DataFrame, sql: str, flag: str) -> DataFrame:
    """Run a query on a frame, which is visible to the query as `input`.

    Args:
        spark: The session.
        frame: Input of the query.
        sql: A single query without side effects.
        flag: Argument with the query, for errors.

    Raises:
        ArgumentError: The text is not a query, or reads other tables.
    """
    text = sql.strip().rstrip(";").rstrip()
    if not text:
        raise ArgumentError(f"{flag}: there is no query")
    try:
        with _viewed(spark, frame):
            # Parentheses allow queries only: a command would be executed at once.
            return spark.sql(f"SELECT * FROM ({text}\n)")  # noqa: S608 - what users write is what they want
    except PySparkException as error:
        raise ArgumentError(f"{flag}: {said(error)}") from error


def check_row_by_row(rows: DataFrame, flag: str) -> None:
    """Check that each row of a streaming query depends on one row of `input` only.

    Raises:
        ArgumentError: A row depends on several rows.
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
