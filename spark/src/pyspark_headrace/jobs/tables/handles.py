"""File objects on top of a store, for pyarrow."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from pyspark_headrace.jobs.tables.errors import StoreError
from pyspark_headrace.jobs.tables.failures import FAILURES, said


class Output:
    """A file being written. The file appears with `close`, and not at all without it.

    Methods raise `StoreError` if the write fails.
    """

    mode = "wb"

    def __init__(self, written: Any, place: str, local: tuple[Path, str] | None) -> None:
        """Wrap a writer of the store.

        Args:
            written: The writer.
            place: Location, for messages.
            local: Root directory and path below it, for a local store.
        """
        self._written: Any | None = written
        self._place = place
        self._local = local
        self.size_bytes = 0
        """Number of bytes written so far."""
        self.closed = False

    def write(self, data: Any) -> int:
        """Write bytes."""
        try:
            if self._written is not None:
                self._written.write(data)
        except FAILURES as error:
            raise StoreError(f"{self._place}: {said(error)}") from None
        count = memoryview(data).nbytes
        self.size_bytes += count
        return count

    def tell(self) -> int:
        """Return the number of bytes written."""
        return self.size_bytes

    def flush(self) -> None:
        """Do nothing: data becomes visible with `close` only."""

    def writable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return False."""
        return False

    def readable(self) -> bool:
        """Return False."""
        return False

    def close(self) -> None:
        """Complete the file; in a local store, sync it to disk."""
        if not self.closed:
            self.closed = True
            try:
                if self._written is not None:
                    self._written.close()
                if self._local is not None:
                    directory, path = self._local
                    sync(directory / path)
                    sync_directories(directory, (directory / path).parent)
            except FAILURES as error:
                raise StoreError(f"{self._place}: {said(error)}") from None

    def abandon(self) -> None:
        """Discard the file, and ignore what pyarrow still writes when it closes its handle."""
        self.closed = True
        self._written = None


class Input:
    """A file being read. Methods raise `StoreError` on failures and FileNotFoundError if the file is gone."""

    mode = "rb"

    def __init__(self, source: Any, place: str) -> None:
        """Wrap a reader of the store.

        Args:
            source: The reader.
            place: Location, for messages.
        """
        self._source = source
        self._place = place
        self.closed = False

    def size(self) -> int:
        """Size in bytes."""
        return int(self._source.size)

    def read(self, count: int = -1) -> bytes:
        """Read up to `count` bytes, or the rest."""
        try:
            if count < 0:
                return bytes(self._source.read(None))
            found = bytes(self._source.read(count))
            # The reader returns buffered bytes first, possibly fewer than requested.
            while len(found) < count and (more := bytes(self._source.read(count - len(found)))):
                found += more
        except FileNotFoundError:
            raise
        except FAILURES as error:
            raise StoreError(f"{self._place}: {said(error)}") from None
        return found

    def seek(self, offset: int, whence: int = 0) -> int:
        """Set the position."""
        return int(self._source.seek(offset, whence))

    def tell(self) -> int:
        """Return the position."""
        return int(self._source.tell())

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def writable(self) -> bool:
        """Return False."""
        return False

    def close(self) -> None:
        """Do nothing: no resource is held."""
        self.closed = True


def sync(path: Path) -> None:
    """Sync a file, or the entries of a directory, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_directories(directory: Path, inner: Path) -> None:
    """Sync the directory entries on the path from `inner` up to `directory`."""
    for parent in (inner, *inner.parents):
        sync(parent)
        if parent == directory:
            return
