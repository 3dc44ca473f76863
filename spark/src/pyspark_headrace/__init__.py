"""Spark data source for Headrace: ``spark.read.format("headrace")`` and the same with ``readStream``.

Spark imports every package whose name begins with ``pyspark_`` in each of its planning processes. This package
therefore imports its modules lazily, and jobs can be listed without Spark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark_headrace.lag import LagListener
    from pyspark_headrace.source import DefaultSource
    from pyspark_headrace.topics import read_topic

__all__ = ["DefaultSource", "LagListener", "read_topic"]


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
