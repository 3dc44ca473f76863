"""Objects of a store that are being written or read, for pyarrow."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from pyspark_headrace.jobs.archives.errors import StoreError
from pyspark_headrace.jobs.archives.failures import FAILURES, said


class Output:
    """A file being written. Without `close` nothing of it is ever there.

    Methods raise `StoreError` where it cannot be written.
    """

    mode = "wb"

    def __init__(self, written: Any, place: str, local: tuple[Path, str] | None) -> None:
        """Take what a store has begun.

        Args:
            written: The store's own.
            place: What people call it.
            local: Its folder, and its path below that, if it is in one.
        """
        self._written: Any | None = written
        self._place = place
        self._local = local
        self.size_bytes = 0
        """So far."""
        self.closed = False

    def write(self, data: Any) -> int:
        """Write more."""
        try:
            if self._written is not None:
                self._written.write(data)
        except FAILURES as error:
            raise StoreError(f"{self._place}: {said(error)}") from None
        count = memoryview(data).nbytes
        self.size_bytes += count
        return count

    def tell(self) -> int:
        """How much was written."""
        return self.size_bytes

    def flush(self) -> None:
        """Nothing is there before the end."""

    def writable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is not."""
        return False

    def readable(self) -> bool:
        """It is not."""
        return False

    def close(self) -> None:
        """Have it there, on the device if it is a folder."""
        if not self.closed:
            self.closed = True
            try:
                if self._written is not None:
                    self._written.close()
                if self._local is not None:
                    folder, path = self._local
                    sync(folder / path)
                    sync_folders(folder, (folder / path).parent)
            except FAILURES as error:
                raise StoreError(f"{self._place}: {said(error)}") from None

    def abandon(self) -> None:
        """Forget what was written, and what pyarrow still writes when it lets go of its file."""
        self.closed = True
        self._written = None


class Input:
    """A file being read. Methods raise `StoreError` where it cannot be, and FileNotFoundError where it is gone."""

    mode = "rb"

    def __init__(self, source: Any, place: str) -> None:
        """Take what a store has opened.

        Args:
            source: The store's own.
            place: What people call it.
        """
        self._source = source
        self._place = place
        self.closed = False

    def size(self) -> int:
        """In bytes."""
        return int(self._source.size)

    def read(self, count: int = -1) -> bytes:
        """Read so much, or what is left."""
        try:
            if count < 0:
                return bytes(self._source.read(None))
            found = bytes(self._source.read(count))
            # It gives what it has fetched already, before it fetches more.
            while len(found) < count and (more := bytes(self._source.read(count - len(found)))):
                found += more
        except FileNotFoundError:
            raise
        except FAILURES as error:
            raise StoreError(f"{self._place}: {said(error)}") from None
        return found

    def seek(self, offset: int, whence: int = 0) -> int:
        """Go somewhere."""
        return int(self._source.seek(offset, whence))

    def tell(self) -> int:
        """Where it is."""
        return int(self._source.tell())

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def writable(self) -> bool:
        """It is not."""
        return False

    def close(self) -> None:
        """Nothing is held."""
        self.closed = True


def sync(path: Path) -> None:
    """Have a file, or the names in a folder, on the device."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folders(folder: Path, inner: Path) -> None:
    """Have the names of everything on the device that leads to a folder.

    Args:
        folder: Where to end.
        inner: Where to begin, below it.
    """
    for parent in (inner, *inner.parents):
        sync(parent)
        if parent == folder:
            return
