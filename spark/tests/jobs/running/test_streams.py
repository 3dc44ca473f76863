"""SPK-3: jobs that are streaming queries: totals, failures, and signals during a micro-batch."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import job_runs
import pytest
import sample_job
from place import Place
from pyspark.sql import SparkSession
from sample_job import JOB

from pyspark_headrace.jobs.records.tally import Tally
from pyspark_headrace.jobs.running.job import DONE, FAILED

WAIT_SECONDS = 500.0


def arguments(place: Place, directory: Path, **more: Any) -> list[str]:
    given = {"topic": "a", "checkpoint": directory / "cp", "journal": directory / "journal"} | more
    return job_runs.arguments(place, **given)


def wait_for(what: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not what():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.long
def test_a_query_that_ends_by_itself_or_fails(
    spark: SparkSession, place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place.topic("a", 250, 50)

    def run(code: int = DONE, **more: Any) -> dict[str, Any]:
        words = arguments(place, tmp_path, name="copy", log_level="debug", **more)
        return job_runs.run(JOB, capsys, words, code)

    report = run(max_offsets_per_trigger=100)
    assert report["status"] == "done"
    assert report["counts"] == {"batches": 3, "rows": 300, "behind": 0}
    journal = tmp_path / "journal"
    assert journal.read_text(encoding="utf-8").split("\n")[1::2] == ["end 0 100", "end 1 100", "end 2 100"]
    # No new messages; then a message on which the job fails. The error is reported, and the session stays usable.
    assert run()["counts"]["rows"] == 0
    place.send("a", 0, range(13))
    report = run(FAILED)
    assert report["status"] == "failed"
    assert "thirteen rows" in report["error"]
    assert not spark.streams.active
    assert spark.range(3).count() == 3


def test_counts_of_many_micro_batches() -> None:
    """Check that repeated reports count once, and that the number of remembered micro-batches is limited."""
    tally = Tally()
    query: Any = SimpleNamespace(recentProgress=[])

    def take(batch: int) -> None:
        read = {"headrace-read": {"in": 3}}
        progress: Any = SimpleNamespace(
            runId="run", batchId=batch, observedMetrics=read, eventTime={}, stateOperators=[]
        )
        tally.take(progress)

    for batch in range(7, 10_007):
        take(batch)
        assert tally.rows_of(query, batch) == 3
        take(max(batch - 500, 7))
    take(7)
    assert tally.counts["in"] == 30_000
    assert tally.rows_of(query, 7) is None
    assert sum(map(len, tally._taken.values())) <= 2000


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_signal_in_the_middle_of_a_micro_batch(place: Place, tmp_path: Path) -> None:
    """Check that the current micro-batch is completed. SIGINT, which Spark handles too; SIGTERM takes the same path."""
    place.topic("a", 1000)
    more = {"max_offsets_per_trigger": 300, "slow": 20, "trigger": "continuous-default", "metrics_listen": 0}
    given = arguments(place, tmp_path, name="eu", report=tmp_path / "report", log_level="info", **more)
    journal = tmp_path / "journal"
    with (tmp_path / "out").open("wb") as out, (tmp_path / "err").open("wb") as err:
        process = subprocess.Popen(
            [sys.executable, sample_job.__file__, "copy", *given],
            stdout=out,
            stderr=err,
            env=os.environ | {"SPARK_MASTER": "local[1]"},
        )
    try:
        wait_for(lambda: journal.exists() and "begin 1" in journal.read_text(encoding="utf-8"), process)
        # Metrics of the first micro-batch are available before the end of the second one.
        url = re.search(r"http://127\.0\.0\.1:\d+/metrics", (tmp_path / "err").read_text(encoding="utf-8"))
        assert url is not None

        def metrics() -> str:
            with urllib.request.urlopen(url[0], timeout=10) as response:
                return str(response.read().decode())

        lag = f'headrace_job_lag_messages{{job="copy",name="eu",partition="0",topic="{place.stream}/a"}} 700.0'
        wait_for(lambda: lag in metrics(), process)
        assert 'headrace_job_rows_total{job="copy",name="eu"} 300.0' in metrics()
        assert 'headrace_job_batch_seconds_count{job="copy",name="eu"} 1.0' in metrics()
        process.send_signal(signal.SIGINT)
        assert process.wait(WAIT_SECONDS) == 0
    finally:
        process.kill()
        process.wait()
    noted = journal.read_text(encoding="utf-8").splitlines()
    assert noted[:4] == ["begin 0", "end 0 300", "begin 1", "end 1 300"]
    assert noted[4:] in ([], ["begin 2"])
    report = json.loads((tmp_path / "out").read_text(encoding="utf-8"))
    assert (report["status"], report["name"]) == ("stopped", "eu")
    assert report["counts"] == {"batches": 2, "rows": 600, "behind": 400}
    assert json.loads((tmp_path / "report").read_text(encoding="utf-8")) == report
