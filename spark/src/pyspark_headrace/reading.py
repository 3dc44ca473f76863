"""Public name of `read_range`, for tasks that read ranges by themselves."""

from pyspark_headrace.read.reading import read_range

__all__ = ["read_range"]
