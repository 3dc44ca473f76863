"""Failure reasons in reports: the original error, without its path through Spark."""

from __future__ import annotations

import pytest

from pyspark_headrace.jobs.running.reasons import reason

OURS = """Traceback (most recent call last):
  File "/a/tasks.py", line 51, in __call__
    raise StoreError(f"{place}: {said}")
           ^^^^^^^^^^^
pyspark_headrace.jobs.tables.errors.StoreError: s3://lake/shop: a.parquet: 403 Forbidden: Not: for you"""
SPARKS = f"""[FOREACH_BATCH_USER_FUNCTION_ERROR] An error occurred. Reason: An exception was raised by the Python Proxy.
Return Message: Traceback (most recent call last):
  File "/a/clientserver.py", line 644, in _call_proxy
    return_value = getattr(self.pool[obj_id], method)(*params)
pyspark.errors.exceptions.captured.PythonException:
  An exception was thrown from the Python worker. Please see the stack trace below.
{OURS}

\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:645)
Caused by: py4j.Py4JException: Return Message: """


@pytest.mark.parametrize(
    "text",
    [OURS, f"{OURS}\n SQLSTATE: 39000\n\tat org.apache", f"{OURS}\n\tat org.apache", SPARKS, f"{SPARKS}{OURS}\n"],
)
def test_what_a_task_has_raised(text: str) -> None:
    assert reason(RuntimeError(text)) == "StoreError: s3://lake/shop: a.parquet: 403 Forbidden: Not: for you"


def test_all_lines_of_it() -> None:
    text = f"{SPARKS}{OURS}\nand: more\n\n\tat py4j.Protocol.getReturnValue(Protocol.java:476)\n"
    assert reason(RuntimeError(text)).endswith("Not: for you\nand: more")


@pytest.mark.parametrize(
    "text", ["", "plain", "Traceback (most recent call last):\n", "Traceback (most recent call last):\n  File: a\n"]
)
def test_an_unwrapped_error(text: str) -> None:
    assert reason(ValueError(text)) == f"ValueError: {text}"
