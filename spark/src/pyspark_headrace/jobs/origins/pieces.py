"""What a job reads in one go, whatever it comes from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import pyarrow as pa

from pyspark_headrace.jobs.archives.columns import RAW_SCHEMA

KINDS: Final = {field.name: field.type for field in RAW_SCHEMA}
"""Columns of messages."""


def schema_of(columns: Sequence[str]) -> pa.Schema:
    """The columns with these names, in this order."""
    return pa.schema([(name, KINDS[name]) for name in columns])


@dataclass(frozen=True)
class Extent:
    """What there is of a partition, or what is wanted of it."""

    start: int
    end: int
    """Exclusive."""
    generation: str
    """What changes when its offsets begin anew."""
    size_bytes: int
    """As estimated: in the log, or in the files of an archive."""

    @property
    def count(self) -> int:
        """How many messages."""
        return self.end - self.start


Ranges = Mapping[int, tuple[int, int]]
"""Start and end (exclusive) in partitions."""


class Piece(Protocol):
    """A range of one partition that a task reads. Travels to tasks."""

    @property
    def size_bytes(self) -> int:
        """As estimated."""

    @property
    def partition_id(self) -> int:
        """Of the topic that it came from."""

    @property
    def start(self) -> int:
        """Its first offset."""

    @property
    def end(self) -> int:
        """Exclusive."""

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Give all its messages, in their order, with these columns; or fail."""


class Origin(Protocol):
    """A topic, or what an archive has of one. Lives on the driver."""

    @property
    def stream(self) -> str:
        """Of the topic."""

    @property
    def topic(self) -> str:
        """Its name."""

    def extents(self, since_micros: int | None, until_micros: int | None) -> dict[int, Extent]:
        """What there is now of each partition, from a time on, up to another one (exclusive)."""

    def pieces(self, ranges: Mapping[int, Extent], *, rows: int, size_bytes: int) -> list[Piece]:
        """What tasks are to read, by partition and offset, each with about so many messages and bytes at most.

        Raises:
            DataLossError: Something is not there any more, or not what it was.
        """
