"""Conversion of fetched messages to record batches for Spark."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from headrace_core import ColumnArray, RecordColumns, RecordDecoder, RecordError
from pyspark_headrace.cluster.node import Chunk
from pyspark_headrace.errors import DataLossError, IncompleteError
from pyspark_headrace.options.reading import ReadOptions
from pyspark_headrace.read.splits import Split

_log: Final = logging.getLogger(__name__)


class Records:
    """Decoder of one range: takes responses in order and yields record batches."""

    def __init__(self, split: Split, options: ReadOptions, schema: pa.Schema) -> None:
        self._split = split
        self._options = options
        self._schema = schema
        self._end = split.end
        self._decoder = self._decoder_from(split.start)

    @property
    def title(self) -> str:
        """Name of the task in messages."""
        return self._split.title

    @property
    def next_offset(self) -> int:
        """Offset of the next expected message."""
        return self._decoder.next_offset

    @property
    def is_complete(self) -> bool:
        """Return whether the range was decoded completely."""
        return self._decoder.next_offset >= self._end

    def add(self, piece: Chunk) -> Iterator[pa.RecordBatch]:
        """Decode a response and yield the batches that are full.

        Raises:
            DataLossError: Messages are missing.
            IncompleteError: The response is not the requested one.
        """
        if piece.polled:
            try:
                full = self._decoder.feed(piece.polled)
            except RecordError as error:
                yield from self._passed_over(error)
                yield from self.add(piece)
                return
            yield from map(self._batch, full)
        if min(piece.next_offset, self._end) > self.next_offset:
            yield from self._skipped(piece.next_offset)

    def rest(self) -> Iterator[pa.RecordBatch]:
        """Yield the remaining rows as a last, smaller batch."""
        yield from map(self._batch, self._decoder.finish())

    def begins_at(self, first_offset: int) -> Iterator[pa.RecordBatch]:
        """Take the first available offset into account.

        Raises:
            DataLossError: Unread messages before the offset are missing.
        """
        if first_offset > self.next_offset:
            yield from self._skipped(first_offset)

    def end_at_most(self, next_offset: int) -> None:
        """Take the end of the partition into account.

        Raises:
            DataLossError: The partition ends before the range.
        """
        if next_offset < self._end:
            self._lost(f"the log ends at {next_offset}")
            self._end = max(next_offset, self.next_offset)

    def _passed_over(self, error: RecordError) -> Iterator[pa.RecordBatch]:
        is_gap = error.defect == "offset" and error.offset is not None and error.offset > self.next_offset
        if not is_gap or error.offset is None:
            raise IncompleteError(f"{self._split.title}: {error}") from error
        yield from self._skipped(error.offset)

    def _skipped(self, offset: int) -> Iterator[pa.RecordBatch]:
        self._lost(f"the next message after {self.next_offset - 1} is {offset}")
        yield from self.rest()
        self._decoder = self._decoder_from(min(offset, self._end))

    def _lost(self, what: str) -> None:
        if self._options.fail_on_data_loss:
            raise DataLossError(f"{self._split.title}: {what}. failOnDataLoss = false goes on with what is left")
        _log.warning("%s: %s; going on with what is left", self._split.title, what)

    def _decoder_from(self, start: int) -> RecordDecoder:
        return RecordDecoder(
            self._schema.names,
            start=start,
            end=self._end,
            partition=self._split.partition_id,
            verify=self._options.verify_checksums,
            batch_rows=self._options.batch_rows,
            batch_bytes=self._options.batch_bytes,
            stream=self._split.stream,
            topic=self._split.topic,
        )

    def _batch(self, columns: RecordColumns) -> pa.RecordBatch:
        arrays = [_array(field.type, column) for field, column in zip(self._schema, columns.columns, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def _array(kind: pa.DataType, column: ColumnArray) -> pa.Array:
    buffers = [None if part is None else pa.py_buffer(part) for part in column.buffers]
    children = [_array(kind.field(index).type, child) for index, child in enumerate(column.children)]
    return pa.Array.from_buffers(kind, column.length, buffers, column.null_count, children=children or None)
