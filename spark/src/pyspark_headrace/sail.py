"""Differences of Sail, an engine that runs data sources of Spark in its own process, without Java."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, cast

from pyspark.sql.datasource import DataSourceReader, InputPartition

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


def is_sail() -> bool:
    """Return whether this process is a server or a worker of Sail: Spark's workers have no reason to load it."""
    return "pysail" in sys.modules


def arrow_schema(columns: Mapping[str, str]) -> pa.Schema:
    """Return columns with types of DDL as Arrow's schema: Sail's DDL has no lists and takes no time zone."""
    import pyarrow as pa  # noqa: PLC0415 - planning with Spark does without

    header = pa.struct([("key", pa.string()), ("value", pa.binary())])
    types = {
        "STRING": pa.string(),
        "INT": pa.int32(),
        "BIGINT": pa.int64(),
        "TIMESTAMP": pa.timestamp("us", "UTC"),
        "BINARY": pa.binary(),
        "ARRAY<STRUCT<key: STRING, value: BINARY>>": pa.list_(header),
    }
    return pa.schema([(name, types[kind]) for name, kind in columns.items()])


def struct(schema: StructType | pa.Schema) -> StructType:
    """Return the columns as Spark has them; Sail hands over Arrow's schema."""
    from pyspark.sql.types import StructType  # noqa: PLC0415 - loaded by both engines

    if isinstance(schema, StructType):
        return schema
    from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415 - slow

    return from_arrow_schema(schema)


class ExactReader(DataSourceReader):
    """Reader whose batches have exactly the schema of Sail, which compares names within lists, and time zones."""

    def __init__(self, reader: DataSourceReader, schema: pa.Schema) -> None:
        self._reader = reader
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        """Plan as the reader does."""
        return self._reader.partitions()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read as the reader does."""
        for batch in self._reader.read(partition):
            yield _in_arrows_memory(cast("pa.RecordBatch", batch).cast(self._schema))


def _in_arrows_memory(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a copy without memory of Python's objects.

    Sail keeps the GIL while it waits for room for a batch, and the thread that makes room would wait for the GIL to
    release such objects.
    """
    import pyarrow as pa  # noqa: PLC0415 - planning with Spark does without

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return pa.ipc.open_stream(sink.getvalue()).read_next_batch()
