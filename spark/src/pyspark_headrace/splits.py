"""Public name of `Split`, for tasks that read ranges by themselves."""

from pyspark_headrace.read.splits import Split

__all__ = ["Split"]
