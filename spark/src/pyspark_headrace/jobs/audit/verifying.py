"""Verification of an archive file, in a task."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from pyspark_headrace.columns.digest import digest, total
from pyspark_headrace.jobs.tables.archive import Archive
from pyspark_headrace.jobs.tables.errors import DamagedFileError, MissingFileError
from pyspark_headrace.jobs.tables.files import RAW, ArchivedFile, date_of
from pyspark_headrace.jobs.tables.footers import differences
from pyspark_headrace.jobs.tables.reading import opened

_DAY_MICROS: Final = 86_400_000_000


class Problem(NamedTuple):
    """A defect of a file."""

    what: str
    offset: int | None = None
    """Offset of the affected message, if any."""


def verified_at(uri: str, file: ArchivedFile) -> list[Problem]:
    """Run `verified` in a task, given the URI of the archive."""
    return verified(Archive.open(uri), file)


def verified(archive: Archive, file: ArchivedFile) -> list[Problem]:
    """Read a complete file and compare it with its description in the log.

    Raises:
        StoreError: The archive cannot be read.
    """
    problems: list[Problem] = []
    try:
        with opened(archive.store, file, any_footer=True) as parquet:
            wrong = differences(parquet.metadata.metadata or {}, file)
            problems += [Problem(one) for one in wrong]
        problems += _rows(archive, file)
    except (MissingFileError, DamagedFileError) as error:
        problems.append(Problem(error.what))
    return problems


def _rows(archive: Archive, file: ArchivedFile) -> list[Problem]:
    problems: list[Problem] = []
    wanted = ["offset", "timestamp", *(("key", "value") if file.mode == RAW else ())]
    found, rows, position = 0, 0, file.start - 1
    with opened(archive.store, file, any_footer=True) as parquet:
        missing = [name for name in wanted if name not in parquet.schema_arrow.names]
        if missing:
            return [Problem(f"has no column {', '.join(missing)}")]
        try:
            # Read all columns, because each page has its own checksum.
            for batch in parquet.iter_batches():
                problems += _order(file, batch, position)
                position = batch.column("offset")[-1].as_py()
                rows += batch.num_rows
                found = total((found, digest(batch))) if file.mode == RAW else 0
        except (pa.ArrowException, OSError, ValueError) as error:
            return [*problems, Problem(f"cannot be read behind offset {position}: {error}", position + 1)]
    if rows != file.rows:
        problems.append(Problem(f"has {rows} rows, and {file.rows} in the log"))
    if file.mode == RAW and found != file.digest:
        problems.append(Problem(f"digest of its messages is {found:016x}, and {file.digest:016x} in the log"))
    return problems


def _order(file: ArchivedFile, batch: pa.RecordBatch, before: int) -> list[Problem]:
    """Return the first message that is out of order, if any."""
    offsets = batch.column("offset").to_numpy()
    times = batch.column("timestamp").cast(pa.int64()).to_numpy()
    wrong = np.flatnonzero((np.diff(offsets, prepend=before) < 1) | (offsets >= file.end))
    if wrong.size:
        offset = int(offsets[wrong[0]])
        return [Problem(f"offset {offset} is not where it belongs", offset)]
    other = np.flatnonzero(times // _DAY_MICROS != _day(file))
    if other.size:
        offset = int(offsets[other[0]])
        return [Problem(f"message {offset} is of {date_of(int(times[other[0]]))}, and not of {file.date}", offset)]
    return []


def _day(file: ArchivedFile) -> int:
    return int(np.datetime64(file.date).astype("datetime64[D]").astype(np.int64))
