"""CPU time of the job `archive` compared with ``df.write.parquet`` from the same topic, per million messages.

Same columns, codec, level and dictionaries; the same session, after both have run once. All processes of Spark count:
driver, JVM and Python processes; the server does not. As a program: ``python spark/tests/jobs/archive_cost.py
--messages 2000000 --rounds 3 [--values distinct|repeated]``.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Imports work from any working directory.
sys.path.insert(0, str(Path(__file__).parents[3]))
sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))

from archiving import arguments
from place import PASSWORD_VARIABLE, Place
from tests.server_process import PASSWORD, ServerProcess

from pyspark_headrace.jobs.archive.job import JOB
from pyspark_headrace.jobs.tables.columns import RAW_COLUMNS

_SAMPLE_SECONDS = 0.2


class FamilyClock:
    """CPU time of this process and its descendants. A process that has ended counts with its last observed value."""

    def __init__(self, without: int) -> None:
        """Start sampling.

        Args:
            without: Descendant process to exclude, which does not belong to Spark.
        """
        self._without = without
        self._seen: dict[tuple[int, float], float] = {}
        self._is_over = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def seconds(self) -> float:
        """CPU time so far."""
        self._sample()
        with self._lock:
            return sum(self._seen.values())

    def close(self) -> None:
        """Stop sampling."""
        self._is_over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._is_over.wait(_SAMPLE_SECONDS):
            self._sample()

    def _sample(self) -> None:
        with self._lock:
            own = psutil.Process()
            others = [
                child
                for child in own.children(recursive=True)
                if child.pid != self._without and not self._is_below(child)
            ]
            for process in (own, *others):
                with contextlib.suppress(psutil.NoSuchProcess):
                    times = process.cpu_times()
                    self._seen[process.pid, process.create_time()] = times.user + times.system

    def _is_below(self, process: psutil.Process) -> bool:
        with contextlib.suppress(psutil.NoSuchProcess):
            return any(parent.pid == self._without for parent in process.parents())
        return False


def fill(place: Place, messages: int, value_bytes: int, values: str) -> None:
    """Create a topic with four partitions."""
    place.client.create_topic(place.stream, "a", 4)
    source = random.Random(1)
    common = [source.randbytes(value_bytes) for _ in range(100)]
    for partition in range(4):
        left = messages // 4
        while left > 0:
            count = min(left, 10_000)
            payloads = [
                source.choice(common) if values == "repeated" else source.randbytes(value_bytes // 2).hex().encode()
                for _ in range(count)
            ]
            place.client.send(place.stream, "a", payloads, partition=partition)
            left -= count


def with_spark(spark: SparkSession, place: Place, directory: Path, *, level: int, has_dictionaries: bool) -> None:
    """Write files with Spark."""
    frame = spark.read.format("headrace").options(**place.options(subscribe="a", columns=",".join(RAW_COLUMNS))).load()
    frame.write.option("compression", "zstd").option("parquet.compression.codec.zstd.level", str(level)).option(
        "parquet.enable.dictionary", str(has_dictionaries).lower()
    ).parquet(str(directory / "spark"))


def with_job(place: Place, directory: Path, *, level: int) -> None:
    """Write files with the job."""
    printed = StringIO()
    with contextlib.redirect_stdout(printed):
        code = JOB.main(arguments(place, directory, compression=f"zstd:{level}", log_level="error"))
    assert code == 0, printed.getvalue()


def measure(
    spark: SparkSession,
    place: Place,
    directory: Path,
    messages: int,
    *,
    rounds: int = 3,
    level: int = 3,
    has_dictionaries: bool = False,
) -> dict[str, Any]:
    """Run both alternately and return CPU seconds per million messages (medians), their ratio, and the size of the
    files.

    `directory` is a directory for files, which are removed. Processes below this one count as Spark's, except for the
    server. The first round is a warm-up. With `has_dictionaries` Spark writes dictionaries, as the job does for
    repeated values.
    """
    clock = FamilyClock(place.server.process.pid)
    ways: dict[str, Callable[[Path], None]] = {
        "spark": lambda to: with_spark(spark, place, to, level=level, has_dictionaries=has_dictionaries),
        "job": lambda to: with_job(place, to, level=level),
    }
    took: dict[str, list[float]] = {name: [] for name in ways}
    walls: dict[str, list[float]] = {name: [] for name in ways}
    sizes: dict[str, int] = {}
    try:
        for number in range(rounds + 1):
            for name, way in ways.items():
                to = directory / f"{name}-{number}"
                before, begun = clock.seconds(), time.monotonic()
                way(to)
                if number:
                    took[name].append((clock.seconds() - before) / messages * 1e6)
                    walls[name].append(time.monotonic() - begun)
                sizes[name] = sum(path.stat().st_size for path in to.rglob("*.parquet"))
                shutil.rmtree(to)
    finally:
        clock.close()
    medians = {name: statistics.median(of_it) for name, of_it in took.items()}
    return {
        "messages": messages,
        "level": level,
        "dictionaries": has_dictionaries,
        "cpu_seconds_per_million": {name: round(value, 3) for name, value in medians.items()},
        "rounds": {name: [round(value, 3) for value in of_it] for name, of_it in took.items()},
        "seconds": {name: round(statistics.median(of_it), 2) for name, of_it in walls.items()},
        "bytes": sizes,
        "ratio": round(medians["job"] / medians["spark"], 3),
    }


def main() -> None:
    """Run as a program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=2_000_000)
    parser.add_argument("--value-bytes", type=int, default=100)
    parser.add_argument("--values", choices=("distinct", "repeated"), default="distinct")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--level", type=int, default=3)
    parser.add_argument("--cores", type=int, default=2)
    given = parser.parse_args()
    os.environ |= {PASSWORD_VARIABLE: PASSWORD, "PYSPARK_PYTHON": sys.executable}
    from pyspark.sql import SparkSession

    with (
        tempfile.TemporaryDirectory() as directory,
        ServerProcess(Path(directory) / "data") as server,
        Place(server, "cost") as place,
    ):
        fill(place, given.messages, given.value_bytes, given.values)
        spark = (
            SparkSession.builder.master(f"local[{given.cores}]")
            .config("spark.ui.enabled", "false")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.sql.session.timeZone", "UTC")
            .config("spark.log.level", "ERROR")
            .getOrCreate()
        )
        found = measure(
            spark,
            place,
            Path(directory),
            given.messages,
            rounds=given.rounds,
            level=given.level,
            has_dictionaries=given.values == "repeated",
        )
        spark.stop()
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
