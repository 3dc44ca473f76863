"""SPK-3: `headrace-spark transform` under `kill -9`: the output equals that of a run without kills."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from job_runs import arguments, run, send
from place import Place
from pyspark.sql import SparkSession
from test_transform import check, files_in, flights

from pyspark_headrace.jobs.transform.job import JOB

KILLS = 1
WAIT_SECONDS = 500.0
JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@pytest.mark.long
@pytest.mark.timeout(900)
def test_kills(spark: SparkSession, place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Check kills of the program and its Spark at random times, followed by a complete run."""
    seed = random.randrange(2**32)
    moments = random.Random(seed)
    place.topic("a", 0, 0)
    place.topic("out", 0, 0)
    place.topic("dead", 0)
    values = {0: flights(seed, 700), 1: flights(seed + 1, 500)}
    for partition, sent in values.items():
        send(place, "a", partition, sent)
    given = files_in(tmp_path)
    program = str(Path(sys.executable).with_name("headrace-spark"))
    environment = os.environ | {
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_MASTER": "local[2]",
        # The process is killed before a better compiler would pay off.
        "PYSPARK_SUBMIT_ARGS": f'--driver-memory 600m --conf "spark.driver.extraJavaOptions={JAVA}" pyspark-shell',
    }
    for number in range(KILLS):
        with (tmp_path / "said").open("wb") as said:
            process = subprocess.Popen(
                [program, "transform", *arguments(place, **given, max_offsets_per_trigger=100)],
                env=environment,
                stdout=said,
                stderr=said,
                start_new_session=True,
            )
        deadline = time.monotonic() + WAIT_SECONDS
        try:
            while len(list((tmp_path / "cp" / "commits").glob("[0-9]*"))) < 2 * number + 1:
                assert process.poll() is None, (tmp_path / "said").read_text()[-4000:]
                assert time.monotonic() < deadline, (tmp_path / "said").read_text()[-4000:]
                time.sleep(0.02)
            time.sleep(moments.uniform(0, 1))
            assert process.poll() is None, (tmp_path / "said").read_text()[-4000:]
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    report = run(JOB, capsys, arguments(place, **given))
    assert report["status"] == "done"
    assert 0 < report["counts"]["in"] < 1200
    check(spark, place, values, f"seed {seed}")
