"""Spark data source for Headrace: ``spark.read.format("headrace")`` and the same with ``readStream``.

Spark imports every package whose name begins with ``pyspark_`` in each of its planning processes. This package
therefore imports its modules lazily, and jobs can be listed without Spark.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark_headrace.lag import LagListener
    from pyspark_headrace.source import DefaultSource
    from pyspark_headrace.topics import read_topic

__all__ = ["DefaultSource", "LagListener", "read_topic"]

# Without the variable, gRPC's core prepares each fork of the process and restarts its threads in the child, although
# its Python layer supports no forks then. One of the threads may poll a descriptor that is closed already, which ends
# the child: for PySpark, which forks to start its JVM, "Java gateway process exited before sending its port number".
# gRPC reads the variable when it is imported.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")


def __getattr__(name: str) -> Any:
    if name == "DefaultSource":
        from pyspark_headrace.source import DefaultSource  # noqa: PLC0415

        return DefaultSource
    if name == "LagListener":
        from pyspark_headrace.lag import LagListener  # noqa: PLC0415

        return LagListener
    if name == "read_topic":
        from pyspark_headrace.topics import read_topic  # noqa: PLC0415

        return read_topic
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
