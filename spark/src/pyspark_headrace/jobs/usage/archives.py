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
from pyspark_headrace.jobs.tables.errors import ArchiveError, DamagedFileError
from pyspark_headrace.jobs.tables.files import PartitionKey
from pyspark_headrace.jobs.tables.reading import Archived, named, opened
from pyspark_headrace.jobs.tables.stores import Store
from pyspark_headrace.jobs.tables.table import Table, TableFile, place_of
from pyspark_headrace.jobs.usage.period import HOUR_MICROS
from pyspark_headrace.jobs.usage.tally import Counted, Place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_COLUMNS: Final = ("partition", "offset", "timestamp", "key", "value", "headers")
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

    key: PartitionKey
    start: int
    end: int
    since_micros: int
    until_micros: int


class Files:
    """Files of an archive, for selected streams."""

    def __init__(self, spark: SparkSession, table: Table, streams: Sequence[str] | None) -> None:
        """List the files.

        Raises:
            ArchiveError: The archive cannot be read, or has columns other than those of messages.
        """
        if not table.is_raw:
            raise ArchiveError(f"{table.place}: this archive has decoded columns: what its messages took is not known")
        self._uri = table.place
        self._spark = spark
        self._parts = Archived(spark, table).parts(lambda stream, _: streams is None or stream in streams)

    @property
    def unknown(self) -> dict[Place, list[tuple[int, int]]]:
        """Time ranges of topics that may be incomplete: messages after the newest archived one may be missing."""
        newest: dict[Place, int] = {}
        found: dict[Place, list[tuple[int, int]]] = {}
        for key, parts in self._parts.items():
            place = Place(key.stream, key.topic)
            newest[place] = max(newest.get(place, 0), *(part.last_timestamp for part in parts))
        for hole in self.holes:
            place = Place(hole.key.stream, hole.key.topic)
            found.setdefault(place, []).append((hole.since_micros, hole.until_micros + 1))
        for place, last in newest.items():
            found.setdefault(place, []).append((last, _FOREVER_MICROS))
        return found

    @property
    def holes(self) -> list[Hole]:
        """Gaps between archived messages."""
        return [
            Hole(key, before.end, after.start, before.last_timestamp, after.first_timestamp)
            for key, parts in self._parts.items()
            for before, after in pairwise(parts)
            if before.end != after.start
        ]

    def counted(self, bounds: Sequence[int]) -> list[Counted]:
        """Count the messages.

        Args:
            bounds: Starts of hours, and the end of the measurement.

        Raises:
            pyspark.errors.PySparkException: A file is not as the table describes it.
        """
        lines = {place_of(key): f"{key.partition}/{key.incarnation}/{key.generation}" for key in self._parts}
        firsts = {place_of(key): parts[0].start for key, parts in self._parts.items()}
        # Storage is not reported for archives, so files before the period are not needed.
        files = dict.fromkeys(
            part.file
            for parts in self._parts.values()
            for part in parts
            if part.last_timestamp >= bounds[0] and part.first_timestamp < bounds[-1]
        )
        pieces = [
            _Piece(
                self._uri,
                file,
                tuple(bounds),
                {number: line for (*topic, number), line in lines.items() if topic == [file.stream, file.topic]},
                {number: first for (*topic, number), first in firsts.items() if topic == [file.stream, file.topic]},
            )
            for file in files
        ]
        found = run_tasks(self._spark, _Piece.count, spread(pieces, [file.bytes for file in files], _LOAD_BYTES))
        return [counted for of_file in found for counted in of_file]


@dataclass(frozen=True)
class _Piece:
    uri: str
    file: TableFile
    bounds: tuple[int, ...]
    lines: dict[int, str]
    """Names of the topic's partitions with their log generation."""
    firsts: dict[int, int]
    """First archived offset of each partition."""

    def count(self) -> list[Counted]:
        """Count the messages of each partition in the file, in a task."""
        found: dict[int, _Counts] = {}
        rows = 0
        with opened(Store.open(self.uri), self.file) as parquet, named(self.file):
            for batch in parquet.iter_batches(columns=list(_COLUMNS)):
                rows += batch.num_rows
                partitions = batch.column("partition").to_numpy()
                for number in np.unique(partitions).tolist():
                    of_it = batch.filter(pa.array(partitions == number))
                    found.setdefault(number, _Counts(len(self.bounds) - 1)).add(of_it, self.bounds)
        if rows != self.file.rows:
            raise DamagedFileError(self.file.path, f"has {rows} rows, and {self.file.rows} in the table")
        place = Place(self.file.stream, self.file.topic)
        return [
            Counted(
                place,
                self.lines[number],
                # Of earlier messages only their existence matters.
                counts.before,
                {
                    start: (messages, size)
                    for start, messages, size in zip(
                        self.bounds[:-1], counts.messages.tolist(), counts.sizes.tolist(), strict=True
                    )
                    if messages
                },
                counts.first == self.firsts[number] > 0,
                counts.unknown,
            )
            for number, counts in sorted(found.items())
        ]


class _Counts:
    """Counts of a partition in a file, by hour."""

    def __init__(self, hours: int) -> None:
        self.messages, self.sizes = np.zeros(hours, np.int64), np.zeros(hours, np.int64)
        self.before = self.unknown = 0
        self.first = _FOREVER_MICROS

    def add(self, batch: pa.RecordBatch, bounds: Sequence[int]) -> None:
        """Count messages of one partition."""
        times = batch.column("timestamp").cast(pa.int64()).to_numpy()
        self.first = min(self.first, batch.column("offset").to_numpy().min())
        self.before += int((times < bounds[0]).sum())
        is_within = (times >= bounds[0]) & (times < bounds[-1])
        part = batch.filter(pa.array(is_within))
        hours = (times[is_within] - bounds[0]) // HOUR_MICROS
        self.messages += np.bincount(hours, minlength=len(self.messages))
        np.add.at(self.sizes, hours, sizes_of(part))
        self.unknown += part.column("headers").null_count


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
