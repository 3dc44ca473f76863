"""Changes to files that are either durable or did not happen."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable
from pathlib import Path

from headrace_metadata.errors import FolderInUseError

# Of files that are still being written; a start removes what a crash has left of them.
UNFINISHED_SUFFIX = ".unfinished"


class FolderLock:
    """Keeps other processes away from a folder until it is closed or the process ends, however it ends."""

    def __init__(self, folder: Path) -> None:
        """Take the lock.

        Raises:
            FolderInUseError: Another process holds it.
        """
        # A file of its own, as the others are replaced, and a lock stays with the file that was opened.
        self._descriptor = os.open(folder / "state.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._descriptor)
            raise FolderInUseError(folder) from None

    def close(self) -> None:
        """Release the folder."""
        os.close(self._descriptor)


def replace_file(path: Path, contents: Iterable[bytes]) -> None:
    """Put a file with these contents in the place of ``path``, durably and at once."""
    unfinished = write_unfinished(path, contents)
    unfinished.rename(path)
    sync_folder(path.parent)


def write_unfinished(path: Path, contents: Iterable[bytes]) -> Path:
    """Write and sync a file that is meant to be renamed to ``path``, and return its present path.

    Only the owner may read it: the state holds password hashes.
    """
    unfinished = path.with_name(path.name + UNFINISHED_SUFFIX)
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        for part in contents:
            write_whole(descriptor, part, position_bytes=None)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return unfinished


def write_whole(descriptor: int, contents: bytes, *, position_bytes: int | None) -> None:
    """Write all of ``contents``, at a position or, with none, where the last write ended."""
    view = memoryview(contents)
    while view:
        if position_bytes is None:
            written = os.write(descriptor, view)
        else:
            written = os.pwrite(descriptor, view, position_bytes)
            position_bytes += written
        view = view[written:]


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
