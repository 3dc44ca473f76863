"""Work that tasks of Spark do by themselves: what they are told goes out with the plan, and only answers come back."""

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
    """Have a function called on executors, each load by one task.

    Args:
        spark: The session.
        function: Of a module that executors have. It may be called again where a task is repeated, or run twice.
        loads: What it is called with, one after the other.

    Returns:
        Its answers, in the order of the loads; of a task that was run several times those of one attempt.

    Raises:
        pyspark.errors.PySparkException: A task has failed for good.
    """
    if not loads:
        return []
    # One row for each task, which is told its number.
    run = row_by_row(partial(_run, function, loads), "binary")
    frame = spark.range(0, len(loads), 1, len(loads)).select("id", run("id").alias("answers"))
    answers = {row.id: row.answers for row in frame.collect()}
    # What our own tasks say.
    return [answer for number in range(len(loads)) for answer in pickle.loads(answers[number])]  # noqa: S301


def row_by_row(function: Callable[[Any], Any], kind: str) -> Callable[[str], Column]:
    """Have a function of executors do something for each row, and not only compute something.

    It is called for one row at a time: what takes batches of them needs pandas. And to Spark each call is another one:
    it could otherwise repeat calls, or take two of them for the same.

    Args:
        function: Of a module that executors have.
        kind: Of its answers, as Spark writes types.

    Returns:
        What makes a column of answers, given the name of the column that the function is called with.
    """
    from pyspark.sql.functions import udf  # noqa: PLC0415 - on the driver alone

    return udf(function, kind, useArrow=False).asNondeterministic()


def spread(items: Sequence[_T], weights: Sequence[int], least: int) -> list[list[_T]]:
    """Share items out among tasks, in their order.

    Args:
        items: To be shared out.
        weights: Of each.
        least: What is worth a task.
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
    from pyspark_headrace.runtime import runtime  # noqa: PLC0415 - on executors

    runtime().settle()
    return pickle.dumps([function(item) for item in loads[number]])
