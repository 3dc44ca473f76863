"""A disk with simulated power loss: unsynced data is lost wholly, partly or not at all."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

import pytest

_PROGRAM: Final = Path(sys.executable).with_name("headrace-lossy-disk")
_DEVICE: Final = Path("/dev/fuse")
DISK_IS_THERE: Final = os.access(_DEVICE, os.R_OK | os.W_OK)
"""True if FUSE is available; in most containers it is not."""


class LossyDisk:
    """A mounted file system in memory. Processes that use it must have ended before its power is cut."""

    def __init__(self, path: Path, process: subprocess.Popen[str]) -> None:
        self.path = path
        """An empty directory at first."""
        self._process = process

    def cut(self, seed: int) -> list[str]:
        """Simulate a power loss; `seed` decides which unsynced data survives. Returns the names whose creation or
        removal was lost.
        """
        _stream(self._process.stdin).write(f"cut {seed}\n")
        _stream(self._process.stdin).flush()
        word, *names = _stream(self._process.stdout).readline().split()
        assert word == "cut"
        return names


needs_lossy_disk = pytest.mark.skipif(
    not DISK_IS_THERE, reason=f"{_DEVICE} cannot be opened: the power of a disk cannot be cut here"
)


@contextmanager
def lossy_disk(directory: Path) -> Iterator[LossyDisk]:
    """Mount a lossy disk for the duration of a ``with`` block.

    Args:
        `directory`: Mount point, created here.
    """
    directory.mkdir()
    with subprocess.Popen(
        [_PROGRAM, directory], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            assert _stream(process.stdout).readline() == "mounted\n", f"{directory} was not mounted"
            yield LossyDisk(directory, process)
        finally:
            # The process unmounts the disk at the end of its input.
            _stream(process.stdin).close()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                subprocess.run(["umount", "--lazy", directory], check=False)


def _stream(stream: IO[str] | None) -> IO[str]:
    assert stream is not None
    return stream
