"""Reading a range of topics once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from pyspark_headrace.options.reading import batch_options
from pyspark_headrace.options.values import EARLIEST
from pyspark_headrace.schema import check
from pyspark_headrace.splits import NOTHING, Split
from pyspark_headrace.tasks import rows

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


class BatchReader(DataSourceReader):
    """Plans on the driver, reads in executors. Spark copies it there: it holds values only.

    There is no `pushFilters`, on purpose: Spark keeps one plan for all queries of a DataFrame, so what one of them
    filters would be missing in the others.
    """

    def __init__(self, given: Mapping[str, str], schema: StructType) -> None:
        self._options = batch_options(given)
        self._schema = schema
        check(schema, self._options)

    def partitions(self) -> list[InputPartition]:
        """Find out where everything begins and ends, for good: later actions of the DataFrame read the same."""
        from pyspark_headrace.planning import Planner  # noqa: PLC0415 - not needed in executors
        from pyspark_headrace.selection import ends, starts  # noqa: PLC0415

        planner = Planner(self._options)
        described = planner.describe(with_sizes=True)
        times = planner.offsets_of_times(described)
        begin = starts(self._options, described, times, otherwise=EARLIEST)
        end = ends(self._options, described, times)
        splits = planner.splits({key: (begin[key], end[key]) for key in begin}, described, is_batch=True)
        # Of no partitions at all Spark makes one that is None.
        return list(splits or [NOTHING])

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the range of a task."""
        assert isinstance(partition, Split)  # noqa: S101 - made above
        return rows(partition, self._options, self._schema)
