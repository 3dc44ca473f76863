"""Writer of archive files for messages of one partition."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pyspark_headrace.columns.digest import digest, total
from pyspark_headrace.jobs.tables.encoding import encoding
from pyspark_headrace.jobs.tables.files import RAW, ArchivedFile, PartitionKey, date_of, new_path
from pyspark_headrace.jobs.tables.footers import footer
from pyspark_headrace.jobs.tables.handles import Output
from pyspark_headrace.jobs.tables.stores import Store

_DAY_MICROS: Final = 86_400_000_000
_ROW_GROUP_BYTES: Final = (1 << 16, 32 << 20)
"""Minimum and maximum size of a row group, uncompressed."""
_GROUPS_PER_FILE: Final = 8


@dataclass(frozen=True, kw_only=True)
class FileOptions:
    """Options of files."""

    target_bytes: int = 128 << 20
    """Size at which a file is finished."""
    compression: str = "zstd"
    """``none``, ``snappy``, ``lz4``, ``gzip``, ``zstd`` or ``brotli``."""
    compression_level: int | None = 3
    """None: default of the codec. Ignored by codecs without levels."""
    use_dictionary: bool | None = None
    """None: use dictionaries for columns whose values repeat. For other columns dictionaries only cost time."""
    mode: str = RAW

    @property
    def row_group_bytes(self) -> int:
        """Size at which a row group is written."""
        least, most = _ROW_GROUP_BYTES
        return min(max(self.target_bytes // _GROUPS_PER_FILE, least), most)


class RangeWriter:
    """Writer of one partition's messages, in offset order, into one or more files.

    A new file starts with each UTC day and at the target size. Files are invisible until they are committed;
    uncommitted files become orphans.
    """

    def __init__(self, store: Store, key: PartitionKey, end: int, options: FileOptions) -> None:
        """Create a writer.

        Args:
            store: Store of the files.
            key: Partition of the messages.
            end: Offset after the last possible message; part of file names.
            options: File options.
        """
        self._store = store
        self._key = key
        self._end = end
        self._options = options
        self._open: FileWriter | None = None
        self._done: list[ArchivedFile] = []
        self._next_offset = 0

    def write(self, rows: pa.RecordBatch, messages: pa.RecordBatch | None = None) -> None:
        """Write rows.

        Args:
            rows: Rows of the files, with the same schema in each call.
            messages: The same messages with `offset`, `timestamp`, `key` and `value`, unless `rows` has these columns.

        Raises:
            ValueError: Offsets do not increase, or exceed the end.
            StoreError: The rows cannot be written.
        """
        described = rows if messages is None else messages
        for begin, end, date in self._days(described):
            if self._open is not None and self._open.date != date:
                self._end_file()
            if self._open is None:
                self._open = FileWriter(self._store, self._key, self._end, self._options, date, rows.schema)
            part = described.slice(begin, end - begin)
            self._open.add(rows.slice(begin, end - begin), part, digest(part))
            if self._open.size_bytes >= self._options.target_bytes:
                self._end_file()

    def close(self) -> list[ArchivedFile]:
        """Finish the last file.

        Returns:
            All files, to be committed.

        Raises:
            StoreError: The file cannot be written.
        """
        if self._open is not None:
            self._end_file()
        return self._done

    def abandon(self) -> None:
        """Discard the open file. Earlier files become orphans."""
        if self._open is not None:
            self._open.abandon()
            self._open = None

    def _days(self, messages: pa.RecordBatch) -> Iterator[tuple[int, int, str]]:
        if not messages.num_rows:
            return
        offsets = messages.column("offset").to_numpy()
        if offsets[0] < self._next_offset or (np.diff(offsets) < 1).any():
            raise ValueError(f"{self._key.title}: offsets do not rise after {self._next_offset - 1}")
        self._next_offset = int(offsets[-1]) + 1
        if self._next_offset > self._end:
            raise ValueError(f"{self._key.title}: there is an offset {self._next_offset - 1}, beyond {self._end}")
        times = _micros(messages)
        days = times // _DAY_MICROS
        bounds = [0, *(np.flatnonzero(np.diff(days)) + 1).tolist(), messages.num_rows]
        for begin, end in pairwise(bounds):
            yield begin, end, date_of(int(times[begin]))

    def _end_file(self) -> None:
        if self._open is not None:
            self._done.append(self._open.close())
            self._open = None


class FileWriter:
    """Writer of one file: messages of one partition and one day, in offset order."""

    def __init__(
        self, store: Store, key: PartitionKey, planned_end: int, options: FileOptions, date: str, schema: pa.Schema
    ) -> None:
        """Create a writer.

        Args:
            store: Store of the file.
            key: Partition of the messages.
            planned_end: Offset after the last possible message; part of the file name.
            options: File options.
            date: Date of all messages.
            schema: Schema of the rows.
        """
        self._store = store
        self._key = key
        self._planned_end = planned_end
        self._options = options
        self._schema = schema
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_bytes = 0
        self._output: Output | None = None
        self._writer: pq.ParquetWriter | None = None
        self._path = ""
        self._start = self._end = self._rows = self._digest = 0
        self._times = (0, 0)
        self.date = date

    @property
    def size_bytes(self) -> int:
        """Number of bytes written so far."""
        return self._output.size_bytes if self._output is not None else 0

    def add(self, rows: pa.RecordBatch, messages: pa.RecordBatch, of_them: int) -> None:
        """Write rows.

        Args:
            rows: Rows of the file.
            messages: The same messages with `offset` and `timestamp`.
            of_them: Digest of the messages.
        """
        offsets, times = messages.column("offset"), _micros(messages)
        if self._rows == 0:
            self._start = offsets[0].as_py()
            self._times = (int(times[0]), 0)
        self._end = offsets[-1].as_py() + 1
        self._times = (self._times[0], int(times[-1]))
        self._rows += rows.num_rows
        self._digest = total((self._digest, of_them))
        self._waiting.append(rows)
        self._waiting_bytes += rows.nbytes
        if self._waiting_bytes >= self._options.row_group_bytes:
            self._write_group()

    def close(self) -> ArchivedFile:
        """Finish the file, which must have at least one row.

        Raises:
            StoreError: The file cannot be written.
        """
        self._write_group()
        assert self._writer is not None  # noqa: S101 - a file has rows
        assert self._output is not None  # noqa: S101
        file = ArchivedFile(
            path=self._path,
            **self._key._asdict(),
            start=self._start,
            end=self._end,
            rows=self._rows,
            bytes=0,
            first_timestamp=self._times[0],
            last_timestamp=self._times[1],
            digest=self._digest,
            date=self.date,
            mode=self._options.mode,
        )
        self._writer.add_key_value_metadata(footer(file))
        self._writer.close()
        self._output.close()
        return replace(file, bytes=self._output.size_bytes)

    def abandon(self) -> None:
        """Discard the file."""
        if self._output is not None:
            self._output.abandon()

    def _write_group(self) -> None:
        if not self._waiting:
            return
        group = pa.Table.from_batches(self._waiting)
        if self._writer is None:
            self._path = new_path(self._key, self.date, self._start, self._planned_end)
            self._output = self._store.output(self._path)
            self._writer = _parquet(self._output, self._schema, self._options, group)
        self._writer.write_table(group, row_group_size=group.num_rows)
        self._waiting.clear()
        self._waiting_bytes = 0


def _parquet(output: Output, schema: pa.Schema, options: FileOptions, first: pa.Table) -> pq.ParquetWriter:
    level = options.compression_level if options.compression in {"zstd", "gzip", "brotli"} else None
    return pq.ParquetWriter(
        output,
        schema,
        compression=options.compression,
        compression_level=level,
        write_page_checksum=True,
        write_page_index=True,
        **encoding(first, use_dictionary=options.use_dictionary),
    )


def _micros(messages: pa.RecordBatch) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return messages.column("timestamp").cast(pa.int64()).to_numpy()  # type: ignore[no-any-return]
