"""Spark as it is installed, in a folder of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pyspark

_NOT_SHARED: Final = {"python", "work"}
"""Its Python once more, as archives: whatever is imported from those is compiled in every process that does so. And
logs of executors, which go into the home that Spark was started from."""


def make_spark_home(folder: Path) -> Path:
    """Make a home of Spark, for the variable SPARK_HOME: workers import Python from where it is installed."""
    home = folder / "spark"
    home.mkdir()
    for entry in Path(pyspark.__file__).parent.iterdir():
        if entry.name not in _NOT_SHARED:
            (home / entry.name).symlink_to(entry)
    return home
