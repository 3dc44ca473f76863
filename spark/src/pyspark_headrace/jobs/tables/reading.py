"""Messages in the files of a table: where they are, and their contents.

Files of the job `archive` have messages of one partition without gaps, which the table's statistics show. Files that
were merged have those of several partitions in any order: these are looked at, in tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pyspark_headrace.jobs.running.tasks import run_tasks, spread
from pyspark_headrace.jobs.tables.errors import ArchiveError, DamagedFileError, FileError, MissingFileError
from pyspark_headrace.jobs.tables.files import PartitionKey
from pyspark_headrace.jobs.tables.stores import Store
from pyspark_headrace.jobs.tables.table import Bounds, Place, Table, TableFile

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_BATCH_ROWS: Final = 16_384
_LOAD_BYTES: Final = 64 << 20
"""Minimum size of the files that one task looks at."""


class Run(NamedTuple):
    """Messages of one partition with consecutive offsets."""

    partition: int
    start: int
    end: int
    """Offset after the last message."""
    first_timestamp: int
    """Least timestamp, in microseconds since 1970."""
    last_timestamp: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A run of messages in a file."""

    key: PartitionKey
    file: TableFile
    start: int
    end: int
    first_timestamp: int
    last_timestamp: int

    def size_of(self, count: int) -> int:
        """Return the estimated size of some of its messages in the file."""
        return self.file.bytes * count // self.file.rows


Parts = Mapping[PartitionKey, Sequence[Part]]
"""Parts of each partition, in the order of their offsets."""


class Archived:
    """Reader of the messages of a table."""

    def __init__(self, spark: SparkSession, table: Table) -> None:
        """Create the reader.

        Args:
            spark: The session.
            table: The table.
        """
        self._spark = spark
        self.table = table
        self._runs: dict[str, Sequence[Run] | FileError] = {}
        self.ends: dict[PartitionKey, int] = {}
        """Recorded end of each partition: the offset after the last message that was archived."""

    def damaged(self) -> list[FileError]:
        """Return the errors of merged files that could not be read."""
        return [runs for runs in self._runs.values() if isinstance(runs, FileError)]

    def parts(self, chosen: Callable[[str, str], bool], *, passes_over_damage: bool = False) -> Parts:
        """Return where the messages of topics are.

        Args:
            chosen: Whether a topic is wanted, given its stream and its name.
            passes_over_damage: Leave out files that cannot be read, which `damaged` has then.

        Raises:
            ArchiveError: The table has messages that the job `archive` has not written.
            FileError: A file cannot be read.
            StoreError: The table cannot be read.
        """
        files = [file for file in self.table.files() if chosen(file.stream, file.topic)]
        self._look_at([file for file in files if file.path not in self._runs])
        if not passes_over_damage and (errors := self.damaged()):
            raise errors[0]
        found: dict[Place, list[tuple[TableFile, Run]]] = {}
        for file in files:
            runs = self._runs[file.path]
            for run in () if isinstance(runs, FileError) else runs:
                found.setdefault((file.stream, file.topic, run.partition), []).append((file, run))
        parts: dict[PartitionKey, Sequence[Part]] = {}
        for place, (key, end) in keys_of(self.table, found).items():
            self.ends[key] = end
            ordered = sorted(found[place], key=lambda one: (one[1].start, one[1].end, one[0].path))
            parts[key] = [part_of(file, run, key) for file, run in ordered]
        return parts

    def _look_at(self, files: Sequence[TableFile]) -> None:
        for file in files:
            if (run := _listed_run(file)) is not None:
                self._runs[file.path] = [run]
        merged = [file for file in files if file.path not in self._runs]
        loads = spread(merged, [file.bytes for file in merged], _LOAD_BYTES)
        found = run_tasks(self._spark, partial(runs_at, self.table.place), loads)
        self._runs.update({file.path: runs for file, runs in zip(merged, found, strict=True)})


def keys_of(table: Table, places: Iterable[Place]) -> dict[Place, tuple[PartitionKey, int]]:
    """Return the keys of partitions that a table has messages of, in order, and their recorded ends.

    Raises:
        ArchiveError: The job `archive` has not written the messages.
        StoreError: The table cannot be read.
    """
    ordered = sorted(places)
    reached = table.reached(ordered)
    for stream, topic, partition in ordered:
        if (stream, topic, partition) not in reached:
            what = f"{stream}/{topic}, partition {partition}"
            raise ArchiveError(f"{table.place}: the job `archive` has not written the messages of {what}")
    return {place: (PartitionKey(*place, *reached[place][:2]), reached[place].end) for place in ordered}


def part_of(file: TableFile, run: Run, key: PartitionKey) -> Part:
    """Return a run of messages as a part of a file.

    Args:
        file: The file.
        run: The run.
        key: Its partition.
    """
    return Part(
        key=key,
        file=file,
        start=run.start,
        end=run.end,
        first_timestamp=run.first_timestamp,
        last_timestamp=run.last_timestamp,
    )


def _listed_run(file: TableFile) -> Run | None:
    """Return the only run of a file, if the table shows that there is no other."""
    least, most = file.offsets
    if file.partitions.least != file.partitions.most or most - least + 1 != file.rows:
        return None
    return Run(file.partitions.least, least, most + 1, *file.times)


def runs_of(uri: str, file: TableFile) -> Sequence[Run] | FileError:
    """Return the runs of messages in a file as the table has them, or as `runs_at` finds them.

    Raises:
        StoreError: The store cannot be read.
    """
    run = _listed_run(file)
    return runs_at(uri, file) if run is None else [run]


