"""The session of Spark that a job runs in."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

from pyspark_headrace.jobs.running.arguments import ArgumentError
from pyspark_headrace.jobs.running.config import JobConfig

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_BY_SUBMIT: Final = "PYSPARK_GATEWAY_PORT"
"""``spark-submit`` tells its program so where Spark is already."""
_REMOTE: Final = "SPARK_REMOTE"
_MASTER: Final = "SPARK_MASTER"
_LOOPBACK: Final = "127.0.0.1"


def session(name: str, config: JobConfig) -> SparkSession:
    """Return the session that there is, or make one.

    Under ``spark-submit`` it is as its arguments say. Otherwise the variable SPARK_MASTER chooses where it runs, or the
    configuration of Spark; without, it is on all cores of this machine, and nobody else can reach it.

    Args:
        name: What Spark calls the application.
        config: Of the job.

    Raises:
        ArgumentError: The environment asks for a session that is elsewhere.
    """
    if _REMOTE in os.environ:
        raise ArgumentError(f"jobs run where Spark's driver is, and not through Spark Connect: {_REMOTE} is set")
    from pyspark.sql import SparkSession  # noqa: PLC0415 - takes a second, which help and wrong arguments do not need

    there = SparkSession.getActiveSession()
    if there is not None:
        return there
    builder = SparkSession.builder.appName(name).config("spark.sql.session.timeZone", "UTC")
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    if _BY_SUBMIT not in os.environ:
        # Otherwise workers are whatever `python3` is, which need not have this package.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        master = os.environ.get(_MASTER)
        if master is not None:
            builder = builder.master(master)
        if master is None or master.startswith("local"):
            builder = builder.config("spark.ui.enabled", "false")
            builder = builder.config("spark.driver.host", _LOOPBACK).config("spark.driver.bindAddress", _LOOPBACK)
        # Workers are slow to start where much else runs.
        builder = builder.config("spark.python.authenticate.socketTimeout", "60s")
        builder = builder.config("spark.log.level", {"debug": "INFO", "error": "ERROR"}.get(config.log_level, "WARN"))
    return builder.getOrCreate()
