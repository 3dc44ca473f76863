"""Archived messages of a topic as a source of ranges."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from pyspark_headrace.errors import DataLossError, OptionError
from pyspark_headrace.jobs.origins.pieces import Extent, Piece, schema_of
from pyspark_headrace.jobs.tables.archive import Archive
from pyspark_headrace.jobs.tables.errors import ArchiveError, DamagedFileError
from pyspark_headrace.jobs.tables.files import RAW, ArchivedFile, PartitionKey
from pyspark_headrace.jobs.tables.reading import opened
from pyspark_headrace.jobs.tables.stores import Store
from pyspark_headrace.read.splits import cut

_BATCH_ROWS: Final = 16_384
_BELIEVED_SECONDS: Final = 600.0
"""Time for which a state of the archive's log is cached. Replaced files stay available for longer."""


@dataclass(frozen=True)
class ArchivePiece:
    """A range of a file."""

    uri: str
    file: ArchivedFile
    start: int
    end: int
    """End offset, exclusive."""

    @property
    def partition_id(self) -> int:
        """Original partition."""
        return self.file.partition

    @property
    def size_bytes(self) -> int:
        """Size in the file."""
        return self.file.bytes * (self.end - self.start) // (self.file.end - self.file.start)

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the messages of the range.

        Raises:
            ArchiveError: The file does not match the archive's log.
        """
        names = list(dict.fromkeys(["offset", *columns]))
        wanted = schema_of(columns)
        following = self.start
        with opened(Store.open(self.uri), self.file) as parquet:
            groups, begins = _groups(parquet, self.file, self.start, self.end)
            for batch in parquet.iter_batches(_BATCH_ROWS, row_groups=groups, columns=names):
                part = batch.slice(max(self.start - begins, 0), max(self.end - max(begins, self.start), 0))
                begins += batch.num_rows
                if part.num_rows == 0:
                    continue
                offsets = part.column("offset")
                first, last = offsets[0].as_py(), offsets[-1].as_py()
                if (first, last) != (following, following + part.num_rows - 1):
                    raise DamagedFileError(self.file.path, f"has offset {first} where {following} should be")
                following += part.num_rows
                yield from pa.Table.from_batches([part]).select(list(columns)).cast(wanted).to_batches()
        if following != self.end:
            raise DamagedFileError(self.file.path, f"ends at {following}, before {self.end}")


class ArchiveOrigin:
    """Archived messages of one topic.

    Archived messages from before a recreation or purge of the topic are refused: their offsets are ambiguous.
    """

    def __init__(self, uri: str, stream: str | None = None, topic: str | None = None) -> None:
        """Open the archive.

        Args:
            uri: URI of the archive.
            stream: Stream of the topic; required if the archive has several.
            topic: Name of the topic; required if the archive has several.

        Raises:
            OptionError: The archive has no such topic, or several.
            ArchiveError: The archive cannot be read.
        """
        self._uri = uri
        self._archive = Archive.open(uri)
        self._read_at = 0.0
        self._files: Mapping[PartitionKey, Sequence[ArchivedFile]] = {}
        self._refresh()
        found = sorted(
            {
                (key.stream, key.topic)
                for key in self._files
                if stream in {None, key.stream} and topic in {None, key.topic}
            }
        )
        if len(found) != 1:
            has = ", ".join(f"{name[0]}/{name[1]}" for name in found[:10])
            raise OptionError(f"archive {uri}: " + (f"which topic? It has {has}" if found else "it has no such topic"))
        ((self.stream, self.topic),) = found

    def extents(self, since_micros: int | None, until_micros: int | None) -> dict[int, Extent]:
        """Return the available range of each partition between two times.

        Raises:
            ArchiveError: The archive cannot be read, or the topic was purged or recreated in between.
            DataLossError: Messages are missing in between.
        """
        self._refresh()
        found: dict[int, Extent] = {}
        for key, files in self._of_topic().items():
            start = files[0].start if since_micros is None else self._at(files, since_micros)
            end = files[-1].end if until_micros is None else self._at(files, until_micros)
            end = max(start, end)
            parts = _overlapping(key, files, start, end)
            size = sum(file.bytes * (until - begin) // (file.end - file.start) for file, begin, until in parts)
            found[key.partition] = Extent(start, end, f"{key.incarnation}/{key.generation}", size)
        return found

    def pieces(self, ranges: Mapping[int, Extent], *, rows: int, size_bytes: int) -> list[Piece]:
        """Return the pieces for tasks.

        Raises:
            ArchiveError: The archive cannot be read.
            DataLossError: Messages are missing.
        """
        if time.monotonic() - self._read_at > _BELIEVED_SECONDS:
            self._refresh()
        files = {key.partition: (key, of_it) for key, of_it in self._of_topic().items()}
        found: list[Piece] = []
        for number, extent in sorted(ranges.items()):
            if not extent.count:
                continue
            key, of_it = files.get(number, (None, ()))
            if key is None or extent.generation != f"{key.incarnation}/{key.generation}":
                raise DataLossError(f"{self._uri}: {self.stream}/{self.topic}, partition {number}, no longer exists")
            for file, begin, end in _overlapping(key, of_it, extent.start, extent.end):
                size = file.bytes * (end - begin) // (file.end - file.start)
                count = max(-(-(end - begin) // rows), -(-size // size_bytes), 1)
                found.extend(
                    ArchivePiece(self._uri, file, *bounds) for bounds in cut(begin, end, min(count, end - begin))
                )
        return found

    def _refresh(self) -> None:
        self._files = self._archive.state().partitions
        self._read_at = time.monotonic()

    def _of_topic(self) -> dict[PartitionKey, Sequence[ArchivedFile]]:
        found = {
            key: of_it for key, of_it in self._files.items() if (key.stream, key.topic) == (self.stream, self.topic)
        }
        for before, after in pairwise(found):
            if before.partition == after.partition:
                raise ArchiveError(
                    f"{self._uri}: {after.title}, was purged or created again: offsets of it mean several messages"
                )
        for of_it in found.values():
            for file in of_it:
                if file.mode != RAW:
                    raise ArchiveError(f"{self._uri}: {file.path} has decoded columns, no messages")
        return found

    def _at(self, files: Sequence[ArchivedFile], micros: int) -> int:
        """Return the first offset at or after a time; the end offset if all messages are older."""
        for file in files:
            if file.last_timestamp < micros:
                continue
            if file.first_timestamp >= micros:
                return file.start
            table = self._archive.read_table(file, ["offset", "timestamp"])
            times = table.column("timestamp").cast(pa.int64()).to_numpy()
            return int(table.column("offset")[int(times.searchsorted(micros))].as_py())
        return files[-1].end


def _overlapping(
    key: PartitionKey, files: Sequence[ArchivedFile], start: int, end: int
) -> list[tuple[ArchivedFile, int, int]]:
    """Return the files that overlap a range, with the part of the range in each file.

    Raises:
        DataLossError: The files do not cover the range.
    """
    found: list[tuple[ArchivedFile, int, int]] = []
    following = start
    for file in files:
        if file.end <= start or file.start >= end:
            continue
        if file.start > following or file.rows != file.end - file.start:
            raise DataLossError(f"{key.title}: the archive lacks messages between {following} and {file.end}")
        found.append((file, following, min(file.end, end)))
        following = file.end
    if following < end:
        raise DataLossError(f"{key.title}: the archive lacks messages between {following} and {end}")
    return found


def _groups(parquet: pq.ParquetFile, file: ArchivedFile, start: int, end: int) -> tuple[list[int], int]:
    """Return the row groups that overlap a range, and the first offset of the first group."""
    numbers: list[int] = []
    begins, first = file.start, file.start
    for number in range(parquet.metadata.num_row_groups):
        until = begins + parquet.metadata.row_group(number).num_rows
        if until > start and begins < end:
            if not numbers:
                first = begins
            numbers.append(number)
        begins = until
    return numbers, first
