"""Output of a task for Spark: batches of messages, or one row that describes the range."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark_headrace.options.reading import ReadOptions
from pyspark_headrace.read.splits import Split

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


def rows(split: Split, options: ReadOptions, schema: StructType) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a task, on an executor."""
    # Expensive import, not needed for planning.
    from pyspark_headrace.cluster.runtime import runtime  # noqa: PLC0415
    from pyspark_headrace.columns.schema import arrow_schema  # noqa: PLC0415
    from pyspark_headrace.read.reading import read_range  # noqa: PLC0415

    columns = arrow_schema(schema)
    runtime().settle()
    if options.emit == "ranges":
        if split.end > split.start:
            yield _range(split, columns)
        return
    yield from read_range(split, options, columns)


def _range(split: Split, schema: pa.Schema) -> pa.RecordBatch:
    import pyarrow as pa  # noqa: PLC0415

    row = {
        "stream": split.stream,
        "topic": split.topic,
        "partition": split.partition_id,
        "start": split.start,
        "end": split.end,
        "incarnation": f"{split.topic_incarnation}/{split.incarnation}.{split.purge_epoch}",
        "bytes": split.size_bytes,
        "split": split.to_bytes(),
    }
    return pa.RecordBatch.from_arrays([pa.array([row[field.name]], field.type) for field in schema], schema=schema)
