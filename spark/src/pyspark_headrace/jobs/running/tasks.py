"""Function calls in Spark tasks: arguments are part of the plan, and only results are returned."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

_T = TypeVar("_T")
_R = TypeVar("_R")


def run_tasks(spark: SparkSession, function: Callable[[_T], _R], loads: Sequence[Sequence[_T]]) -> list[_R]:
    """Call a function on executors, with one task per load.

    Args:
        spark: The session.
        function: Function of a module available on executors. Repeated and speculative tasks call it again.
        loads: Arguments of the calls, by task.

    Returns:
        Results in the order of the loads; those of one attempt per task.

    Raises:
        pyspark.errors.PySparkException: A task has failed permanently.
    """
    if not loads:
        return []
    # One row per task, with its number as the argument.
    run = row_by_row(partial(_run, function, loads), "binary")
    frame = spark.range(0, len(loads), 1, len(loads)).select("id", run("id").alias("answers"))
    answers = {row.id: row.answers for row in frame.collect()}
    return [answer for number in range(len(loads)) for answer in unpacked(answers[number])]


def row_by_row(function: Callable[[Any], Any], kind: str) -> Callable[[str], Column]:
    """Return a column function for calls with side effects, one call per row.

    Functions on batches of rows would need pandas. The function is marked nondeterministic: otherwise Spark could
    repeat calls or merge equal ones.

    Args:
        function: Function of a module available on executors.
        kind: SQL type of its results.

    Returns:
        Function that returns the result column, given the name of the argument column.
    """
    from pyspark.sql.functions import udf  # noqa: PLC0415 - on the driver alone

    return udf(function, kind, useArrow=False).asNondeterministic()


def packed(result: Any) -> bytes:
    """Encode the result of a task for its row."""
    return pickle.dumps(result)


def unpacked(row: bytes) -> Any:
    """Decode the result of a task of this job."""
    return pickle.loads(row)  # noqa: S301


def spread(items: Sequence[_T], weights: Sequence[int], least: int) -> list[list[_T]]:
    """Distribute items over tasks, in order.

    Args:
        items: Items to distribute.
        weights: Weight of each item.
        least: Minimum weight of a task.
    """
    loads: list[list[_T]] = []
    weight = least
    for item, heavy in zip(items, weights, strict=True):
        if weight >= least:
            loads.append([])
            weight = 0
        loads[-1].append(item)
        weight += heavy
    return loads


def _run(function: Callable[[_T], _R], loads: Sequence[Sequence[_T]], number: int) -> bytes:
    from pyspark_headrace.cluster.runtime import runtime  # noqa: PLC0415 - on executors

    runtime().settle()
    return packed([function(item) for item in loads[number]])
