"""Runs the job `archive` as a process, kills the process or its tasks at random times, and checks the archive.

The test suite does this a few times. As a program, any number of times: ``python spark/tests/jobs/archive_kills.py
--messages 1000000 --driver-kills 20 --task-kills 20``.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from deltalake import DeltaTable

# Imports work from any working directory.
sys.path.insert(0, str(Path(__file__).parents[3]))
sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))

from archiving import archived_rows, arguments, same_as_consumed
from place import PASSWORD_VARIABLE, Place
from tests.server_process import PASSWORD, ServerProcess
from tests.spark_home import java_options

from pyspark_headrace.jobs.tables.delta import DeltaLakeTable

_LIFE_SECONDS = 600.0
_LOOK_SECONDS = 0.05


@dataclass(frozen=True)
class Plan:
    """Parameters of a run."""

    messages: int
    driver_kills: int
    task_kills: int
    seed: int
    partitions: int = 4
    batches: int = 8
    """Number of micro-batches without kills."""
    reruns: bool = False
    """Run the job once more at the end."""


class Kills:
    """Runs the job with kills until it succeeds."""

    def __init__(self, place: Place, directory: Path, plan: Plan) -> None:
        self._place = place
        self._directory = directory
        self._plan = plan
        self._random = random.Random(plan.seed)
        self.lives = self.drivers_killed = self.tasks_killed = 0
        self.reports: list[dict[str, Any]] = []

    def run(self) -> None:
        """Kill drivers; then kill tasks of a driver that runs to the end."""
        while self.drivers_killed < self._plan.driver_kills and not self._is_through():
            with self._life() as process:
                self._kill_driver(process)
        # A task has a limited number of attempts, and a failed query is started again.
        for _ in range(10):
            with self._life() as process:
                self._kill_tasks(process)
                if process.wait(_LIFE_SECONDS) == 0:
                    return
        raise AssertionError(f"the job does not come to its end\n{self._log.read_text(encoding='utf-8')[-8000:]}")

    @property
    def _log(self) -> Path:
        return self._directory / "log"

    def _last(self) -> int:
        with self._life() as process:
            return process.wait(_LIFE_SECONDS)

    @contextlib.contextmanager
    def _life(self) -> Iterator[subprocess.Popen[bytes]]:
        """A process of the job, with all its descendants gone afterwards."""
        self.lives += 1
        limit = max(self._plan.messages // self._plan.batches, 1)
        given = arguments(self._place, self._directory, name="kills", max_offsets_per_trigger=str(limit))
        out = self._directory / "out"
        with out.open("wb") as stdout, self._log.open("ab") as stderr:
            process = subprocess.Popen(
                [str(Path(sys.executable).with_name("headrace-spark")), "archive", *given],
                stdout=stdout,
                stderr=stderr,
                env=os.environ
                | {
                    PASSWORD_VARIABLE: PASSWORD,
                    "SPARK_MASTER": "local[2,20]",
                    "JDK_JAVA_OPTIONS": java_options(self._directory / "java"),
                    # Task processes are descendants of this interpreter.
                    "PYSPARK_PYTHON": sys.executable,
                },
            )
        try:
            yield process
        finally:
            self.drivers_killed += process.poll() is None
            _end(process)
        if process.returncode == 0:
            self.reports.append(json.loads(out.read_text(encoding="utf-8").splitlines()[-1]))

    def _is_through(self) -> bool:
        return self._archived() >= self._plan.messages

    def _archived(self) -> int:
        if not DeltaTable.is_deltatable(str(self._directory / "archive")):
            return 0
        return sum(file.rows for file in self._table().files())

    def _table(self) -> DeltaLakeTable:
        return DeltaLakeTable(str(self._directory / "archive"))

    def _kill_tasks(self, process: subprocess.Popen[bytes]) -> None:
        """Kill the running task processes at random times."""
        deadline = time.monotonic() + _LIFE_SECONDS
        while process.poll() is None and self.tasks_killed < self._plan.task_kills:
            assert time.monotonic() < deadline
            workers = _workers(process)
            if not workers:
                time.sleep(_LOOK_SECONDS)
                continue
            time.sleep(self._random.uniform(0, 0.4))
            with contextlib.suppress(psutil.NoSuchProcess):
                self._random.choice(workers).kill()
                self.tasks_killed += 1

    def _kill_driver(self, process: subprocess.Popen[bytes]) -> None:
        """Kill the driver at a random time, usually soon after its first commit."""
        before, deadline = self._archived(), time.monotonic() + _LIFE_SECONDS
        # Usually wait for a commit, so that the job makes progress.
        waits = self._random.random() < 0.75
        while process.poll() is None and waits and self._archived() <= before:
            assert time.monotonic() < deadline
            time.sleep(_LOOK_SECONDS)
        end = time.monotonic() + self._random.uniform(0, 1.0 if waits else 15.0)
        while process.poll() is None and time.monotonic() < end and (waits or self._archived() <= before):
            time.sleep(_LOOK_SECONDS)

    def check(self) -> dict[str, Any]:
        """Compare the archive with the messages that a direct consumer reads.

        Raises:
            AssertionError: They differ.
        """
        table = self._table()
        files = table.files()
        for partition in range(self._plan.partitions):
            bounds = sorted(file.offsets for file in files if file.partitions.least == partition)
            assert [least for least, _ in bounds] == [0, *(most + 1 for _, most in bounds)][:-1], partition
        rows = sum(file.rows for file in files)
        assert rows == self._plan.messages
        same_as_consumed(archived_rows(self._directory / "archive"), self._place)
        there = list((self._directory / "archive").glob("stream=*/**/*.parquet"))
        return {
            "messages": rows,
            "lives": self.lives,
            "driver_kills": self.drivers_killed,
            "task_kills": self.tasks_killed,
            "commits": table.version,
            "files": len(files),
            "orphans": len(there) - len(files),
            "repeated": sum(report["counts"]["repeated"] for report in self.reports),
            "seed": self._plan.seed,
        }

    def rerun(self) -> None:
        """Run the job once more without new messages.

        Raises:
            AssertionError: The run has committed files.
        """
        version = self._table().version
        assert self._last() == 0
        assert self._table().version == version
        assert self.reports[-1]["counts"]["files"] == 0


def _workers(process: subprocess.Popen[bytes]) -> list[psutil.Process]:
    """Return the task processes. One Spark daemon forks them; others fork planners, whose death fails a query."""
    found = []
    with contextlib.suppress(psutil.NoSuchProcess):
        for child in psutil.Process(process.pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                parent = child.parent()
                if parent is None:
                    continue
                # Daemon of Spark, or of the data source.
                daemon, worker = ("", "", *parent.cmdline())[-2:]
                if daemon.endswith(".daemon") and worker == "pyspark.worker":
                    found.append(child)
    return found


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill the process with its JVM and workers, without any clean-up."""
    family = []
    with contextlib.suppress(psutil.NoSuchProcess):
        family = psutil.Process(process.pid).children(recursive=True)
    if process.poll() is None:
        process.kill()
    for member in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            member.kill()
    process.wait()
    psutil.wait_procs(family, timeout=30)


def rounds(place: Place, directory: Path, plan: Plan) -> dict[str, Any]:
    """Run the whole scenario and return a summary.

    Raises:
        AssertionError: A message is archived twice, not at all, or changed.
    """
    share = plan.messages // plan.partitions
    counts = [share] * (plan.partitions - 1) + [plan.messages - share * (plan.partitions - 1)]
    place.topic("a", *counts, prefix="x" * 80)
    kills = Kills(place, directory, plan)
    kills.run()
    found = kills.check()
    if plan.reruns:
        kills.rerun()
    return found


def main() -> None:
    """Run as a program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--driver-kills", type=int, default=20)
    parser.add_argument("--task-kills", type=int, default=20)
    parser.add_argument("--batches", type=int, default=60)
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))
    given = parser.parse_args()
    plan = Plan(given.messages, given.driver_kills, given.task_kills, given.seed, batches=given.batches, reruns=True)
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as directory:
        work = Path(directory) / "work"
        work.mkdir()
        with ServerProcess(Path(directory) / "data") as server, Place(server, "kills") as place:
            found = rounds(place, work, plan)
    sys.stdout.write(json.dumps(found | {"seconds": round(time.monotonic() - begun, 1)}) + "\n")


if __name__ == "__main__":
    main()
