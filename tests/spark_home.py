"""Spark as the tests start it: a separate home, and a class data sharing archive that every JVM maps.

`python -m tests.spark_home` creates both; `make setup-spark` does so when they are missing. A JVM that starts Spark
takes 8 s of CPU time without the archive and 4 s with it, and tests start many. A JVM that cannot use the archive, such
as one of another Java release, runs without it.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

import pyspark

DIRECTORY: Final = Path(__file__).resolve().parents[1] / ".cache/spark"
SPARK_HOME: Final = DIRECTORY / "home"
"""Value of the variable of that name. Its path is part of the archive."""
PYTHON: Final = DIRECTORY / "python"
"""Value of the variable PYSPARK_PYTHON, unless processes have to be below the JVM that starts them:
`tests/spark_python.py`.
"""
_CLASSES: Final = DIRECTORY / "classes.jsa"
_NOT_SHARED: Final = {"python", "work"}
"""Directories that are not linked. `python` contains Spark's Python again as archives; modules imported from archives
are compiled in every process. `work` contains logs of executors, which go into the home that Spark was started from.
"""
_QUICK: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"
"""Queries of tests are too short for an optimising compiler to pay off."""
_QUIET: Final = "-Xlog:cds=off -Xlog:cds+dynamic=off"
_DAEMON: Final = "-Dspark.python.daemon.module=pyspark_headrace.daemon"
"""The setting that docs/spark.md recommends. The README's script and the containers run without it. It is not in a file
of `conf`: a JVM whose class path has a non-empty directory creates no archive and uses none.
"""
JAVA_OPTIONS: Final = f"{_QUICK} {_DAEMON} -XX:SharedArchiveFile={_CLASSES} {_QUIET}"
"""Options of every JVM, in the variable JDK_JAVA_OPTIONS."""


def java_options(temporary: Path) -> str:
    """Return the options of a JVM that keeps its temporary files in a directory, which is created.

    One that is killed leaves behind its blocks and the artifacts of its sessions.
    """
    temporary.mkdir(parents=True, exist_ok=True)
    return f"{JAVA_OPTIONS} -Djava.io.tmpdir={temporary}"


_TYPICAL: Final = """
import sys
from pyspark.sql import SparkSession, functions as f
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
rows = spark.range(100).selectExpr("id", "id % 3 AS k", "CAST(id AS STRING) AS s", "current_timestamp() AS t")
rows.write.partitionBy("k").parquet(sys.argv[1] + "/rows")
read = spark.read.parquet(sys.argv[1] + "/rows")
read.groupBy("k").agg(f.count("*"), f.count_distinct("s")).orderBy("k").collect()
read.select(f.from_json("s", "a INT").alias("j")).distinct().count()
query = (
    spark.readStream.format("rate").load().groupBy("value").count()
    .writeStream.format("memory").queryName("q").outputMode("complete")
    .option("checkpointLocation", sys.argv[1] + "/checkpoint").trigger(availableNow=True).start()
)
query.awaitTermination()
spark.stop()
"""


def main() -> None:
    """Create the home, the Python, and the archive of the classes that a typical session loads."""
    shutil.rmtree(DIRECTORY, ignore_errors=True)
    SPARK_HOME.mkdir(parents=True)
    for entry in Path(pyspark.__file__).parent.iterdir():
        if entry.name not in _NOT_SHARED:
            (SPARK_HOME / entry.name).symlink_to(entry)
    script = Path(__file__).with_name("spark_python.py")
    PYTHON.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -IS {shlex.quote(str(script))} "$@"\n')
    PYTHON.chmod(0o755)
    with tempfile.TemporaryDirectory() as directory:
        # The JVM writes the archive when it exits, which is after Python; it holds the pipe until then.
        done = subprocess.run(
            [sys.executable, "-c", _TYPICAL, directory],
            env=os.environ
            | {
                "SPARK_HOME": str(SPARK_HOME),
                "SPARK_LOCAL_IP": "127.0.0.1",
                "JDK_JAVA_OPTIONS": f"{_QUICK} -XX:ArchiveClassesAtExit={_CLASSES}",
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
    # The JVM may write an archive file without its classes.
    if done.returncode != 0 or not _CLASSES.exists() or "][cds] Error" in done.stdout:
        # A thousand classes that cannot be in an archive would hide the reason.
        lines = [line for line in done.stdout.splitlines() if "][warning][cds]" not in line]
        sys.exit("no archive of Spark's classes was made:\n" + "\n".join(lines[-60:]))


if __name__ == "__main__":
    main()
