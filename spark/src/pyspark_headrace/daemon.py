"""Daemon of Spark's Python workers, which imports the dependencies of the data source before it forks.

Spark starts a worker for planning, for tasks and for commits. Each of them imports the data source, pyarrow and gRPC
anew, which takes a third of a second. With ``spark.python.daemon.module=pyspark_headrace.daemon`` the daemon imports
them once, and its forks inherit them. Everything else is Spark's own daemon.
"""

from __future__ import annotations

from importlib import import_module
from typing import Final

from pyspark import daemon

_IMPORTED: Final = (
    "grpc",
    "headrace_core",
    "pyarrow.compute",
    "pyspark.sql.worker.commit_data_source_write",
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.data_source_pushdown_filters",
    "pyspark.sql.worker.lookup_data_sources",
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark.sql.worker.python_streaming_sink_runner",
    "pyspark.sql.worker.write_into_data_source",
    "pyspark.worker",
    "pyspark_headrace.read.batch_reader",
    "pyspark_headrace.sink",
    "pyspark_headrace.source",
    "pyspark_headrace.read.stream_reader",
)

if __name__ == "__main__":
    for module in _IMPORTED:
        import_module(module)
    daemon.manager()
