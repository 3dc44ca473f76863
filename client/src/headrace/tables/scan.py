"""A topic, or a part of it, as a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.sdk.blocking.scan import ScanCalls

if TYPE_CHECKING:
    import duckdb
    import polars


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan(ScanCalls):
    """A topic as a table that is read when it is asked for: see `headrace.Client.scan`."""

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
            # Fields of decoded payloads are no columns of messages, and the scan's own filter may use any column.
            needs_all = self.decode is not None or self.where is not None
            scan = self if with_columns is None or needs_all else self._with(with_columns)
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
