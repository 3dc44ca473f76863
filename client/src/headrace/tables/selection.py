"""Part of a topic that is read as a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, get_args

import pyarrow as pa

from headrace.sdk.calls import Name
from headrace.sdk.errors import HeadraceError, InvalidArgument
from headrace.sdk.options import ConsumerArguments
from headrace.tables.arrow import DEFAULT_COLUMNS, record_batch, schema_of
from headrace.tables.decoding import decoder
from headrace.tables.misfits import Fitting, Misfits, OnError
from headrace_core import Batch, PlannedRange

READING: ConsumerArguments = {"prefetch_bytes": 4 * 1024 * 1024}
"""Options of the consumers that read: at most so many bytes are read beyond the end of a range."""
QUIET_SECONDS: Final = 1.0
"""Time without messages after which a partition is asked again: those of the range may be gone."""


@dataclass(frozen=True, slots=True)
class Range:
    """Offsets of one partition, from the first up to, but without, the second."""

    partition_id: int
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Part of a topic: see `headrace.Client.scan`. How its messages are read is up to the classes that follow."""

    stream: Name
    topic: Name
    columns: Sequence[str] = DEFAULT_COLUMNS
    partitions: Sequence[int] | None = None
    since: datetime | None = None
    until: datetime | None = None
    offsets: tuple[int, int] | None = None
    where: pa.compute.Expression | None = None
    decode: Any = None
    on_error: OnError = "raise"
    misfits: Misfits = field(default_factory=Misfits)
    """Payloads that `decode` could not read and `on_error` has passed over."""

    @property
    def schema(self) -> pa.Schema:
        """Columns of the table: those of the messages, then those of the decoded payloads."""
        fields = list(schema_of(self.columns))
        if self.on_error not in get_args(OnError):
            raise InvalidArgument(f"on_error: {self.on_error!r} is none of {', '.join(map(repr, get_args(OnError)))}")
        if self.decode is not None:
            decoded = decoder(self.decode)[1]
            required = [one.name for one in decoded if not one.nullable]
            if self.on_error == "null" and required:
                raise InvalidArgument(f"on_error: the column {required[0]!r} may not be null; 'skip' leaves rows out")
            fields += list(decoded)
        names = [field.name for field in fields]
        doubles = sorted({name for name in names if names.count(name) > 1})
        if doubles:
            raise InvalidArgument(f"columns: {doubles[0]!r} is a column of the message and of the decoded payload")
        return pa.schema([field.remove_metadata() for field in fields])

    def _chosen(self) -> list[int] | None:
        """Return the ids of the partitions that are asked for; None: all. Who names them need not read the topic."""
        return None if self.partitions is None else sorted(set(self.partitions))

    def _clipped(self, part: Range) -> Range:
        """Return what lies within the offsets that are asked for; its end may lie before its start."""
        if self.offsets is None:
            return part
        return Range(part.partition_id, max(part.start, self.offsets[0]), min(part.end, self.offsets[1]))

    @staticmethod
    def _is_removed(part: Range, now: PlannedRange) -> bool:
        """Return whether the rest of a range was removed, as by retention, so that no other message of it comes.

        Raises:
            HeadraceError: The partition ends before the range. Its offsets may come to mean other messages.
        """
        if now.next_offset < part.end:
            raise HeadraceError(
                f"partition {part.partition_id} was purged, or lost its newest messages, while it was read: it ends at "
                f"offset {now.next_offset}, and ended at {part.end} before",
                retryable=True,
            )
        return now.first_offset >= part.end

    def _converter(self) -> Callable[[Batch, Range], pa.RecordBatch]:
        """Return the function that makes the rows of a table of those messages of a batch that are in a range."""
        schema = self.schema
        needed = list(self.columns)
        if self.decode is not None and "value" not in needed:
            needed.append("value")
        fitting = None
        if self.decode is not None:
            fitting = Fitting(*decoder(self.decode), self.on_error, self.misfits)

        def rows_of(batch: Batch, part: Range) -> pa.RecordBatch:
            columns = record_batch(batch, needed, stream=str(self.stream), topic=str(self.topic))
            columns = columns.slice(0, max(0, part.end - batch.first_offset))
            if fitting is not None:
                place = f"partition {part.partition_id} of topic {self.topic!r} in stream {self.stream!r}"
                messages = columns.select(list(self.columns))
                rows = fitting.rows(messages, columns.column("value"), place, batch.first_offset)
                columns = pa.RecordBatch.from_arrays(rows.columns, schema=schema)
            if self.where is None:
                return columns
            filtered = pa.Table.from_batches([columns]).filter(self.where).combine_chunks().to_batches()
            return filtered[0] if filtered else columns.slice(0, 0)

        return rows_of
