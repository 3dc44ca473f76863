"""Records of the contents of files: lines of text, of JSON and of CSV."""

from __future__ import annotations

import csv
import math
import re
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from headrace_connectors.contract import Record, stable_id
from headrace_connectors.contract.records import HEADER_BYTES_MAX
from headrace_connectors.json_errors import NOT_JSON
from headrace_connectors.json_values import json_value, number
from headrace_connectors.sources.files.followed import Entry, OpenFile
from headrace_connectors.sources.files.lines import Line, LineShape
from headrace_connectors.sources.files.settings import ColumnKind, CsvSettings, FilesSettings

_BOM: Final = "\ufeff"
_PATHS_MAX: Final = 256
_INTEGER: Final = re.compile(r"\s*[+-]?[0-9]+\s*")
_NUMBER: Final = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
"""A number in the form of JSON."""
_BOOLS: Final = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}


class Reader(ABC):
    """Reads records of one file after another."""

    @abstractmethod
    def read(
        self, file: OpenFile, entry: Entry, nonce: str, records_max: int, *, is_complete: bool
    ) -> Sequence[Record]:
        """Read records, and move the entry behind them.

        Args:
            file: The file.
            entry: Place to begin at.
            nonce: Text that ids of this source have, and no others.
            records_max: Maximum number of records.
            is_complete: True if nothing more is expected: the file has not grown for a while.
        """

    @abstractmethod
    def is_finished(self, file: OpenFile, entry: Entry) -> bool:
        """Return whether everything that is in the file was read."""

    def is_changed(self, file: OpenFile, entry: Entry) -> bool:
        """Return whether the file is not the one any more of which a part was read, beyond its first and last KiB."""
        del file, entry
        return False

    def forget(self, number: int) -> None:  # noqa: B027 - optional
        """Forget what is known of a file."""


def file_record(payload: Any, entry: Entry, line: int, identity: Sequence[object], problem: str | None) -> Record:
    """Return a record of a file.

    Args:
        payload: The payload; of a record with a problem, what there is of it.
        entry: The file.
        line: Number of the line or row, from 1.
        identity: What makes the id unique.
        problem: Reason why the record is invalid, if it is.
    """
    return Record(
        payload,
        id=stable_id("files", *identity),
        headers={"file": _header(entry.path), "line": line},
        table=entry.path,
        problem=None if problem is None else f"{entry.path}, line {line}: {problem}",
    )


@lru_cache(_PATHS_MAX)
def _header(path: str) -> str:
    """Return the end of a path that a header has room for."""
    return path.encode(errors="replace")[-HEADER_BYTES_MAX:].decode(errors="ignore")


class LineReader(Reader):
    """A record for each line: its text."""

    def __init__(self, settings: FilesSettings) -> None:
        """Read nothing yet."""
        self._encoding = settings.encoding
        self._size_max = settings.max_line
        self.shape = LineShape("\n".encode(settings.encoding), settings.max_line.bytes)

    def read(
        self, file: OpenFile, entry: Entry, nonce: str, records_max: int, *, is_complete: bool
    ) -> Sequence[Record]:
        """Read lines."""
        records: list[Record] = []
        for line in self.shape.lines(file, entry, is_complete=is_complete):
            if len(records) >= records_max:
                break
            self._take(line, entry, nonce, records)
        return records

    def _take(self, line: Line, entry: Entry, nonce: str, records: list[Record]) -> None:
        entry.offset, entry.is_within_line = line.end, not line.has_end
        if line.kind == "rest":
            return
        entry.line += 1
        if line.kind == "too_long":
            records.append(_record(b"", entry, entry.line, nonce, line, f"it has more than {self._size_max}"))
            return
        try:
            payload = self._payload(line)
        except NOT_JSON as error:
            records.append(_record(line.data, entry, entry.line, nonce, line, self._problem(error)))
            return
        if payload is not None:
            records.append(_record(payload, entry, entry.line, nonce, line, None))

    def _payload(self, line: Line) -> Any:
        return self.text(line).removesuffix("\r")

    def text(self, line: Line) -> str:
        """Return the text of a line.

        Raises:
            UnicodeError: The bytes are not of this encoding.
        """
        text = line.data.decode(self._encoding)
        return text.removeprefix(_BOM) if line.start == 0 else text

    def _problem(self, error: Exception) -> str:
        return f"it is not {self._encoding}: {error}"

    def is_finished(self, file: OpenFile, entry: Entry) -> bool:
        """Return whether the last line was read."""
        return entry.offset >= file.status.st_size


class JsonLineReader(LineReader):
    """A record for each line: the value that it is as JSON. Empty lines are left out."""

    def _payload(self, line: Line) -> Any:
        text = self.text(line)
        # A line `null` is left out like an empty one.
        return json_value(text) if text and not text.isspace() else None

    def _problem(self, error: Exception) -> str:
        return super()._problem(error) if isinstance(error, UnicodeError) else f"it is not JSON: {error}"


class _Row(NamedTuple):
    """A row of CSV, or a line that is none."""

    line: Line
    """Place and bytes."""
    values: Sequence[str]
    """Values; none if the row is blank, or has a problem."""
    lines_count: int
    """Number of lines."""
    problem: str | None


