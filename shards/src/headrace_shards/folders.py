"""Folders of a process: one process at a time uses one, and files in it are replaced as a whole."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from headrace_shards.errors import FolderInUse

LOCK: Final = "headrace.lock"
"""Held by the process that uses the folder."""


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keep other processes out of an existing folder for the length of a ``with`` block.

    Raises:
        FolderInUse: Another process uses it.
        OSError: The lock cannot be made.
    """
    descriptor = os.open(path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(descriptor, 20).decode(errors="replace").strip()
            raise FolderInUse(path, holder) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)


def replace_file(path: Path, text: str) -> None:
    """Put a file in the place of another, durably and at once; only its owner may read it."""
    unfinished = path.with_name(path.name + ".unfinished")
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(descriptor)
    unfinished.rename(path)
    sync_folder(path.parent)


def make_folder(path: Path) -> None:
    """Make a folder, and those above it, unless they exist: durable, and for their owner alone.

    A file that is synced in a folder whose own name is not is lost with it when power is. A folder that is there, and
    what is in it, may have been made by a process that was killed before it could sync the names.

    Raises:
        OSError: It cannot be made.
    """
    if path.is_dir():
        sync_folder(path)
    else:
        make_folder(path.parent)
        path.mkdir(mode=0o700, exist_ok=True)
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Make the names in a folder durable."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
