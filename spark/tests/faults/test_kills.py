"""SPK-1, SPK-2: driver, executors, gateways, nodes and the metadata primary are killed during queries."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as column
from tests.faults.spark.results import Verdict, judge_files, judge_topic
from tests.faults.spark.run import run
from tests.faults.spark.usage import Series, Usage

KILLS = int(os.environ.get("SPARK_KILLS", "2"))
"""Number of kills, from the environment. `make faults-spark` runs many."""


@pytest.mark.long
@pytest.mark.timeout(600 + 60 * KILLS)
def test_each_message_once_if_any_process_is_killed(spark: SparkSession, tmp_path: Path) -> None:
    """Check that Parquet files and the output topic hold each input exactly once. TEST_SEED repeats a run."""
    seed = int(os.environ.get("TEST_SEED", time.time_ns() % 1_000_000))
    verdict = run(tmp_path, kills=KILLS, seed=seed, say=print)
    assert not verdict.problems, verdict.report()
    assert verdict.kills.total() == KILLS
    assert verdict.acknowledged > 0
    # Read by Spark itself.
    files = spark.read.parquet(str(tmp_path / "files"))
    rows, places = files.select(column.count("*"), column.count_distinct("partition", "offset")).first()
    assert rows == places == verdict.input_rows


INPUT: Mapping[tuple[int, int], bytes] = {(0, 0): b"0 0 ", (0, 1): b"0 1 ", (1, 0): b"1 0 "}


def judged(files: list[tuple[tuple[int, int], bytes]], topic: list[bytes]) -> list[str]:
    verdict = Verdict(0)
    judge_files(dict(INPUT), files, verdict)
    judge_topic(dict(INPUT), {(0, number): value for number, value in enumerate(topic)}, verdict)
    return verdict.problems


def test_the_judge_finds_what_is_wrong() -> None:
    rows, values = list(INPUT.items()), list(INPUT.values())
    assert judged(rows, values[::-1]) == []
    assert judged(rows[1:], values) == ["Parquet lacks 1: [((0, 0), b'0 0 ')]"]
    assert judged(rows, [*values, b"1 0 "]) == ["the topic has 1 too many: [(b'1 0 ', 1)]"]
    assert len(judged([*rows[1:], ((0, 0), b"0 1 ")], values[:2])) == 3


def test_what_grows_is_noticed() -> None:
    def series(memory: int, sockets: int) -> Series:
        found = [
            (batch, Usage(10**8 + batch * memory, 5, 30 + batch * sockets // 10, 9)) for batch in range(0, 1000, 25)
        ]
        return Series("reader", 1, found)

    assert series(1000, 0).grown(bytes_per_batch_max=4096) == []
    assert [problem.split()[1] for problem in series(8000, 1).grown(bytes_per_batch_max=4096)] == [
        "memory_bytes",
        "descriptors",
    ]