class CsvReader(LineReader):
    """A record for each row: an object with the columns. Rows may have several lines."""

    def __init__(self, settings: FilesSettings) -> None:
        """Read nothing yet."""
        super().__init__(settings)
        self._settings = settings.csv
        self._columns: dict[int, Columns] = {}
        # The limit of the module is a global one, of 128 KiB.
        csv.field_size_limit(max(csv.field_size_limit(), settings.max_line.bytes))

    def forget(self, number: int) -> None:
        """Forget the names of the columns of a file."""
        self._columns.pop(number, None)

    def read(
        self, file: OpenFile, entry: Entry, nonce: str, records_max: int, *, is_complete: bool
    ) -> Sequence[Record]:
        """Read rows."""
        records: list[Record] = []
        columns = self._columns_of(file, entry, is_complete=is_complete)
        if columns is None:
            return records
        for line, values, count, problem in self._rows(file, entry, is_complete=is_complete):
            if len(records) >= records_max:
                break
            number = entry.line + 1
            entry.offset, entry.is_within_line, entry.line = line.end, not line.has_end, entry.line + count
            if line.kind == "rest" or (problem is None and not values):
                continue
            if number == 1 and not self._settings.columns:
                continue
            payload, found = columns.row(values) if problem is None else (None, problem)
            records.append(_record(line.data if found else payload, entry, number, nonce, line, found))
        return records

    def _columns_of(self, file: OpenFile, entry: Entry, *, is_complete: bool) -> Columns | None:
        """Return the columns of a file; None: its first row is not complete."""
        if entry.number not in self._columns:
            settings, names, problem = self._settings, self._settings.columns, None
            if not names:
                first = next(self._rows(file, entry.beginning(), is_complete=is_complete), None)
                if first is None:
                    return None
                names, problem = tuple(first.values), first.problem
            columns = Columns(names, settings, problem)
            if columns.problem is not None:
                # The file may be corrected.
                return columns
            self._columns[entry.number] = columns
        return self._columns[entry.number]

    def _rows(self, file: OpenFile, entry: Entry, *, is_complete: bool) -> Iterator[_Row]:
        first: Line | None = None
        texts: list[str] = []
        problem: str | None = None
        for line in self.shape.lines(file, entry, is_complete=is_complete):
            text, problem = self._text_of(line)
            if problem is not None:
                if first is not None:
                    yield _Row(first, [], 1, _UNCLOSED)
                    return
                yield _Row(line, [], 0 if line.kind == "rest" else 1, problem)
                continue
            values: Sequence[str] = []
            if first is not None and self._settings.quote not in text:
                problem = _UNCLOSED
            else:
                values, problem = parsed("\n".join((*texts, text)), self._settings)
            if first is None and problem is None:
                # A row is a line, as nearly all are.
                yield _Row(line, values, 1, None)
                continue
            first = first or line
            texts.append(text)
            whole = Line(first.start, line.end, line.data if first is line else b"", "line")
            if problem == _UNCLOSED and whole.end - whole.start <= self.shape.size_max:
                continue
            if problem == _UNCLOSED:
                # Of the first line alone; the others are read as rows of their own.
                yield _Row(first, [], 1, problem)
                return
            yield _Row(whole, values, len(texts), problem)
            first, texts = None, []
        if first is not None and is_complete:
            yield _Row(first, [], 1, problem)

    def _text_of(self, line: Line) -> tuple[str, str | None]:
        if line.kind != "line":
            return "", f"it has more than {self._size_max}"
        try:
            return self.text(line), None
        except UnicodeError as error:
            return "", self._problem(error)


class Columns:
    """Columns of a file.

    Args:
        names: Their names.
        settings: Their types.
        problem: Reason why the first row of the file cannot be read.
    """

    def __init__(self, names: Sequence[str], settings: CsvSettings, problem: str | None) -> None:
        self._names = names
        self._settings = settings
        self._kinds: list[ColumnKind] = [settings.types.get(name, "text") for name in names]
        missing = next((name for name in settings.types if name not in names), None)
        if problem is not None:
            self.problem: str | None = f"the first row cannot be read: {problem}"
        elif len(set(names)) != len(names):
            self.problem = "the first row has a name twice: name the columns in csv.columns"
        elif missing is not None:
            self.problem = f"the first row has no column {missing}, which csv.types names"
        else:
            self.problem = None

    def row(self, values: Sequence[str]) -> tuple[dict[str, Any] | None, str | None]:
        """Return the object of a row, or what is wrong with it."""
        if self.problem is not None:
            return None, self.problem
        if len(values) != len(self._names):
            return None, f"it has {len(values)} values, and there are {len(self._names)} columns"
        row = {}
        for name, kind, value in zip(self._names, self._kinds, values, strict=True):
            try:
                row[name] = _converted(value, kind)
            except (ValueError, KeyError):
                return None, f"{name} = {value!r} is no {kind}"
        return row, None


_UNCLOSED: Final = "a quote is not closed"


def parsed(text: str, settings: CsvSettings) -> tuple[Sequence[str], str | None]:
    """Return the values of a row, none if it is empty or blank, or what is wrong with it."""
    if not text or text.isspace():
        return [], None
    try:
        return next(csv.reader([text], delimiter=settings.delimiter, quotechar=settings.quote, strict=True), []), None
    except csv.Error as error:
        return [], _UNCLOSED if "unexpected end of data" in str(error) else str(error)


def _converted(text: str, kind: ColumnKind) -> Any:
    if kind == "text":
        return text
    if not text:
        return None
    if kind == "bool":
        return _BOOLS[text.lower()]
    if kind == "int":
        # Python reads digits of other scripts, and underscores between them.
        if not _INTEGER.fullmatch(text):
            raise ValueError("no whole number")
        return int(text)
    if found := _NUMBER.fullmatch(text):
        return number(text if found[2] or found[3] else f"{text}.0")
    value = float(text)
    # JSON has no infinity and no NaN: they are text, as those of databases are.
    return value if math.isfinite(value) else text


def _record(payload: Any, entry: Entry, number: int, nonce: str, line: Line, problem: str | None) -> Record:
    identity = (nonce, entry.number, line.start, line.end, zlib.crc32(line.data))
    return file_record(payload, entry, number, identity, problem)
