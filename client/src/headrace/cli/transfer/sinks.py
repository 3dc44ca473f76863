"""Files that messages are exported to. What follows the last commit of an interrupted export is cut off."""

from __future__ import annotations

import csv
import io
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from headrace.cli import output
from headrace.cli.documents import MessageDocument
from headrace.cli.errors import CommandError
from headrace.cli.messages.message_output import document
from headrace.cli.transfer.state import PYARROW_IS_MISSING, FileForm, sync_directory
from headrace_core import Message

_CSV_COLUMNS: Final = (
    "partition",
    "offset",
    "timestamp_micros",
    "origin_timestamp_micros",
    "id",
    "payload",
    "payload_base64",
    "key",
    "key_base64",
    "headers",
    "user_headers",
)
_ADDED_COLUMN: Final = "user_headers"
"""Last column, which files that an earlier release has begun do not have."""


class Sink(ABC):
    """A file, or a directory of files."""

    @abstractmethod
    def write(self, partition: int, messages: list[Message]) -> None:
        """Add messages, which may not be on the disk before the next commit."""

    @abstractmethod
    def commit(self) -> int:
        """Have everything on the disk, and return the position that the next export continues at."""

    @abstractmethod
    def close(self) -> None:
        """Close the file; what was not committed may be lost."""


def opened(form: FileForm, path: Path, position: int) -> Sink:
    """Open a sink at the position of the last commit, 0 for a new one.

    Raises:
        CommandError: It cannot be written, or has become shorter.
    """
    try:
        match form:
            case FileForm.JSONL:
                return _JsonLines(path, position)
            case FileForm.CSV:
                return _Csv(path, position)
            case FileForm.PARQUET:
                return _Parquet(path, position)
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {error.strerror}") from error


class _File(Sink):
    """A file that grows at its end; positions are sizes in bytes."""

    def __init__(self, path: Path, position: int) -> None:
        self._file = path.open("r+b" if position else "wb")
        size_bytes = self._file.seek(0, os.SEEK_END)
        if size_bytes < position:
            self._file.close()
            raise CommandError(
                f"{path} has {size_bytes:,} bytes, and had {position:,}: remove its state to begin again"
            )
        self._file.truncate(position)
        self._file.seek(position)
        self._path = path

    def commit(self) -> int:
        self._file.flush()
        os.fsync(self._file.fileno())
        sync_directory(self._path.parent)
        return self._file.tell()

    def close(self) -> None:
        self._file.close()


class _JsonLines(_File):
    """An object for each message."""

    def write(self, partition: int, messages: list[Message]) -> None:
        lines = (output.to_json(document(partition, message)) + "\n" for message in messages)
        self._file.write("".join(lines).encode())


class _Csv(_File):
    """A row for each message; headers are a JSON object."""

    def __init__(self, path: Path, position: int) -> None:
        super().__init__(path, position)
        self._columns: Sequence[str] = _CSV_COLUMNS
        if position == 0:
            self._write_rows([_CSV_COLUMNS])
        else:
            self._file.seek(0)
            if not self._file.readline().rstrip().endswith(f",{_ADDED_COLUMN}".encode()):
                self._columns = _CSV_COLUMNS[:-1]
            self._file.seek(position)

    def write(self, partition: int, messages: list[Message]) -> None:
        self._write_rows([self._row(document(partition, message)) for message in messages])

    def _row(self, found: MessageDocument) -> list[object]:
        _check_columns(self._path, found, self._columns)
        fields = {**found, "headers": _headers_text(found) or ""}
        return [fields.get(column, "") for column in self._columns]

    def _write_rows(self, rows: list[Any]) -> None:
        text = io.StringIO(newline="")
        csv.writer(text).writerows(rows)
        self._file.write(text.getvalue().encode())


class _Parquet(Sink):
    """A directory of files, because a Parquet file cannot grow; positions are numbers of files."""

    def __init__(self, path: Path, position: int) -> None:
        try:
            import pyarrow  # noqa: PLC0415
            import pyarrow.parquet  # noqa: PLC0415
        except ImportError as error:
            raise CommandError(PYARROW_IS_MISSING) from error
        self._arrow: Any = pyarrow
        self._schema = pyarrow.schema(
            [
                ("partition", pyarrow.uint32()),
                ("offset", pyarrow.uint64()),
                ("timestamp", pyarrow.timestamp("us", "UTC")),
                ("id", pyarrow.string()),
                ("payload", pyarrow.binary()),
                ("key", pyarrow.binary()),
                ("headers", pyarrow.string()),
                (_ADDED_COLUMN, pyarrow.binary()),
            ]
        )
        self._path = path
        self._count = position
        self._rows: list[dict[str, object]] = []
        path.mkdir(exist_ok=True)
        for part in parts(path)[position:]:
            part.unlink()
        if any(_ADDED_COLUMN not in self._columns_of(part) for part in parts(path)[-1:]):
            # All files of a directory have the same columns, as other readers of them expect.
            self._schema = self._schema.remove(len(self._schema) - 1)

    def _columns_of(self, part: Path) -> list[str]:
        try:
            names: list[str] = self._arrow.parquet.read_schema(part).names
        except self._arrow.ArrowInvalid as error:
            raise CommandError(f"{part} is not Parquet ({error}): --overwrite begins again") from error
        return names

    def write(self, partition: int, messages: list[Message]) -> None:
        self._rows += [self._row(partition, message) for message in messages]

    def _row(self, partition: int, message: Message) -> dict[str, object]:
        found = document(partition, message)
        _check_columns(self._path, found, self._schema.names)
        return {
            "partition": partition,
            "offset": message.offset,
            "timestamp": message.timestamp_micros,
            "id": str(message.id),
            "payload": message.payload,
            "key": message.key,
            "headers": _headers_text(found),
            _ADDED_COLUMN: message.user_headers if _ADDED_COLUMN in found else None,
        }

    def commit(self) -> int:
        if self._rows:
            final = self._path / f"part-{self._count:06}.parquet"
            temporary = self._path / ".part.new"
            table = self._arrow.Table.from_pylist(self._rows, schema=self._schema)
            self._arrow.parquet.write_table(table, temporary)
            with temporary.open("rb") as file:
                os.fsync(file.fileno())
            temporary.replace(final)
            sync_directory(self._path)
            self._rows = []
            self._count += 1
        return self._count

    def close(self) -> None:
        (self._path / ".part.new").unlink(missing_ok=True)


def parts(directory: Path) -> list[Path]:
    """Return the files of an export to Parquet, in order."""
    return sorted(directory.glob("part-*.parquet"))


def _check_columns(path: Path, found: MessageDocument, columns: Sequence[str]) -> None:
    """Refuse a message that the file of an export that an earlier release has begun has no column for."""
    if _ADDED_COLUMN in found and _ADDED_COLUMN not in columns:
        raise CommandError(
            f"{path} was begun by an earlier release, without the column {_ADDED_COLUMN} for headers that cannot be "
            f"read, which message {found['partition']}:{found['offset']} has: --overwrite begins again"
        )


def _headers_text(found: MessageDocument) -> str | None:
    return json.dumps(found["headers"], ensure_ascii=False) if "headers" in found else None
