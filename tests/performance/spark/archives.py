"""Parquet files from a topic: by the job `archive`, whose tasks write them, and by Spark's own writer."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pyarrow.parquet import read_metadata

from pyspark_headrace.jobs.archive.batches import SPLIT
from pyspark_headrace.jobs.archive.columns import Columns
from pyspark_headrace.jobs.archive.tasks import Work
from pyspark_headrace.jobs.running.tasks import row_by_row, unpacked
from pyspark_headrace.jobs.tables.columns import RAW_COLUMNS
from pyspark_headrace.jobs.tables.writing import FileOptions
from pyspark_headrace.options.reading import batch_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ARCHIVE, WRITE = "archived", "written by Spark"
CODEC, LEVEL = "zstd", 3
"""Compression codec, and Spark's default level."""
_TASK_BYTES = str(384 << 20)


def archive(spark: SparkSession, source: Mapping[str, str], place: Path) -> int:
    """Have tasks write files, as a micro-batch of the job does before it commits them; returns the number of rows."""
    options = {**source, "emit": "ranges", "maxBytesPerPartition": _TASK_BYTES}
    files = FileOptions(compression=CODEC, compression_level=LEVEL)
    work = Work(batch_options(options), str(place), Columns(None), files)
    archived = row_by_row(work, "binary")
    ranges = spark.read.format("headrace").options(**options).schema(SPLIT).load()
    try:
        rows = ranges.select(archived("split").alias("result")).collect()
        return sum(unpacked(row["result"]).rows for row in rows)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def write(spark: SparkSession, source: Mapping[str, str], place: Path) -> int:
    """Have Spark write the same columns; returns the number of rows."""
    options = {**source, "columns": ",".join(RAW_COLUMNS), "maxBytesPerPartition": _TASK_BYTES}
    frame = spark.read.format("headrace").options(**options).load()
    try:
        frame.write.option("compression", CODEC).parquet(str(place))
        return sum(read_metadata(file).num_rows for file in place.glob("*.parquet"))
    finally:
        shutil.rmtree(place, ignore_errors=True)
