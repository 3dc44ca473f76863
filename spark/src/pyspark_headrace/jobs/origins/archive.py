"""Archived messages of a topic as a source of ranges."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from pyspark_headrace.errors import DataLossError, OptionError
from pyspark_headrace.jobs.origins.pieces import Extent, Piece, schema_of
from pyspark_headrace.jobs.tables.errors import ArchiveError
from pyspark_headrace.jobs.tables.files import PartitionKey
from pyspark_headrace.jobs.tables.reading import Archived, Part, read
from pyspark_headrace.jobs.tables.stores import Store
from pyspark_headrace.jobs.tables.table import Table, TableFile
from pyspark_headrace.read.splits import cut

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_BELIEVED_SECONDS: Final = 600.0
"""Time for which a state of the table is cached. Replaced files stay available for longer."""
_CUT_MICROS: Final = 1000
"""Most by which a timestamp exceeds that of a table's statistics, some of whose writers cut it to milliseconds."""


@dataclass(frozen=True)
class ArchivePiece:
    """A range of a partition."""

    uri: str
    files: tuple[TableFile, ...]
    """Files with messages of the range."""
    partition_id: int
    """Original partition."""
    start: int
    end: int
    """End offset, exclusive."""
    size_bytes: int
    """Size in the files."""

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the messages of the range.

        Raises:
            ArchiveError: A file does not have the messages that the table says.
        """
        wanted = schema_of(columns)
        for batch in read(Store.open(self.uri), self.files, self.partition_id, (self.start, self.end), columns):
            yield from pa.Table.from_batches([batch]).cast(wanted).to_batches()


class ArchiveOrigin:
    """Archived messages of one topic."""

    def __init__(self, spark: SparkSession, table: Table, stream: str | None = None, topic: str | None = None) -> None:
        """Choose the topic.

        Args:
            spark: The session.
            table: The archive.
            stream: Stream of the topic; required if the archive has several.
            topic: Name of the topic; required if the archive has several.

        Raises:
            OptionError: The archive has no such topic, or several.
            ArchiveError: The archive cannot be read, or has decoded columns.
        """
        self._uri = table.place
        self._archived = Archived(spark, table)
        self._read_at = 0.0
        self._parts: Mapping[int, tuple[PartitionKey, Sequence[Part]]] = {}
        if not table.is_raw:
            raise ArchiveError(f"{self._uri}: this archive has decoded columns, no messages")
        there = {(file.stream, file.topic) for file in table.files()}
        found = sorted(name for name in there if stream in {None, name[0]} and topic in {None, name[1]})
        if len(found) != 1:
            has = ", ".join(f"{name[0]}/{name[1]}" for name in found[:10])
            what = f"which topic? It has {has}" if found else "it has no such topic"
            raise OptionError(f"archive {self._uri}: {what}")
        ((self.stream, self.topic),) = found

    def extents(self, since_micros: int | None, until_micros: int | None) -> dict[int, Extent]:
        """Return the available range of each partition between two times.

        Raises:
            ArchiveError: The archive cannot be read.
            DataLossError: Messages are missing in between.
        """
        self._refresh()
        found: dict[int, Extent] = {}
        for number, (key, parts) in self._parts.items():
            start = parts[0].start if since_micros is None else self._at(parts, since_micros)
            end = self._archived.ends[key] if until_micros is None else self._at(parts, until_micros)
            end = max(start, end)
            size = _size(_overlapping(key, parts, start, end), start, end)
            found[number] = Extent(start, end, _generation(key), size)
        return found

    def pieces(self, ranges: Mapping[int, Extent], *, rows: int, size_bytes: int) -> list[Piece]:
        """Return the pieces for tasks.

        Raises:
            ArchiveError: The archive cannot be read.
            DataLossError: Messages are missing.
        """
        if time.monotonic() - self._read_at > _BELIEVED_SECONDS:
            self._refresh()
        found: list[Piece] = []
        for number, extent in sorted(ranges.items()):
            if not extent.count:
                continue
            key, parts = self._parts.get(number, (None, ()))
            if key is None or extent.generation != _generation(key):
                raise DataLossError(f"{self._uri}: {self.stream}/{self.topic}, partition {number}, no longer exists")
            of_range = _overlapping(key, parts, extent.start, extent.end)
            size = _size(of_range, extent.start, extent.end)
            count = min(max(-(-extent.count // rows), -(-size // size_bytes), 1), extent.count)
            for start, end in cut(extent.start, extent.end, count):
                of_piece = [part for part in of_range if part.start < end and part.end > start]
                files = tuple(dict.fromkeys(part.file for part in of_piece))
                found.append(ArchivePiece(self._uri, files, number, start, end, _size(of_piece, start, end)))
        return found

    def _refresh(self) -> None:
        parts = self._archived.parts(lambda *name: name == (self.stream, self.topic))
        self._parts = {key.partition: (key, of_it) for key, of_it in parts.items()}
        self._read_at = time.monotonic()

    def _at(self, parts: Sequence[Part], micros: int) -> int:
        """Return the first offset at or after a time; the end offset if all messages are older."""
        store = Store.open(self._uri)
        for part in parts:
            if part.last_timestamp + _CUT_MICROS <= micros:
                continue
            if part.first_timestamp >= micros:
                return part.start
            bounds = (part.start, part.end)
            for batch in read(store, [part.file], part.key.partition, bounds, ("offset", "timestamp")):
                times = batch.column("timestamp").cast(pa.int64()).to_numpy()
                at = int(times.searchsorted(micros))
                if at < len(times):
                    return int(batch.column("offset")[at].as_py())
        return parts[-1].end


def _generation(key: PartitionKey) -> str:
    return f"{key.incarnation}/{key.generation}"


def _size(parts: Sequence[Part], start: int, end: int) -> int:
    return sum(part.size_of(min(part.end, end) - max(part.start, start)) for part in parts)


def _overlapping(key: PartitionKey, parts: Sequence[Part], start: int, end: int) -> list[Part]:
    """Return the parts that overlap a range.

    Raises:
        DataLossError: The parts do not have each message of the range once.
    """
    found: list[Part] = []
    following = start
    for part in parts:
        if part.end <= start or part.start >= end:
            continue
        if max(part.start, start) != following:
            what = "lacks" if part.start > following else "has twice the"
            bounds = sorted((part.start, following))
            raise DataLossError(f"{key.title}: the archive {what} messages between {bounds[0]} and {bounds[1]}")
        found.append(part)
        following = part.end
    if following < end:
        raise DataLossError(f"{key.title}: the archive lacks messages between {following} and {end}")
    return found
