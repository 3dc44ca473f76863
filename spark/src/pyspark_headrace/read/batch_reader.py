"""Batch reads: one range of offsets per topic partition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from pyspark_headrace.columns.schema import check
from pyspark_headrace.options.reading import batch_options
from pyspark_headrace.options.values import EARLIEST
from pyspark_headrace.read.splits import NOTHING, Split
from pyspark_headrace.read.tasks import rows

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


class BatchReader(DataSourceReader):
    """Batch reader: plans on the driver, reads on executors. Spark pickles the reader, so it holds plain values only.

    `pushFilters` is deliberately missing: Spark keeps one plan for all queries of a DataFrame, so rows that one query
    filters out would be missing in the others.
    """

    def __init__(self, given: Mapping[str, str], schema: StructType) -> None:
        self._options = batch_options(given)
        self._schema = schema
        check(schema, self._options)

    def partitions(self) -> list[InputPartition]:
        """Resolve start and end offsets once: later actions on the DataFrame read the same ranges."""
        from pyspark_headrace.read.planning import Planner  # noqa: PLC0415 - not needed in executors
        from pyspark_headrace.read.selection import ends, starts  # noqa: PLC0415

        planner = Planner(self._options)
        described = planner.describe(with_sizes=True)
        times = planner.offsets_of_times(described)
        begin = starts(self._options, described, times, otherwise=EARLIEST)
        end = ends(self._options, described, times)
        splits = planner.splits({key: (begin[key], end[key]) for key in begin}, described, is_batch=True)
        # Given an empty list, Spark makes up one partition, which is None.
        return list(splits or [NOTHING])

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the range of a task."""
        assert isinstance(partition, Split)  # noqa: S101 - made above
        return rows(partition, self._options, self._schema)
