"""Records of Parquet files. Its package is imported by sources that read them alone."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from headrace_connectors.contract import Record
from headrace_connectors.sources.files.followed import Entry, OpenFile
from headrace_connectors.sources.files.readers import Reader, file_record

_UNREADABLE = -1


class _Group(NamedTuple):
    number: int
    """Number of the file."""
    start: int
    """Row of the file at which the group begins."""
    table: Any


class ParquetReader(Reader):
    """A record for each row. One group of rows is in memory at a time."""

    def __init__(self) -> None:
        """Read nothing yet."""
        self._rows_counts: dict[int, int] = {}
        self._group: _Group | None = None

    def forget(self, number: int) -> None:
        """Forget the rows of a file."""
        self._rows_counts.pop(number, None)
        if self._group is not None and self._group.number == number:
            self._group = None

    def read(
        self, file: OpenFile, entry: Entry, nonce: str, records_max: int, *, is_complete: bool
    ) -> Sequence[Record]:
        """Read rows of one group."""
        size = file.status.st_size
        if entry.line == _UNREADABLE or (entry.offset == size and entry.line == self._rows_counts.get(entry.number)):
            return ()
        try:
            rows = self._rows(file, entry, records_max)
        except (pa.ArrowException, OSError, EOFError) as error:
            if not is_complete:
                # The end of the file is written last.
                return ()
            entry.offset = size
            problem = f"it is not Parquet, or damaged: {' '.join(str(error).split())}"
            record = file_record(b"", entry, max(entry.line, 0) + 1, (nonce, entry.number, entry.line), problem)
            entry.line = _UNREADABLE
            return (record,)
        first = entry.line
        entry.offset, entry.line = size, first + len(rows)
        return [
            file_record(row, entry, number + 1, (nonce, entry.number, number), None)
            for number, row in enumerate(rows, start=first)
        ]

    def is_finished(self, file: OpenFile, entry: Entry) -> bool:
        """Return whether the last row was read, or none can be."""
        del file
        return entry.line == _UNREADABLE or entry.line == self._rows_counts.get(entry.number)

    def is_changed(self, file: OpenFile, entry: Entry) -> bool:
        """Return whether the size of the file is another one than when its rows were read."""
        return entry.offset not in (0, file.status.st_size)

    def _rows(self, file: OpenFile, entry: Entry, records_max: int) -> list[dict[str, Any]]:
        group = self._group
        if group is None or group.number != entry.number or not group.start <= entry.line < _end(group):
            group = self._group = self._read_group(file, entry)
        if group is None:
            return []
        rows: list[dict[str, Any]] = group.table.slice(entry.line - group.start, records_max).to_pylist()
        return rows

    def _read_group(self, file: OpenFile, entry: Entry) -> _Group | None:
        with os.fdopen(os.dup(file.descriptor), "rb") as opened, pq.ParquetFile(opened) as found:
            self._rows_counts[entry.number] = found.metadata.num_rows
            start = 0
            for index in range(found.metadata.num_row_groups):
                count = found.metadata.row_group(index).num_rows
                if start <= entry.line < start + count:
                    return _Group(entry.number, start, found.read_row_group(index))
                start += count
        return None


def _end(group: _Group) -> int:
    return group.start + int(group.table.num_rows)
