"""The same messages as rows: cost of a source that yields tuples instead of columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from pyspark_headrace.read.batch_reader import BatchReader


class RowSource(DataSource):
    """Data source ``format("headrace-rows")``, for batch reads."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "headrace-rows"

    def schema(self) -> str:
        """Reject reads without an explicit schema."""
        raise NotImplementedError

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a batch reader."""
        return RowReader(self.options, schema)


class RowReader(DataSourceReader):
    """Reader with the planning and fetching of the real source."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._reader = BatchReader(options, schema)

    def partitions(self) -> list[InputPartition]:
        """Plan the same partitions as the real source."""
        return self._reader.partitions()

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        """Convert columns to rows as cheaply as Python can."""
        for batch in self._reader.read(partition):
            yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)