def runs_at(uri: str, file: TableFile) -> Sequence[Run] | FileError:
    """Return the runs of messages in a file, or why it cannot be read.

    Raises:
        StoreError: The store cannot be read.
    """
    try:
        with opened(Store.open(uri), file) as parquet, named(file):
            found = parquet.read(columns=["partition", "offset", "timestamp"])
    except FileError as error:
        return error
    found = found.sort_by([("partition", "ascending"), ("offset", "ascending")])
    partitions, offsets = (found.column(name).to_numpy() for name in ("partition", "offset"))
    times = found.column("timestamp").cast(pa.int64()).to_numpy()
    breaks = np.flatnonzero((np.diff(partitions) != 0) | (np.diff(offsets) != 1)) + 1
    return [
        Run(
            int(partitions[begin]),
            int(offsets[begin]),
            int(offsets[end - 1]) + 1,
            int(times[begin:end].min()),
            int(times[begin:end].max()),
        )
        for begin, end in pairwise([0, *breaks.tolist(), len(offsets)])
    ]


def read(
    store: Store, files: Sequence[TableFile], partition: int, bounds: tuple[int, int], columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Yield the messages of a range in order.

    Args:
        store: Store of the files.
        files: The files that have messages of the range, in the order of these.
        partition: Partition of the messages.
        bounds: First offset, and the offset after the last one.
        columns: Columns to read, in their order.

    Raises:
        MissingFileError: A file does not exist.
        DamagedFileError: A file cannot be read, or the files do not have each message of the range once.
        StoreError: The store cannot be read.
    """
    following, end = bounds
    names = list(dict.fromkeys(["partition", "offset", *columns]))
    # Statistics say which row groups matter. They have no checksum, so without them if messages seem to be missing.
    for uses_statistics in (True, False):
        waiting: list[pa.RecordBatch] = []
        for file in files:
            with opened(store, file) as parquet, named(file):
                groups = _groups(parquet, partition, (following, end)) if uses_statistics else None
                for batch in parquet.iter_batches(_BATCH_ROWS, row_groups=groups, columns=names):
                    rows = _of_range(batch, partition, (following, end))
                    if rows.num_rows == 0:
                        continue
                    if not waiting and _continues(rows, following):
                        following += rows.num_rows
                        yield rows.select(list(columns))
                    else:
                        # Of merged files. The range of a task fits into memory.
                        waiting.append(rows)
        rest = pa.Table.from_batches(waiting).sort_by("offset").combine_chunks() if waiting else None
        for rows in () if rest is None else rest.to_batches(_BATCH_ROWS):
            if not _continues(rows, following):
                break
            following += rows.num_rows
            yield rows.select(list(columns))
        if following == end:
            return
    paths = ", ".join(file.path for file in files)
    what = f"of the messages {bounds[0]} to {end - 1}, those from {following} on are not all there"
    raise DamagedFileError(paths, what)


@contextmanager
def opened(store: Store, file: TableFile) -> Iterator[pq.ParquetFile]:
    """Open a file with verification of page checksums.

    Raises:
        MissingFileError: The file does not exist.
        DamagedFileError: The file is not Parquet, or has another size.
        StoreError: The store cannot be read.
    """
    try:
        source = store.input(file.path)
    except FileNotFoundError:
        raise MissingFileError(file.path, "is missing") from None
    if source.size() != file.bytes:
        raise DamagedFileError(file.path, f"has {source.size()} bytes, and {file.bytes} in the table")
    with named(file):
        parquet = pq.ParquetFile(source, page_checksum_verification=True)
        parquet.schema_arrow  # noqa: B018 - reads it, which may fail
    with parquet:
        yield parquet


@contextmanager
def named(file: TableFile) -> Iterator[None]:
    """Name the file in errors of reading it."""
    try:
        yield
    except FileNotFoundError:
        # The file was deleted after it was opened.
        raise MissingFileError(file.path, "is missing") from None
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise DamagedFileError(file.path, f"cannot be read: {error}") from error


def _of_range(batch: pa.RecordBatch, partition: int, bounds: tuple[int, int]) -> pa.RecordBatch:
    offsets, partitions = (batch.column(name).to_numpy() for name in ("offset", "partition"))
    wanted = (partitions == partition) & (offsets >= bounds[0]) & (offsets < bounds[1])
    return batch if wanted.all() else batch.filter(pa.array(wanted))


def _continues(rows: pa.RecordBatch, following: int) -> bool:
    offsets = rows.column("offset").to_numpy()
    return bool((offsets == np.arange(following, following + len(offsets))).all())


def _groups(parquet: pq.ParquetFile, partition: int, bounds: tuple[int, int]) -> list[int]:
    """Return the row groups that may have messages of a range."""
    paths = [parquet.schema.column(number).path for number in range(len(parquet.schema))]
    wanted = {"partition": Bounds(partition, partition), "offset": Bounds(bounds[0], bounds[1] - 1)}
    columns = {paths.index(name): bound for name, bound in wanted.items()}
    numbers = []
    for number in range(parquet.metadata.num_row_groups):
        group = parquet.metadata.row_group(number)
        found = [(group.column(column).statistics, bound) for column, bound in columns.items()]
        if all(
            of_it is None or not of_it.has_min_max or (of_it.min <= bound.most and of_it.max >= bound.least)
            for of_it, bound in found
        ):
            numbers.append(number)
    return numbers
