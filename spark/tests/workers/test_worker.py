"""SPK-1: imports, connections and garbage collection of a Spark worker."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from pyspark_headrace.cluster.runtime import runtime
from pyspark_headrace.options.reading import read_options

LEAST = {"servers": "a:8094", "stream": "shop", "subscribe": "orders"}


def test_the_package_is_light() -> None:
    """Check the cost of the import: every planning process of Spark imports the package, used or not."""
    program = """
import json, sys
import pyspark.sql.datasource
before = set(sys.modules)
import pyspark_headrace
first = sorted(set(sys.modules) - before)
assert issubclass(pyspark_headrace.DefaultSource, pyspark.sql.datasource.DataSource)
print(json.dumps([first, sorted(set(sys.modules) - before)]))
"""
    reported = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    own = ["pyspark_headrace", "pyspark_headrace.sail", "pyspark_headrace.source"]
    assert json.loads(reported.stdout) == [["pyspark_headrace"], own]


def test_connections_are_those_of_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that a forked worker does not use connections of its parent process."""
    options = read_options(LEAST)
    first = runtime()
    channel = first.node("n:1", options)
    assert runtime() is first
    assert first.node("n:1", options) is channel
    assert first.node("n:2", options) is not channel
    other = read_options(LEAST | {"grpc.max_reconnect_backoff_ms": "7"})
    assert first.node("n:1", other) is not channel
    with monkeypatch.context() as patched:
        patched.setattr(os, "getpid", lambda: first.process_id + 1)
        child = runtime()
        assert child is not first
        assert child.node("n:1", options) is not channel


def test_a_worker_collects_garbage_of_its_tasks_only() -> None:
    """Check pitfall 5.7: after each task Spark collects all garbage, including imported objects unless frozen."""
    program = """
import gc
from pyspark_headrace.cluster.runtime import runtime
counts = []
for _ in range(2):
    runtime().settle()
    counts.append(gc.get_freeze_count())
    kept = [object() for _ in range(1000)]
print(counts)
"""
    reported = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    first, second = json.loads(reported.stdout)
    assert 10_000 < first == second
