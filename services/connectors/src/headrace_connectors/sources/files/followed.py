"""Files that are followed: which file an entry of the state means, and whether it is still the same."""

from __future__ import annotations

import hashlib
import os
import stat
import time
from pathlib import Path
from typing import Final

import msgspec

_PROBE_BYTES: Final = 1024


class Entry(msgspec.Struct, kw_only=True):
    """Place to continue at in one file, as it is in the state."""

    number: int
    """Number of the file, given once: ids of its records have it."""
    path: str
    device: int
    inode: int
    offset: int = 0
    """Bytes that were read: everything before is stored in topics. Of Parquet: the size of the file."""
    line: int = 0
    """Lines, or rows, that were read."""
    head: str = ""
    """Hash of the first KiB of what was read, or of less if there is not so much."""
    tail: str = ""
    """Hash of the last KiB of what was read."""
    is_within_line: bool = False
    """True if what follows, up to the next line break, is the rest of a line that is not read."""
    is_done: bool = False
    """True if it is stored as a whole, and waits for its deletion."""

    def beginning(self) -> Entry:
        """Return an entry for reading the file from its first byte."""
        return Entry(number=self.number, path=self.path, device=self.device, inode=self.inode)


class OpenFile:
    """A file that is open for reading.

    Args:
        path: Its path now.

    Raises:
        OSError: It cannot be opened.
    """

    def __init__(self, path: str) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        self._file = os.fdopen(descriptor, "rb", buffering=0)
        # Size and time of the last change, as they were seen last, and when the file was found to be the same one.
        self._seen: tuple[int, int] | None = None
        self._confirmed: tuple[int, int] | None = None
        self._changed_at = 0.0
        self.look(time.monotonic())

    def look(self, now: float) -> None:
        """Look for changes.

        Args:
            now: Time of `time.monotonic`.
        """
        status = self.status
        seen = (status.st_size, status.st_mtime_ns)
        if seen != self._seen:
            # A file that is found may have been complete for long.
            age = max(0.0, time.time() - status.st_mtime) if self._seen is None else 0.0
            self._seen, self._changed_at = seen, now - age

    def is_same(self, entry: Entry) -> bool:
        """Return whether it still begins with what was read of it: it was not truncated or replaced."""
        if self._confirmed is None or self._confirmed != self._seen:
            if not has_read(self, entry):
                return False
            self._confirmed = self._seen
        return True

    def quiet_seconds(self, now: float) -> float:
        """Return the time since its last change that was seen."""
        return now - self._changed_at

    @property
    def descriptor(self) -> int:
        """Number of the open file."""
        return self._file.fileno()

    @property
    def status(self) -> os.stat_result:
        """Status, also when its name is gone."""
        return os.fstat(self._file.fileno())

    def read(self, offset: int, count: int) -> bytes:
        """Read up to `count` bytes."""
        return os.pread(self._file.fileno(), count, offset)

    def close(self) -> None:
        """Close it."""
        self._file.close()


def identity(status: os.stat_result) -> tuple[int, int]:
    """Return device and inode, which no other file has while this one exists."""
    return status.st_dev, status.st_ino


def probes(file: OpenFile, offset: int) -> tuple[str, str]:
    """Return the hashes of the first and the last KiB before an offset."""
    start = max(0, offset - _PROBE_BYTES)
    return _hash(file.read(0, min(offset, _PROBE_BYTES))), _hash(file.read(start, offset - start))


def has_read(file: OpenFile, entry: Entry) -> bool:
    """Return whether a file begins with what an entry has read, by the first and the last KiB of that."""
    if file.status.st_size < entry.offset:
        return False
    return entry.offset == 0 or probes(file, entry.offset) == (entry.head, entry.tail)


def is_copy(file: OpenFile, entry: Entry) -> bool:
    """Return whether another file begins with what was read of this one, and there is enough of that to know."""
    return entry.offset >= _PROBE_BYTES and has_read(file, entry)


def may_become_copy(file: OpenFile, original: OpenFile, entry: Entry) -> bool:
    """Return whether a file begins like another one, and is shorter than what was read of that."""
    if not file.status.st_size < entry.offset <= original.status.st_size or entry.offset < _PROBE_BYTES:
        return False
    begin = file.read(0, _PROBE_BYTES)
    return original.read(0, len(begin)) == begin


def renamed_path(entry: Entry) -> str | None:
    """Look for a file in its directory by its inode, after it was renamed while nothing looked.

    Return the path of the entry if the directory cannot be read: it may have the file.
    """
    directory = Path(entry.path).parent
    try:
        with os.scandir(directory) as found:
            for one in found:
                if one.inode() == entry.inode and identity(one.stat()) == (entry.device, entry.inode) and one.is_file():
                    return one.path
    except OSError:
        return entry.path
    return None


def regular_status(path: str) -> os.stat_result | None:
    """Return the status of a regular file; None for anything else."""
    try:
        status = Path(path).stat()
    except OSError:
        return None
    return status if stat.S_ISREG(status.st_mode) else None


def _hash(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=12).hexdigest()
