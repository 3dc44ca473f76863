"""Spark session of a job."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

from pyspark_headrace.jobs.running.arguments import ArgumentError
from pyspark_headrace.jobs.running.config import JobConfig

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_BY_SUBMIT: Final = "PYSPARK_GATEWAY_PORT"
"""Variable by which ``spark-submit`` passes its gateway to the program."""
_REMOTE: Final = "SPARK_REMOTE"
_MASTER: Final = "SPARK_MASTER"
_LOOPBACK: Final = "127.0.0.1"


def session(name: str, config: JobConfig) -> SparkSession:
    """Return the active session, or create one.

    Under ``spark-submit`` the session follows its arguments. Otherwise the variable SPARK_MASTER or the configuration
    of Spark selects the master. The default is all cores of this machine, reachable from loopback only.

    Args:
        name: Name of the application.
        config: Configuration of the job.

    Raises:
        ArgumentError: The environment requests a Spark Connect session.
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
        # Otherwise workers run the `python3` on the path, which may lack this package.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        master = os.environ.get(_MASTER)
        if master is not None:
            builder = builder.master(master)
        if master is None or master.startswith("local"):
            builder = builder.config("spark.ui.enabled", "false")
            builder = builder.config("spark.driver.host", _LOOPBACK).config("spark.driver.bindAddress", _LOOPBACK)
        # Workers start slowly on a busy machine.
        builder = builder.config("spark.python.authenticate.socketTimeout", "60s")
        builder = builder.config("spark.log.level", {"debug": "INFO", "error": "ERROR"}.get(config.log_level, "WARN"))
    return builder.getOrCreate()
