"""A topic, or a part of it, as a table, for asyncio."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, cast

import pyarrow as pa

from headrace.aio.awaited.scan import ScanCalls
from headrace.tables.scan import Scan as BlockingScan
from headrace.tables.selection import Selection

if TYPE_CHECKING:
    import duckdb
    import polars

    from headrace.aio.client import Client


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan(ScanCalls):
    """A topic as a table that is read when it is asked for: see `headrace.aio.Client.scan`.

    Polars and DuckDB read on threads of their own, and wait there: `await scan.lazy().collect_async()`, and
    `await asyncio.to_thread(scan.relation().fetchall)`.
    """

    async def table(self) -> pa.Table:
        """Read everything into memory."""
        return pa.Table.from_batches([batch async for batch in self.batches()], self.schema)

    def _on_threads(self) -> BlockingScan:
        # Of all selections alike, `misfits` included: those of the threads are found here, too.
        selection = {one.name: getattr(self, one.name) for one in fields(Selection)}
        client = cast("Client", self.client)._for_threads()  # noqa: SLF001 - of the same package
        return BlockingScan(client=client, **selection)

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
