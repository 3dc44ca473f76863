"""A query of many micro-batches: what its processes and the server hold must not grow with them.

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
from tests.faults.spark.moments import Checkpoint
from tests.faults.spark.usage import Series
from tests.server_process import PASSWORD, USERNAME, ServerProcess

SAMPLES_COUNT: Final = 40
BYTES_PER_BATCH_MAX: Final = 4096.0
"""Of a process of Python. A channel or a plan that is kept with each micro-batch is far more."""
SERVER_BYTES_PER_BATCH_MAX: Final = 8192.0
"""Of a server that has just begun: some 8 MB with its first 12,000 commits, and 1 MB with 28,000 more."""
_SERVER: Final = "server"
_POLL_SECONDS: Final = 0.02
_STILL_SECONDS_MAX: Final = 120.0
_PASSWORD_VARIABLE: Final = "HEADRACE_SPARK_LEAKS_PASSWORD"


def watched(query: StreamingQuery, checkpoint: Path, server: int, batches: int) -> list[Series]:
    """Look at the driver's Python and at the server while a query of this process goes through its micro-batches.

    Args:
        query: It runs.
        checkpoint: Of the query.
        server: Process of the server.
        batches: How many micro-batches there will be.
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
                # Whoever plans is sent home when nothing is planned for a while.
                del series[one.process]
        deadline = time.monotonic() + _STILL_SECONDS_MAX
        wanted = done + step
    # Those who were there nearly all the time.
    return [one for one in series.values() if len(one.found) >= 8 and one.found[0][0] < batches / 2]


def main() -> int:
    """Run a query from one topic into another, and print what was seen."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.spark.leaks", description=__doc__)
    parser.add_argument("--batches", type=int, default=1000)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="headrace-leaks-"))
    began = time.monotonic()
    with ServerProcess(folder / "data") as server:
        found = measure(folder, server, options.batches, lambda line: sys.stdout.write(f"{line}\n"))
    problems = [problem for one in found for problem in _grown(one)]
    lines = [one.report() for one in found] + [f"GROWN: {problem}" for problem in problems]
    lines.append(f"{options.batches} micro-batches, {time.monotonic() - began:.0f} s, {folder}")
    sys.stdout.write("\n".join(lines) + "\n")
    return 1 if problems else 0


def _grown(series: Series) -> list[str]:
    if series.name == _SERVER:
        # Files are opened and closed as logs are rolled, and threads of pools come when there is work. Its sockets are
        # those of the query.
        return series.grown(bytes_per_batch_max=SERVER_BYTES_PER_BATCH_MAX, ignored=["descriptors", "threads"])
    return series.grown(bytes_per_batch_max=BYTES_PER_BATCH_MAX)


def measure(folder: Path, server: ServerProcess, batches: int, say: Callable[[str], object]) -> list[Series]:
    """Have one message in each micro-batch, from one topic into another."""
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
            .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
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
            .option("checkpointLocation", str(folder / "checkpoint"))
            .start()
        )
        say("the query runs")
        found = watched(query, folder / "checkpoint", server.process.pid, batches)
        query.stop()
    finally:
        spark.stop()
    return found


if __name__ == "__main__":
    sys.exit(main())
