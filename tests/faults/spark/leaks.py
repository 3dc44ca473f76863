"""Leak test: memory and resources of processes must not grow with the number of micro-batches of a query.

python -m tests.faults.spark.leaks --batches 1000
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headrace_core import Client
from tests.faults.spark import processes
from tests.faults.spark.kill_times import Checkpoint
from tests.faults.spark.usage import Series
from tests.server_process import PASSWORD, USERNAME, ServerProcess

SAMPLES_COUNT: Final = 40
BYTES_PER_BATCH_MAX: Final = 4096.0
"""Maximum growth of a Python process. A channel or a plan leaked with each micro-batch is far larger."""
SERVER_BYTES_PER_BATCH_MAX: Final = 8192.0
"""Maximum growth of a new server: some 8 MB with its first 12,000 commits, and 1 MB with the next 28,000."""
_SERVER: Final = "server"
_POLL_SECONDS: Final = 0.02
_STILL_SECONDS_MAX: Final = 120.0
_PASSWORD_VARIABLE: Final = "HEADRACE_SPARK_LEAKS_PASSWORD"


def watched(query: StreamingQuery, checkpoint: Path, server: int, batches: int) -> list[Series]:
    """Sample the driver's Python processes and the server while a query of this process runs.

    Args:
        query: The running query.
        checkpoint: Checkpoint directory of the query.
        server: Process id of the server.
        batches: Number of micro-batches.
    """
    noted = Checkpoint(checkpoint)
    series: dict[int, Series] = {server: Series(_SERVER, server, [])}
    step = max(batches // SAMPLES_COUNT, 1)
    deadline = time.monotonic() + _STILL_SECONDS_MAX
    wanted = step
    while wanted <= batches:
        done = noted.count()
        if done < wanted:
            error = query.exception()
            if error is not None:
                raise error
            if time.monotonic() > deadline:
                raise AssertionError(f"the query stands still at micro-batch {done}: {query.lastProgress}")
            time.sleep(_POLL_SECONDS)
            continue
        for name, process in processes.planners_below(os.getpid()):
            series.setdefault(process, Series(name, process, []))
        for one in list(series.values()):
            try:
                one.take(done)
            except FileNotFoundError:
                # Spark ends an idle planner.
                del series[one.process]
        deadline = time.monotonic() + _STILL_SECONDS_MAX
        wanted = done + step
    # Keep processes that ran nearly all the time.
    return [one for one in series.values() if len(one.found) >= 8 and one.found[0][0] < batches / 2]


def main() -> int:
    """Run a query from one topic into another and print the results."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.spark.leaks", description=__doc__)
    parser.add_argument("--batches", type=int, default=1000)
    options = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="headrace-leaks-"))
    began = time.monotonic()
    with ServerProcess(directory / "data") as server:
        found = measure(directory, server, options.batches, lambda line: sys.stdout.write(f"{line}\n"))
    problems = [problem for one in found for problem in _grown(one)]
    lines = [one.report() for one in found] + [f"GROWN: {problem}" for problem in problems]
    lines.append(f"{options.batches} micro-batches, {time.monotonic() - began:.0f} s, {directory}")
    sys.stdout.write("\n".join(lines) + "\n")
    return 1 if problems else 0


def _grown(series: Series) -> list[str]:
    if series.name == _SERVER:
        # Descriptors vary with rolled logs, threads with the load of pools. The sockets belong to the query.
        return series.grown(bytes_per_batch_max=SERVER_BYTES_PER_BATCH_MAX, ignored=["descriptors", "threads"])
    return series.grown(bytes_per_batch_max=BYTES_PER_BATCH_MAX)


def measure(directory: Path, server: ServerProcess, batches: int, say: Callable[[str], object]) -> list[Series]:
    """Run a query from one topic into another with one message in each micro-batch."""
    client = Client.connect(server.address)
    client.login(USERNAME, PASSWORD)
    client.create_stream("leaks")
    client.create_topic("leaks", "in", 1)
    client.create_topic("leaks", "out", 1)
    client.send("leaks", "in", [b"%d" % number for number in range(batches)], partition=0)
    client.close()
    os.environ[_PASSWORD_VARIABLE] = PASSWORD
    os.environ["PYSPARK_PYTHON"] = sys.executable
    where = {
        "servers": server.grpc_address,
        "username": USERNAME,
        "passwordEnv": _PASSWORD_VARIABLE,
        "stream": "leaks",
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        spark = (
            SparkSession.builder.master("local[1]")
            .config("spark.ui.enabled", "false")
            .config("spark.driver.memory", "600m")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.sql.warehouse.dir", str(directory / "warehouse"))
            .config("spark.log.level", "ERROR")
            .getOrCreate()
        )
    try:
        given = where | {"subscribe": "in", "startingOffsets": "earliest", "maxOffsetsPerTrigger": "1"}
        query = (
            spark.readStream.format("headrace")
            .options(**given)
            .load()
            .select("value")
            .writeStream.format("headrace")
            .options(**where | {"topic": "out"})
            .option("checkpointLocation", str(directory / "checkpoint"))
            .start()
        )
        say("the query runs")
        found = watched(query, directory / "checkpoint", server.process.pid, batches)
        query.stop()
    finally:
        spark.stop()
    return found


if __name__ == "__main__":
    sys.exit(main())
