"""Spark session on two cores of this machine."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tests.server_process import PASSWORD, USERNAME, ServerProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CORES = 2
PASSWORD_VARIABLE = "HEADRACE_BENCH_PASSWORD"
_REPOSITORY = Path(__file__).resolve().parents[3]


@contextmanager
def session(directory: Path, jars: Sequence[Path] = ()) -> Generator[SparkSession]:
    """Run a session during a ``with`` block.

    Args:
        directory: Directory of the session.
        jars: Additional jars.
    """
    from pyspark.sql import SparkSession

    os.environ[PASSWORD_VARIABLE] = PASSWORD
    os.environ["PYSPARK_PYTHON"] = sys.executable
    # Workers must be able to import the row source.
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(_REPOSITORY), os.environ.get("PYTHONPATH"))))
    builder = SparkSession.builder.master(f"local[{CORES}]").appName("headrace bench")
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": str(CORES),
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.local.dir": str(directory / "local"),
        "spark.driver.memory": "2g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",
        "spark.log.level": "ERROR",
        "spark.jars": ",".join(map(str, jars)),
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    # Silence the long errors of queries stopped in the middle of a micro-batch.
    spark.sparkContext.setLogLevel("OFF")
    try:
        yield spark
    finally:
        spark.stop()


def source_options(server: ServerProcess, stream: str, topic: str, **more: str) -> dict[str, str]:
    """Return the data source options for a topic."""
    return {
        "servers": server.grpc_address,
        "username": USERNAME,
        "passwordEnv": PASSWORD_VARIABLE,
        "stream": stream,
        "subscribe": topic,
    } | more
