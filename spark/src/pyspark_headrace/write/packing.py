"""Packing of a task's rows into batches, by the native codec."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from headrace_core import EncodedBatch, RecordEncoder, RowError
from pyspark_headrace.columns.arrays import given
from pyspark_headrace.columns.sink_schema import taken
from pyspark_headrace.errors import RowRefusedError
from pyspark_headrace.options.writing import WriteOptions
from pyspark_headrace.write.target import Targets

_MEMORY_BYTES: Final = 64 << 20
"""Memory limit of rows that wait for a batch, over all topics."""
_NAMES: Final = {"origin_timestamp": "timestamp"}
"""Column names of the codec, where they differ."""


@dataclass
class Counted:
    """Number of rows, bytes and batches that a task has written."""

    rows: int = 0
    size_bytes: int = 0
    batches: int = 0

    def add(self, batch: EncodedBatch) -> None:
        """Add one batch to the counts."""
        self.rows += batch.messages_count
        self.size_bytes += len(batch.batch)
        self.batches += 1


class Packed(NamedTuple):
    """A batch and its topic."""

    topic: str
    batch: EncodedBatch


def pack(rows: Iterator[pa.RecordBatch], targets: Targets, options: WriteOptions, *, task: int) -> Iterator[Packed]:
    """Pack rows into batches, each for one partition.

    Args:
        rows: Rows of one task.
        targets: The topic, or the topics that the column `topic` selects from.
        options: Options of the sink.
        task: Number of the task. Tasks start the round robin at different partitions.

    Raises:
        RowRefusedError: A row cannot be a message.
    """
    now = time.time_ns() // 1000
    encoders = {}
    for name, target in targets.items():
        count = len(target.topic.partitions)
        encoders[name] = RecordEncoder(
            partitions_count=count,
            partition_by_key=options.partitioner == "key",
            first_partition=task % count,
            batch_bytes=options.batch_bytes,
            memory_bytes=_MEMORY_BYTES // len(targets),
            origin_timestamp_micros=now,
        )
    before = 0
    for batch in rows:
        names = taken(batch.schema.names, options)
        for part in _by_topic(batch, targets, options, task, before):
            columns = {_NAMES.get(name, name): given(part.rows.column(name)) for name in names}
            try:
                encoded = encoders[part.topic].push(part.rows.num_rows, **columns)
            except RowError as error:
                row = before + (error.row if part.at is None else part.at[error.row].as_py())
                raise RowRefusedError(f"row {row} of task {task}, column {error.column}: {error}") from error
            for one in encoded:
                yield Packed(part.topic, one)
        before += batch.num_rows
    for name, encoder in encoders.items():
        for one in encoder.finish():
            yield Packed(name, one)


class _Part(NamedTuple):
    """Rows for one topic."""

    topic: str
    rows: pa.RecordBatch
    at: pa.Array | None
    """Indexes of the rows in the record batch; None for all rows in order."""


def _by_topic(
    batch: pa.RecordBatch, targets: Targets, options: WriteOptions, task: int, before: int
) -> Iterator[_Part]:
    """Yield the rows of each topic, in order."""
    if options.topics is None:
        (only,) = targets
        yield _Part(only, batch, None)
        return
    chosen = batch.column("topic")
    named = pc.unique(chosen).to_pylist()
    for name in named:
        if name not in targets:
            at = pc.indices_nonzero(pc.is_null(chosen) if name is None else pc.equal(chosen, name))
            shown = "NULL" if name is None else repr(name)
            raise RowRefusedError(
                f"row {before + at[0].as_py()} of task {task}, column topic: {shown} is not one of {', '.join(targets)}"
            )
    for name in named:
        if len(named) == 1:
            yield _Part(name, batch, None)
        else:
            at = pc.indices_nonzero(pc.equal(chosen, name))
            yield _Part(name, batch.take(at), at)
