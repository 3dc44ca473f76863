"""Reading topics as they grow."""

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

from pyspark_headrace.offsets import Offsets
from pyspark_headrace.options.reading import stream_options
from pyspark_headrace.schema import check
from pyspark_headrace.splits import Split
from pyspark_headrace.tasks import rows

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from pyspark_headrace.following import Following

_log: Final = logging.getLogger(__name__)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans micro-batches in one process of the driver, reads in executors. Spark copies it there."""

    def __init__(self, given: Mapping[str, str], schema: StructType) -> None:
        self._options = stream_options(given)
        self._schema = schema
        self._following: Following | None = None
        check(schema, self._options)

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's names, here and below
        """Where a query without a checkpoint begins. Spark asks twice, and again after a crash."""
        return self._followed().initial().to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Something else than everything, if there is any limit: which ones there are is known here."""
        options = self._options
        if options.max_offsets_per_trigger is not None:
            return ReadMaxRows(options.max_offsets_per_trigger)
        if options.max_bytes_per_trigger is not None:
            return ReadMaxBytes(options.max_bytes_per_trigger)
        if options.min_offsets_per_trigger is not None:
            return ReadMinRows(options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Read what is there now, in as many micro-batches as limits make of it, and nothing that comes later."""
        self._followed().freeze()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Where the next micro-batch ends; `start` as it is, when there is none."""
        at = Offsets.from_json(self._options.stream, start)
        end = self._followed().next(at, is_limited=not isinstance(limit, ReadAllAvailable))
        return start if end is None else end.to_json()

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
        """Where topics end, for whoever watches how far behind a query is."""
        return self._followed().latest().to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The tasks of a micro-batch, the same ones when it is repeated."""
        stream = self._options.stream
        return list(self._followed().splits(Offsets.from_json(stream, start), Offsets.from_json(stream, end)))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the range of a task."""
        assert isinstance(partition, Split)  # noqa: S101 - made above
        return rows(partition, self._options, self._schema)

    def commit(self, end: dict[str, Any]) -> None:  # noqa: ARG002 - Spark's
        """A micro-batch is through. Spark says so one later, and never of the last one."""
        self._followed().confirm()

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_following": None}

    def _followed(self) -> Following:
        if self._following is None:
            from pyspark_headrace.following import Following  # noqa: PLC0415 - not needed in executors

            self._following = Following(self._options)
        return self._following
