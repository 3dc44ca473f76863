"""Files of the trail: JSON lines, appended to the newest file of a series.

Files are numbered in the order of their creation. A full file is followed by the next number, and the oldest file is
deleted when there are too many. An incomplete line that a crash left at the end is truncated.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from headrace_chassis.directories import make_directory, sync_directory

_SUFFIX: Final = ".jsonl"
_DIGITS: Final = 10


class Series:
    """Files of one kind of records. Not safe for use by two threads at a time."""

    def __init__(self, directory: Path, name: str, *, file_bytes_max: int, files_max: int) -> None:
        """Describe the series; no file is opened before the first append.

        Args:
            directory: Directory of the files; created if missing.
            name: Prefix of the file names.
            file_bytes_max: Size in bytes at which a file is full.
            files_max: Maximum number of files; the oldest one is deleted beyond it.
        """
        self._directory = directory
        self._name = name
        self._file_bytes_max = file_bytes_max
        self._files_max = files_max
        self._descriptor = -1
        self._size_bytes = 0

    def add(self, lines: Sequence[bytes]) -> None:
        """Append lines, each including its line end. The lines are synced to the device when this returns.

        Raises:
            OSError: The lines may be missing or incomplete.
        """
        for chunk in self._chunks(lines):
            if self._descriptor < 0:
                self._open()
            if self._size_bytes and self._size_bytes + len(chunk) > self._file_bytes_max:
                self._begin_next()
            self._write(chunk)
        os.fdatasync(self._descriptor)

    def close(self) -> None:
        """Close the newest file, if it is open."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _chunks(self, lines: Sequence[bytes]) -> Iterator[bytes]:
        chunk = bytearray()
        for line in lines:
            if chunk and len(chunk) + len(line) > self._file_bytes_max:
                yield bytes(chunk)
                chunk.clear()
            chunk += line
        if chunk:
            yield bytes(chunk)

    def _write(self, chunk: bytes) -> None:
        try:
            while chunk:
                written = os.write(self._descriptor, chunk)
                self._size_bytes += written
                chunk = chunk[written:]
        except OSError:
            # The write may be partial; the incomplete line is truncated when the file is opened again.
            self.close()
            raise

    def _open(self) -> None:
        make_directory(self._directory)
        files = numbered(self._directory, self._name)
        number = files[-1][0] if files else 1
        path = self._path(number)
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._size_bytes = _whole_bytes(path)
        os.ftruncate(self._descriptor, self._size_bytes)
        sync_directory(self._directory)

    def _begin_next(self) -> None:
        os.fdatasync(self._descriptor)
        self.close()
        files = numbered(self._directory, self._name)
        path = self._path(files[-1][0] + 1 if files else 1)
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._size_bytes = 0
        for _, oldest in files[: max(0, len(files) + 1 - self._files_max)]:
            oldest.unlink(missing_ok=True)
        sync_directory(self._directory)

    def _path(self, number: int) -> Path:
        return self._directory / f"{self._name}-{number:0{_DIGITS}}{_SUFFIX}"


def numbered(directory: Path, name: str) -> list[tuple[int, Path]]:
    """Return the files of a series with their numbers, ascending."""
    found = []
    for path in directory.glob(f"{name}-*{_SUFFIX}"):
        number = path.name.removeprefix(f"{name}-").removesuffix(_SUFFIX)
        if number.isdigit():
            found.append((int(number), path))
    return sorted(found)


def newest_first(directory: Path, name: str) -> Iterator[bytes]:
    """Iterate over the complete lines of a series, newest first, without line ends. Skip deleted files."""
    for _, path in reversed(numbered(directory, name)):
        try:
            contents = path.read_bytes()
        except FileNotFoundError:
            continue
        yield from reversed(contents.split(b"\n")[:-1])


def _whole_bytes(path: Path) -> int:
    whole, newline, _torn = path.read_bytes().rpartition(b"\n")
    return len(whole) + len(newline)
