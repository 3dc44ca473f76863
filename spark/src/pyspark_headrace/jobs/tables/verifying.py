"""Verification of an archive file, in a task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from pyspark_headrace.columns.digest import digest, total
from pyspark_headrace.jobs.tables.columns import RAW_SCHEMA
from pyspark_headrace.jobs.tables.errors import FileError
from pyspark_headrace.jobs.tables.files import date_of
from pyspark_headrace.jobs.tables.footers import described_in
from pyspark_headrace.jobs.tables.reading import Part, named, opened
from pyspark_headrace.jobs.tables.stores import Store
from pyspark_headrace.jobs.tables.table import TableFile

_DAY_MICROS: Final = 86_400_000_000


class Problem(NamedTuple):
    """A defect of a file."""

    what: str
    offset: int | None = None
    """Offset of the affected message, if any."""


@dataclass(frozen=True)
class Verifying:
    """A file, and the messages that it has according to its table."""

    uri: str
    file: TableFile
    parts: Sequence[Part]
    is_raw: bool

    def verified(self) -> Verified:
        """Read the complete file.

        Raises:
            StoreError: The archive cannot be read.
        """
        found = Verified([0] * len(self.parts))
        try:
            with opened(Store.open(self.uri), self.file) as parquet, named(self.file):
                wanted = RAW_SCHEMA if self.is_raw else RAW_SCHEMA.remove(RAW_SCHEMA.get_field_index("value"))
                columns = parquet.schema_arrow
                if any(columns.get_field_index(one.name) < 0 or columns.field(one.name) != one for one in wanted):
                    named_columns = ", ".join(f"{one.name}: {one.type}" for one in columns)
                    return found.with_problem(f"its columns are {named_columns}")
                counts = np.zeros(len(self.parts), np.int64)
                # Read all columns, because each page has its own checksum.
                for batch in parquet.iter_batches():
                    self._take(batch, counts, found)
                self._counted(counts, found)
                self._footer(described_in(parquet.metadata.metadata or {}), found)
        except FileError as error:
            found.with_problem(error.what)
        except (KeyError, ValueError) as error:
            found.with_problem(f"cannot be read: {error}")
        return found

    def _take(self, batch: pa.RecordBatch, counts: np.ndarray, found: Verified) -> None:
        offsets, partitions = (batch.column(name).to_numpy() for name in ("offset", "partition"))
        times = batch.column("timestamp").cast(pa.int64()).to_numpy()
        numbers = np.full(len(offsets), -1)
        for number, part in enumerate(self.parts):
            is_of_it = (partitions == part.key.partition) & (offsets >= part.start) & (offsets < part.end)
            if not is_of_it.any():
                continue
            numbers[is_of_it] = number
            counts[number] += is_of_it.sum()
            if self.is_raw:
                rows = batch if is_of_it.all() else batch.filter(pa.array(is_of_it))
                found.digests[number] = total((found.digests[number], digest(rows)))
        other = np.flatnonzero(numbers < 0)
        if other.size:
            offset = int(offsets[other[0]])
            found.with_problem(f"offset {offset} is not where it belongs", offset)
        wrong = np.flatnonzero(times // _DAY_MICROS != _day(self.file))
        if wrong.size:
            offset, date = int(offsets[wrong[0]]), date_of(int(times[wrong[0]]))
            found.with_problem(f"message {offset} is of {date}, and not of {self.file.date}", offset)

    def _counted(self, counts: np.ndarray, found: Verified) -> None:
        for part, count in zip(self.parts, counts.tolist(), strict=True):
            if count != part.end - part.start:
                found.with_problem(f"has {count} of the messages {part.start} to {part.end - 1}", part.start)

    def _footer(self, described: dict[str, str], found: Verified) -> None:
        """Compare the file with what the task that wrote it has noted in it. Merged files have no such notes."""
        if not described:
            return
        key = self.parts[0].key
        expected = {
            "stream": key.stream,
            "topic": key.topic,
            "partition": key.partition,
            "incarnation": key.incarnation,
            "generation": key.generation,
            "start": self.parts[0].start,
            "end": self.parts[-1].end,
            "rows": self.file.rows,
        }
        if self.is_raw:
            expected["digest"] = f"{total(found.digests):016x}"
        for name, value in expected.items():
            if described.get(name) != str(value):
                found.with_problem(f"{name} is {described.get(name)} in its footer, and {value} in fact")


@dataclass
class Verified:
    """Result of a verification."""

    digests: list[int]
    """Digest of each part; 0 for decoded values."""
    problems: list[Problem] = field(default_factory=list)

    def with_problem(self, what: str, offset: int | None = None) -> Verified:
        """Note a defect."""
        self.problems.append(Problem(what, offset))
        return self


def _day(file: TableFile) -> int:
    return int(np.datetime64(file.date).astype("datetime64[D]").astype(np.int64))
