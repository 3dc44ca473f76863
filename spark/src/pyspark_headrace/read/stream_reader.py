"""Streaming reads."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from pyspark_headrace.columns.schema import check
from pyspark_headrace.options.reading import stream_options
from pyspark_headrace.read.offsets import Offsets
from pyspark_headrace.read.splits import Split
from pyspark_headrace.read.tasks import rows

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from pyspark_headrace.read.stream_state import Following

_log: Final = logging.getLogger(__name__)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Stream reader: plans micro-batches in one process of the driver, reads on executors after pickling."""

    def __init__(self, given: Mapping[str, str], schema: StructType) -> None:
        self._options = stream_options(given)
        self._schema = schema
        self._following: Following | None = None
        check(schema, self._options)

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's names, here and below
        """Start offsets of a query without a checkpoint. Spark calls this twice, and again after a crash."""
        return self._followed().initial().to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return a read limit other than "all" if the options set any limit. The options, not Spark, hold its value."""
        options = self._options
        if options.max_offsets_per_trigger is not None:
            return ReadMaxRows(options.max_offsets_per_trigger)
        if options.max_bytes_per_trigger is not None:
            return ReadMaxBytes(options.max_bytes_per_trigger)
        if options.min_offsets_per_trigger is not None:
            return ReadMinRows(options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Freeze the current end offsets: micro-batches, as limited by the options, stop there."""
        self._followed().freeze()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return the end of the next micro-batch; `start` itself if there is none."""
        at = Offsets.from_json(self._options.stream, start)
        end = self._followed().next(at, is_limited=not isinstance(limit, ReadAllAvailable))
        return start if end is None else end.to_json()

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
        """Return the current end offsets of the topics, for lag monitoring."""
        return self._followed().latest().to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Return the tasks of a micro-batch; a repeated micro-batch has the same ones."""
        stream = self._options.stream
        return list(self._followed().splits(Offsets.from_json(stream, start), Offsets.from_json(stream, end)))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the range of a task."""
        assert isinstance(partition, Split)  # noqa: S101 - made above
        return rows(partition, self._options, self._schema)

    def commit(self, end: dict[str, Any]) -> None:  # noqa: ARG002 - Spark's
        """Confirm a micro-batch. Spark calls this one micro-batch late, and never for the last one."""
        self._followed().confirm()

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_following": None}

    def _followed(self) -> Following:
        if self._following is None:
            from pyspark_headrace.read.stream_state import Following  # noqa: PLC0415 - not needed in executors

            self._following = Following(self._options)
        return self._following
