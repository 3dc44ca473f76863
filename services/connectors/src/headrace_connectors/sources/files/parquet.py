"""Records of Parquet files. Its package is imported by sources that read them alone."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
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
            rows = list(_values(self._rows(file, entry, records_max)))
        except (pa.ArrowException, OSError, EOFError) as error:
            if not is_complete:
                # The end of the file is written last.
                return ()
            entry.offset = size
            problem = f"it is not Parquet, or damaged: {_text(error)}"
            record = file_record(b"", entry, max(entry.line, 0) + 1, (nonce, entry.number, entry.line), problem)
            entry.line = _UNREADABLE
            return (record,)
        first = entry.line
        entry.offset, entry.line = size, first + len(rows)
        return [
            file_record(value, entry, number + 1, (nonce, entry.number, number), problem)
            for number, (value, problem) in enumerate(rows, start=first)
        ]

    def is_finished(self, file: OpenFile, entry: Entry) -> bool:
        """Return whether the last row was read, or none can be."""
        del file
        return entry.line == _UNREADABLE or entry.line == self._rows_counts.get(entry.number)

    def is_changed(self, file: OpenFile, entry: Entry) -> bool:
        """Return whether the size of the file is another one than when its rows were read."""
        return entry.offset not in (0, file.status.st_size)

    def _rows(self, file: OpenFile, entry: Entry, records_max: int) -> Any:
        """Return a table with the next rows; None: there are no more."""
        group = self._group
        if group is None or group.number != entry.number or not group.start <= entry.line < _end(group):
            group = self._group = self._read_group(file, entry)
        return None if group is None else group.table.slice(entry.line - group.start, records_max)

    def _read_group(self, file: OpenFile, entry: Entry) -> _Group | None:
        with os.fdopen(os.dup(file.descriptor), "rb") as opened, pq.ParquetFile(opened) as found:
            self._rows_counts[entry.number] = found.metadata.num_rows
            start = 0
            for index in range(found.metadata.num_row_groups):
                count = found.metadata.row_group(index).num_rows
                if start <= entry.line < start + count:
                    table = found.read_row_group(index)
                    # Times of Python have no nanoseconds: those of the file are cut, and not refused.
                    schema = pa.schema([field.with_type(_in_micros(field.type)) for field in table.schema])
                    return _Group(entry.number, start, table.cast(schema, safe=False))
                start += count
        return None


def _end(group: _Group) -> int:
    return group.start + int(group.table.num_rows)


def _in_micros(kind: Any) -> Any:
    """Return a type of Arrow with microseconds in the place of nanoseconds, also within lists and objects."""
    types = pa.types
    if types.is_timestamp(kind) and kind.unit == "ns":
        return pa.timestamp("us", kind.tz)
    if types.is_time64(kind):
        return pa.time64("us")
    if types.is_duration(kind) and kind.unit == "ns":
        return pa.duration("us")
    if types.is_struct(kind):
        return pa.struct([field.with_type(_in_micros(field.type)) for field in kind])
    if types.is_map(kind):
        return pa.map_(_in_micros(kind.key_type), kind.item_field.with_type(_in_micros(kind.item_type)))
    if types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_in_micros(kind.value_type)))
    if types.is_large_list(kind):
        return pa.large_list(kind.value_field.with_type(_in_micros(kind.value_type)))
    if types.is_fixed_size_list(kind):
        return pa.list_(kind.value_field.with_type(_in_micros(kind.value_type)), kind.list_size)
    return kind


def _values(table: Any) -> Iterator[tuple[Any, str | None]]:
    """Return the rows of a table as objects, each with its problem; one by one if any of them is none for Python.

    Raises:
        ArrowException: The table is damaged.
    """
    if table is None:
        return
    try:
        rows = table.to_pylist()
    except pa.ArrowException:
        raise
    except (ValueError, OverflowError) as error:
        # A date after the year 9999, or text that is not UTF-8.
        if table.num_rows == 1:
            yield b"", f"a value cannot be read: {_text(error)}"
            return
        for index in range(table.num_rows):
            yield from _values(table.slice(index, 1))
        return
    for row in rows:
        yield row, None


def _text(error: Exception) -> str:
    return " ".join(str(error).split())
