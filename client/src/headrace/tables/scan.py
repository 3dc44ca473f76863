"""A topic, or a part of it, as a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.sdk.calls import Name
from headrace.sdk.errors import InvalidArgument
from headrace.sdk.starts import at_offset, at_time
from headrace.tables.arrow import DEFAULT_COLUMNS, record_batch, schema_of
from headrace.tables.decoding import decoder

if TYPE_CHECKING:
    import duckdb
    import polars

    from headrace.sdk.client import Client

_PREFETCH_BYTES = 4 * 1024 * 1024
"""Bytes that may be read beyond the end of a range."""


@dataclass(frozen=True, slots=True)
class Range:
    """Offsets of one partition, from the first up to, but without, the second."""

    partition_id: int
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """A topic as a table that is read when it is asked for: see `headrace.Client.scan`."""

    client: Client
    stream: Name
    topic: Name
    columns: Sequence[str] = DEFAULT_COLUMNS
    partitions: Sequence[int] | None = None
    since: datetime | None = None
    until: datetime | None = None
    offsets: tuple[int, int] | None = None
    where: pa.compute.Expression | None = None
    decode: Any = None

    @property
    def schema(self) -> pa.Schema:
        """Columns of the table: those of the messages, then those of the decoded payloads."""
        fields = list(schema_of(self.columns))
        if self.decode is not None:
            fields += list(decoder(self.decode)[1])
        names = [field.name for field in fields]
        doubles = sorted({name for name in names if names.count(name) > 1})
        if doubles:
            raise InvalidArgument(f"columns: {doubles[0]!r} is a column of the message and of the decoded payload")
        return pa.schema([field.remove_metadata() for field in fields])

    def ranges(self) -> list[Range]:
        """Return the offsets that will be read: found by the indexes of the server, without reading messages."""
        found = []
        for partition in self.client.topic(self.stream, self.topic).partitions:
            if self.partitions is not None and partition.id not in self.partitions:
                continue
            end = partition.current_offset + 1 if partition.messages_count else 0
            start = self._first_since(partition.id, self.since, end) if self.since is not None else 0
            if self.until is not None:
                end = self._first_since(partition.id, self.until, end)
            if self.offsets is not None:
                start, end = max(start, self.offsets[0]), min(end, self.offsets[1])
            if start < end:
                found.append(Range(partition.id, start, end))
        return found

    def _first_since(self, partition: int, moment: datetime, end: int) -> int:
        polled = self.client.read(self.stream, self.topic, partition=partition, start=at_time(moment), count=1)
        return polled[0].offset if len(polled) else end

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Read, and yield record batches of one partition each."""
        schema = self.schema
        for part in self.ranges():
            yield from self._read(part, schema)

    def _read(self, part: Range, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        needed = list(self.columns)
        if self.decode is not None and "value" not in needed:
            needed.append("value")
        decode = decoder(self.decode)[0] if self.decode is not None else None
        with self.client.consumer(
            self.stream,
            self.topic,
            partitions=[part.partition_id],
            start=at_offset(part.start),
            prefetch_bytes=_PREFETCH_BYTES,
        ) as consumer:
            for batch in consumer.batches():
                columns = record_batch(batch, needed, stream=str(self.stream), topic=str(self.topic))
                kept = columns.slice(0, max(0, part.end - batch.first_offset))
                yield self._shaped(kept, decode, schema)
                if batch.next_offset >= part.end:
                    return

    def _shaped(self, columns: pa.RecordBatch, decode: Any, schema: pa.Schema) -> pa.RecordBatch:
        if decode is not None:
            decoded = decode(columns.column("value"))
            arrays = [*(columns.column(name) for name in self.columns), *decoded.columns]
            columns = pa.RecordBatch.from_arrays(arrays, schema=schema)
        if self.where is None:
            return columns
        filtered = pa.Table.from_batches([columns]).filter(self.where).combine_chunks().to_batches()
        return filtered[0] if filtered else columns.slice(0, 0)

    def reader(self) -> pa.RecordBatchReader:
        """Return the table as a stream of record batches, for any library that takes the Arrow C stream interface."""
        return pa.RecordBatchReader.from_batches(self.schema, self.batches())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Export the table through the Arrow C stream interface."""
        return self.reader().__arrow_c_stream__(requested_schema)

    def table(self) -> pa.Table:
        """Read everything into memory."""
        return pa.Table.from_batches(self.batches(), self.schema)

    def lazy(self) -> polars.LazyFrame:
        """Return a lazy Polars frame: only the columns that a query uses are decoded, and its filters run per batch."""
        import polars  # noqa: PLC0415 - only where it is asked for
        from polars.io.plugins import register_io_source  # noqa: PLC0415

        def source(
            with_columns: list[str] | None, predicate: polars.Expr | None, n_rows: int | None, _batch_size: int | None
        ) -> Iterator[polars.DataFrame]:
            scan = self if with_columns is None or self.decode is not None else self._with(with_columns)
            left = n_rows
            for batch in scan.batches():
                frame = polars.DataFrame(polars.from_arrow(batch))
                if with_columns is not None:
                    frame = frame.select(with_columns)
                if predicate is not None:
                    frame = frame.filter(predicate)
                if left is not None:
                    frame = frame.head(left)
                    left -= frame.height
                yield frame
                if left is not None and left <= 0:
                    return

        empty = polars.DataFrame(polars.from_arrow(self.schema.empty_table()))
        return register_io_source(source, schema=empty.schema)

    def _with(self, columns: Sequence[str]) -> Scan:
        return replace(self, columns=tuple(columns))

    def relation(self, connection: duckdb.DuckDBPyConnection | None = None) -> duckdb.DuckDBPyRelation:
        """Return a DuckDB relation over the table, which can be read once."""
        import duckdb  # noqa: PLC0415 - only where it is asked for

        return (connection or duckdb.default_connection()).from_arrow(self.reader())
