"""Data directories: used by one process at a time, with files that are replaced atomically."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from headrace_chassis.errors import DirectoryInUse

LOCK: Final = "headrace.lock"
"""Lock file, held by the process that uses the directory."""


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Lock an existing directory for the duration of a ``with`` block.

    Raises:
        DirectoryInUse: Another process uses it.
        OSError: The lock file cannot be created.
    """
    descriptor = os.open(path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(descriptor, 20).decode(errors="replace").strip()
            raise DirectoryInUse(path, holder) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)


def replace_file(path: Path, text: str) -> None:
    """Replace a file durably and atomically; only its owner may read it."""
    unfinished = path.with_name(path.name + ".unfinished")
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(descriptor)
    unfinished.rename(path)
    sync_directory(path.parent)


def make_directory(path: Path) -> None:
    """Create a directory and its parents, unless they exist: durable, and accessible to their owner only.

    After a power failure a synced file is lost if the name of its directory was not synced. An existing directory and
    its contents may have been created by a process that was killed before it could sync the names.

    Raises:
        OSError: It cannot be created.
    """
    if path.is_dir():
        sync_directory(path)
    else:
        make_directory(path.parent)
        path.mkdir(mode=0o700, exist_ok=True)
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable."""
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
