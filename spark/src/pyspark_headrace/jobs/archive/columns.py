"""Columns of files: raw messages, or decoded values."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from pyspark_headrace.jobs.archive.decoding import Decoding, InvalidValue
from pyspark_headrace.jobs.tables.columns import RAW_SCHEMA
from pyspark_headrace.read.splits import Split


@dataclass(frozen=True)
class Columns:
    """Conversion of messages to rows of files."""

    decoding: Decoding | None
    """None: values are stored raw."""
    names: tuple[str, ...] = ()
    """Additional columns `stream` and `topic`, for tables of Iceberg."""

    @property
    def schema(self) -> pa.Schema:
        """Arrow schema of files."""
        value = RAW_SCHEMA.get_field_index("value")
        schema = RAW_SCHEMA
        if self.decoding is not None:
            schema = schema.set(value, pa.field("value", self.decoding.kind, nullable=False))
        for name in reversed(self.names):
            schema = schema.insert(0, pa.field(name, pa.string(), nullable=False))
        return schema

    def rows(self, messages: pa.RecordBatch, split: Split) -> tuple[pa.RecordBatch, pa.RecordBatch, list[InvalidValue]]:
        """Convert messages to rows.

        Args:
            messages: Messages with `RAW_SCHEMA`.
            split: Origin of the messages.

        Returns:
            Rows of files, the messages they were made of, and the bad messages.
        """
        bad: list[InvalidValue] = []
        columns = messages.columns
        if self.decoding is not None:
            values, bad = self.decoding.decode(messages.column("value"))
            if bad:
                wrong = {one.row for one in bad}
                good = [row for row in range(messages.num_rows) if row not in wrong]
                messages = messages.take(pa.array(good, pa.int64()))
            columns = [
                values if name == "value" else column
                for name, column in zip(messages.schema.names, messages.columns, strict=True)
            ]
        if not self.names and self.decoding is None:
            return messages, messages, bad
        given = {"stream": split.stream, "topic": split.topic}
        texts = [pa.repeat(pa.scalar(given[name], pa.string()), messages.num_rows) for name in self.names]
        return pa.RecordBatch.from_arrays([*texts, *columns], schema=self.schema), messages, bad
