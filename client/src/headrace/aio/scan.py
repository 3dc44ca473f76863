"""A topic, or a part of it, as a table, for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.sdk.errors import HeadraceError
from headrace.sdk.starts import at_offset, at_time
from headrace.tables.scan import Reads
from headrace.tables.scan import Scan as BlockingScan
from headrace.tables.selection import QUIET_SECONDS, READING, Range, Selection

if TYPE_CHECKING:
    import duckdb
    import polars

    from headrace.aio.client import Client


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan(Selection):
    """A topic as a table that is read when it is asked for: see `headrace.aio.Client.scan`.

    Polars and DuckDB read on threads of their own, and wait there: `await scan.lazy().collect_async()`, and
    `await asyncio.to_thread(scan.relation().fetchall)`.
    """

    client: Client
    threads: Reads
    """The same client, for threads."""

    async def ranges(self) -> list[Range]:
        """Return the offsets that will be read: found by the indexes of the server, without reading messages."""
        found = []
        chosen = self._chosen()
        if chosen is None:
            chosen = [partition.id for partition in (await self.client.topic(self.stream, self.topic)).partitions]
        for id_ in chosen:
            # The partition itself is asked: the statistics of a topic may be old where a node has not answered.
            whole = await self.client.plan(self.stream, self.topic, id_)
            part = Range(id_, whole.first_offset, whole.next_offset)
            start, end = part.start, part.end
            if self.since is not None:
                start = await self._first_since(part, self.since)
            if self.until is not None:
                end = await self._first_since(part, self.until)
            clipped = self._clipped(Range(part.partition_id, start, end))
            if clipped.start < clipped.end:
                found.append(clipped)
        return found

    async def _first_since(self, part: Range, moment: datetime) -> int:
        polled = await self.client.read(
            self.stream, self.topic, partition=part.partition_id, start=at_time(moment), count=1
        )
        return min(part.end, polled[0].offset) if len(polled) else part.end

    async def batches(self) -> AsyncIterator[pa.RecordBatch]:
        """Read, and yield record batches of one partition each."""
        rows = self._converter()
        for part in await self.ranges():
            async with self.client.consumer(
                self.stream, self.topic, partitions=[part.partition_id], start=at_offset(part.start), **READING
            ) as consumer:
                while True:
                    batch = await consumer.poll(QUIET_SECONDS)
                    if batch is None:
                        if await self._ends_early(part):
                            break
                        continue
                    # Decoding is work for a thread: the event loop has others to serve.
                    yield await asyncio.to_thread(rows, batch, part)
                    if batch.next_offset >= part.end:
                        break

    async def _ends_early(self, part: Range) -> bool:
        try:
            now = await self.client.plan(self.stream, self.topic, part.partition_id)
        except HeadraceError as error:
            if not error.retryable:
                raise
            # The node is away, for example: the consumer waits for that, too.
            return False
        return self._is_removed(part, now)

    async def table(self) -> pa.Table:
        """Read everything into memory."""
        return pa.Table.from_batches([batch async for batch in self.batches()], self.schema)

    def _on_threads(self) -> BlockingScan:
        return BlockingScan(
            client=self.threads,
            stream=self.stream,
            topic=self.topic,
            columns=self.columns,
            partitions=self.partitions,
            since=self.since,
            until=self.until,
            offsets=self.offsets,
            where=self.where,
            decode=self.decode,
            on_error=self.on_error,
            misfits=self.misfits,
        )

    def reader(self) -> pa.RecordBatchReader:
        """Return the table as a stream of record batches that waits on the thread that reads from it."""
        return self._on_threads().reader()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Export the table through the Arrow C stream interface."""
        return self._on_threads().__arrow_c_stream__(requested_schema)

    def lazy(self) -> polars.LazyFrame:
        """Return a lazy Polars frame, as `headrace.tables.Scan.lazy`; await its `collect_async`."""
        return self._on_threads().lazy()

    def relation(self, connection: duckdb.DuckDBPyConnection | None = None) -> duckdb.DuckDBPyRelation:
        """Return a DuckDB relation, which can be read once; read it on a thread, with `asyncio.to_thread`."""
        return self._on_threads().relation(connection)
