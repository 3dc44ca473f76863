"""Measurement of archives: the driver lists the files, tasks count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_headrace.jobs.dead_letter_headers import KEY
from pyspark_headrace.jobs.running.tasks import run_tasks, spread
from pyspark_headrace.jobs.tables.archive import Archive
from pyspark_headrace.jobs.tables.errors import ArchiveError
from pyspark_headrace.jobs.tables.files import RAW, ArchivedFile, PartitionKey
from pyspark_headrace.jobs.tables.reading import batches
from pyspark_headrace.jobs.tables.stores import Store
from pyspark_headrace.jobs.usage.period import HOUR_MICROS
from pyspark_headrace.jobs.usage.tally import Counted, Place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_COLUMNS: Final = ("timestamp", "key", "value", "headers")
_MESSAGE_BYTES: Final = 64
"""Size of a message header in the log."""
_PAIR_BYTES: Final = 10
"""Overhead of a user header in addition to key and value: types and lengths."""
_KEY_BYTES: Final = len(KEY) + _PAIR_BYTES
"""Overhead of the user header with the message key."""
_FOREVER_MICROS: Final = 1 << 62
_LOAD_BYTES: Final = 16 << 20
"""Minimum size of a task."""


class Hole(NamedTuple):
    """Range of missing offsets."""

    file: ArchivedFile
    """File that contains the gap or precedes it."""
    start: int
    end: int
    since_micros: int
    until_micros: int

    @property
    def place(self) -> Place:
        """Topic of the gap."""
        return Place(self.file.stream, self.file.topic)


@dataclass(frozen=True)
class Files:
    """Files of an archive, for selected streams."""

    uri: str
    files: Sequence[ArchivedFile]

    @property
    def unknown(self) -> dict[Place, list[tuple[int, int]]]:
        """Time ranges of topics that may be incomplete: messages after the newest archived one may be missing."""
        newest: dict[Place, int] = {}
        found: dict[Place, list[tuple[int, int]]] = {}
        for file in self.files:
            place = Place(file.stream, file.topic)
            newest[place] = max(newest.get(place, 0), file.last_timestamp)
        for hole in self.holes:
            found.setdefault(hole.place, []).append((hole.since_micros, hole.until_micros + 1))
        for place, last in newest.items():
            found.setdefault(place, []).append((last, _FOREVER_MICROS))
        return found

    @property
    def holes(self) -> list[Hole]:
        """Gaps between archived messages."""
        found = []
        for before, after in pairwise(self.files):
            if before.key == after.key and before.end != after.start:
                found.append(Hole(after, before.end, after.start, before.last_timestamp, after.first_timestamp))
        found += (
            Hole(file, file.start, file.end, file.first_timestamp, file.last_timestamp)
            for file in self.files
            if file.rows != file.end - file.start
        )
        return found

    @classmethod
    def of(cls, uri: str, streams: Sequence[str] | None) -> Files:
        """List the files of an archive.

        Raises:
            ArchiveError: The archive cannot be read, or has columns other than those of messages.
        """
        found = [file for file in Archive.open(uri).state().files.values() if streams is None or file.stream in streams]
        for file in found:
            if file.mode != RAW:
                raise ArchiveError(f"{uri}: {file.path} has decoded columns: what its messages took is not known")
        return cls(uri, sorted(found, key=lambda file: (file.key, file.start)))


def count_archive(spark: SparkSession, files: Files, bounds: Sequence[int]) -> list[Counted]:
    """Count the messages of files.

    Args:
        spark: The session.
        files: Files of an archive.
        bounds: Starts of hours, and the end of the measurement.

    Raises:
        pyspark.errors.PySparkException: A file does not match the archive's log.
    """
    firsts: dict[PartitionKey, int] = {}
    for file in files.files:
        firsts[file.key] = min(firsts.get(file.key, file.start), file.start)
    # Storage is not reported for archives, so files before the period are not needed.
    pieces = [
        _Piece(files.uri, file, tuple(bounds), lacks_first=file.start == firsts[file.key] > 0)
        for file in files.files
        if file.last_timestamp >= bounds[0] and file.first_timestamp < bounds[-1]
    ]
    return run_tasks(spark, _Piece.count, spread(pieces, [piece.file.bytes for piece in pieces], _LOAD_BYTES))


@dataclass(frozen=True)
class _Piece:
    uri: str
    file: ArchivedFile
    bounds: tuple[int, ...]
    lacks_first: bool

    def count(self) -> Counted:
        """Count the messages of the file, in a task."""
        start, end = self.bounds[0], self.bounds[-1]
        number = len(self.bounds) - 1
        messages, sizes = np.zeros(number, np.int64), np.zeros(number, np.int64)
        unknown = before = 0
        for batch in batches(Store.open(self.uri), self.file, _COLUMNS):
            times = batch.column("timestamp").cast(pa.int64()).to_numpy()
            # The timestamps are ascending.
            first, last = (int(np.searchsorted(times, at)) for at in (start, end))
            before += first
            part = batch.slice(first, last - first)
            hours = (times[first:last] - start) // HOUR_MICROS
            messages += np.bincount(hours, minlength=number)
            np.add.at(sizes, hours, sizes_of(part))
            unknown += part.column("headers").null_count
        found = {self.bounds[at]: (int(messages[at]), int(sizes[at])) for at in range(number) if messages[at]}
        place = Place(self.file.stream, self.file.topic)
        line = f"{self.file.partition}/{self.file.incarnation}/{self.file.generation}"
        # Of earlier messages only their existence matters.
        return Counted(place, line, before, found, self.lacks_first, unknown)


def sizes_of(batch: pa.RecordBatch) -> np.ndarray:
    """Return the sizes of messages in the log."""
    key = _lengths(batch.column("key"))
    size = _MESSAGE_BYTES + _lengths(batch.column("value")) + np.where(key > 0, key + _KEY_BYTES, 0)
    headers = batch.column("headers")
    pairs = headers.flatten()
    of_pairs = _PAIR_BYTES + _lengths(pairs.field("key")) + _lengths(pairs.field("value"))
    counts = pc.fill_null(headers.value_lengths(), 0).to_numpy(zero_copy_only=False)
    np.add.at(size, np.repeat(np.arange(len(headers)), counts), of_pairs)
    return size


def _lengths(array: pa.Array) -> np.ndarray:
    lengths: np.ndarray = pc.fill_null(pc.binary_length(array), 0).to_numpy(zero_copy_only=False)
    return lengths.astype(np.int64)
