"""SPK-1, SPK-2: sessions in other processes: one core, separate executors, Spark Connect; TLS."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from outputs import payloads
from place import Place
from tests.compatibility.protocol.raw import eventually

# Takes half a minute on an idle machine.
WAIT_SECONDS = 550
pytestmark = pytest.mark.timeout(600)
PROGRAM = Path(__file__).with_name("elsewhere_program.py")
CONNECT = Path(__file__).resolve().parents[3] / ".cache" / "connect"
ENVIRONMENT = {"SPARK_LOCAL_IP": "127.0.0.1"}
COUNTS = (600, 200)
EXPECTED = Counter(f"{part}:{number}".encode() for part, count in enumerate(COUNTS) for number in range(count))


def run(
    place: Place, directory: Path, disturbances: list[str], environment: dict[str, str] | None = None, **how: Any
) -> dict[str, Any]:
    """Run the program, and check its output topic."""
    place.topic("a", *COUNTS)
    for disturbance in disturbances:
        place.topic(f"out-{disturbance}", 0, 0)
    place.topic("batch", 0)
    reported = {"options": place.options(), "notes": str(directory), "disturbances": disturbances, "conf": {}} | how
    result = subprocess.run(
        [sys.executable, PROGRAM],
        input=json.dumps(reported),
        env=os.environ | ENVIRONMENT | (environment or {}),
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
        timeout=WAIT_SECONDS,
    )
    assert result.returncode == 0, result.stderr[-8000:]
    seen = json.loads(result.stdout.splitlines()[-1])
    assert seen["count"] == sum(COUNTS)
    assert seen["offsets"] == sum(count * (count - 1) // 2 for count in COUNTS)
    assert seen["filtered"] == -10
    for disturbance in disturbances:
        topic = f"out-{disturbance}"
        eventually("what is committed can be read", lambda topic=topic: payloads(place, topic).total() >= sum(COUNTS))
        assert payloads(place, topic) == EXPECTED, disturbance
    assert payloads(place, "batch") == Counter([b"x"])
    return seen


@pytest.mark.long
def test_executors_that_are_lost_and_tasks_that_run_twice(place: Place, tmp_path: Path) -> None:
    """Check real executor processes: one is killed during a task, and a slow task gets a faster speculative attempt."""
    conf = {
        "spark.executor.memory": "700m",
        "spark.speculation": "true",
        "spark.speculation.interval": "100ms",
        "spark.speculation.quantile": "0.5",
        "spark.speculation.multiplier": "1.1",
        "spark.speculation.minTaskRuntime": "100ms",
        "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    # A task finds the executor to kill among its ancestors.
    own = {"PYSPARK_PYTHON": sys.executable}
    run(place, tmp_path, ["slow", "dies"], own, master="local-cluster[1,1,700]", conf=conf)
    assert (tmp_path / "slow-1").exists()
    assert (tmp_path / "dies-0").exists()


@pytest.mark.long
def test_connect_on_one_core_with_three_attempts(place: Place, tmp_path: Path) -> None:
    """Check the client of Spark Connect, whose dependencies are in a directory visible only to that process.

    The behaviour of failed tasks on one core is checked in the same JVM, to save another start.
    """
    assert (CONNECT / ".current").exists(), "make .cache/connect/.current"
    seen = run(place, tmp_path, ["fails"], {"PYTHONPATH": str(CONNECT)}, remote="local[1,3]")
    assert seen["is_connect"]
    assert (tmp_path / "fails-2").exists()


def test_nothing_here_needs_pandas() -> None:
    """Check that the data source does without pandas, which only Spark Connect's client needs."""
    assert find_spec("pandas") is None
    assert find_spec("grpc_status") is None
