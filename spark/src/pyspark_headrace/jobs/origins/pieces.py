"""Interface of sources and their pieces, common to topics and archives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import pyarrow as pa

from pyspark_headrace.jobs.tables.columns import RAW_SCHEMA

KINDS: Final = {field.name: field.type for field in RAW_SCHEMA}
"""Columns of messages."""


def schema_of(columns: Sequence[str]) -> pa.Schema:
    """Return the schema with these columns, in this order."""
    return pa.schema([(name, KINDS[name]) for name in columns])


@dataclass(frozen=True)
class Extent:
    """Range of a partition, available or requested."""

    start: int
    end: int
    """End offset, exclusive."""
    generation: str
    """Log generation: changes whenever offsets start again at 0."""
    size_bytes: int
    """Estimated size in the log, or in the files of an archive."""

    @property
    def count(self) -> int:
        """Number of messages."""
        return self.end - self.start


Ranges = Mapping[int, tuple[int, int]]
"""Start and end offset (exclusive) by partition."""


class Piece(Protocol):
    """A range of one partition that a task reads. Serializable."""

    @property
    def size_bytes(self) -> int:
        """Estimated size."""

    @property
    def partition_id(self) -> int:
        """Original partition."""

    @property
    def start(self) -> int:
        """First offset."""

    @property
    def end(self) -> int:
        """End offset, exclusive."""

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield all messages with these columns, in order. Incomplete reads raise an error."""


class Origin(Protocol):
    """A topic or its archive, on the driver."""

    @property
    def stream(self) -> str:
        """Stream of the topic."""

    @property
    def topic(self) -> str:
        """Name of the topic."""

    def extents(self, since_micros: int | None, until_micros: int | None) -> dict[int, Extent]:
        """Return the currently available range of each partition between two times (end exclusive)."""

    def pieces(self, ranges: Mapping[int, Extent], *, rows: int, size_bytes: int) -> list[Piece]:
        """Return the pieces for tasks, by partition and offset, with approximate limits on messages and bytes.

        Raises:
            DataLossError: Messages are missing or replaced.
        """
