"""SPK-1, SPK-2: sessions other than that of the tests: one core, executors of their own, Spark Connect; TLS."""

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
from tests.compatibility.raw import eventually

# Half a minute on a machine that has nothing else to do.
WAIT_SECONDS = 550
pytestmark = pytest.mark.timeout(600)
PROGRAM = Path(__file__).with_name("elsewhere_program.py")
CONNECT = Path(__file__).resolve().parents[2] / ".cache" / "connect"
ENVIRONMENT = {"SPARK_LOCAL_IP": "127.0.0.1"}
COUNTS = (600, 200)
EXPECTED = Counter(f"{part}:{number}".encode() for part, count in enumerate(COUNTS) for number in range(count))


def run(
    place: Place, folder: Path, disturbances: list[str], environment: dict[str, str] | None = None, **how: Any
) -> dict[str, Any]:
    """Run the program, and look at what it has written."""
    place.topic("a", *COUNTS)
    for disturbance in disturbances:
        place.topic(f"out-{disturbance}", 0, 0)
    place.topic("batch", 0)
    told = {"options": place.options(), "notes": str(folder), "disturbances": disturbances, "conf": {}} | how
    result = subprocess.run(
        [sys.executable, PROGRAM],
        input=json.dumps(told),
        env=os.environ | ENVIRONMENT | (environment or {}),
        cwd=folder,
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
    """Real executor processes: one is killed under a task, and a slow task gets a twin that is through before it."""
    conf = {
        "spark.executor.memory": "700m",
        "spark.speculation": "true",
        "spark.speculation.interval": "100ms",
        "spark.speculation.quantile": "0.5",
        "spark.speculation.multiplier": "1.1",
        "spark.speculation.minTaskRuntime": "100ms",
        "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    # A task finds the executor that it kills above itself.
    own = {"PYSPARK_PYTHON": sys.executable}
    run(place, tmp_path, ["slow", "dies"], own, master="local-cluster[1,1,700]", conf=conf)
    assert (tmp_path / "slow-1").exists()
    assert (tmp_path / "dies-0").exists()


@pytest.mark.long
def test_connect_on_one_core_with_three_attempts(place: Place, tmp_path: Path) -> None:
    """The client of Spark Connect, whose own needs are in a folder that only this process sees.

    What a session on one core does with tasks that fail is here, too: one more JVM would show the same.
    """
    assert (CONNECT / ".current").exists(), "make .cache/connect/.current"
    seen = run(place, tmp_path, ["fails"], {"PYTHONPATH": str(CONNECT)}, remote="local[1,3]")
    assert seen["is_connect"]
    assert (tmp_path / "fails-2").exists()


def test_nothing_here_needs_pandas() -> None:
    """What Spark Connect's client needs is not what the data source needs (pandas takes a second in each worker)."""
    assert find_spec("pandas") is None
    assert find_spec("grpc_status") is None
