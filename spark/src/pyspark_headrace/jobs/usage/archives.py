"""Counting what archives have: the driver finds the files, tasks count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_headrace.jobs.archives.archive import Archive
from pyspark_headrace.jobs.archives.errors import ArchiveError
from pyspark_headrace.jobs.archives.files import RAW, ArchivedFile, PartitionKey
from pyspark_headrace.jobs.archives.reading import batches
from pyspark_headrace.jobs.archives.stores import Store
from pyspark_headrace.jobs.running.tasks import run_tasks, spread
from pyspark_headrace.jobs.usage.period import HOUR_MICROS
from pyspark_headrace.jobs.usage.tally import Counted, Place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_COLUMNS: Final = ("timestamp", "key", "value", "headers")
_MESSAGE_BYTES: Final = 64
"""Of the header of each message in the log."""
_PAIR_BYTES: Final = 10
"""Of a user header besides its key and its value: their kinds and lengths."""
_KEY_BYTES: Final = len("headrace.key") + _PAIR_BYTES
"""Of the user header with a message's key, without that."""
_FOREVER_MICROS: Final = 1 << 62
_LOAD_BYTES: Final = 16 << 20
"""Fewer are not worth a task of their own."""


class Hole(NamedTuple):
    """A range of offsets of which messages are missing."""

    file: ArchivedFile
    """In which they are missing, or behind them."""
    start: int
    end: int
    since_micros: int
    until_micros: int

    @property
    def place(self) -> Place:
        """The topic."""
        return Place(self.file.stream, self.file.topic)


@dataclass(frozen=True)
class Files:
    """What an archive has, of some streams."""

    uri: str
    files: Sequence[ArchivedFile]

    @property
    def unknown(self) -> dict[Place, list[tuple[int, int]]]:
        """From when to when messages of topics may be missing: what came after the newest one may not be there yet."""
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
        """Where messages are missing between others."""
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
        """Look what there is.

        Raises:
            ArchiveError: It cannot be read, or has other columns than those of messages.
        """
        found = [file for file in Archive.open(uri).state().files.values() if streams is None or file.stream in streams]
        for file in found:
            if file.mode != RAW:
                raise ArchiveError(f"{uri}: {file.path} has decoded columns: what its messages took is not known")
        return cls(uri, sorted(found, key=lambda file: (file.key, file.start)))


def count_archive(spark: SparkSession, files: Files, bounds: Sequence[int]) -> list[Counted]:
    """Count messages of files.

    Args:
        spark: The session.
        files: Of an archive.
        bounds: When hours begin, and where counting ends.

    Raises:
        pyspark.errors.PySparkException: A file is not what the archive's log says.
    """
    firsts: dict[PartitionKey, int] = {}
    for file in files.files:
        firsts[file.key] = min(firsts.get(file.key, file.start), file.start)
    # Nothing is said of what was stored, so that nobody needs what came before.
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
        """Count it, in a task."""
        start, end = self.bounds[0], self.bounds[-1]
        number = len(self.bounds) - 1
        messages, sizes = np.zeros(number, np.int64), np.zeros(number, np.int64)
        unknown = before = 0
        for batch in batches(Store.open(self.uri), self.file, _COLUMNS):
            times = batch.column("timestamp").cast(pa.int64()).to_numpy()
            # They ascend.
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
        # That something came before the period is all that matters of it.
        return Counted(place, line, before, found, self.lacks_first, unknown)


def sizes_of(batch: pa.RecordBatch) -> np.ndarray:
    """What messages take in the log."""
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
