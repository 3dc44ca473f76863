"""A real file system of a few megabytes, for tests of a full disk."""

from __future__ import annotations

import contextlib
import errno
import itertools
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final

_STEP_BYTES: Final = 64 * 1024
_SHARED_MEMORY: Final = Path("/dev/shm")
_SHARED_MEMORY_BYTES_MAX: Final = 256 * 1024 * 1024


class SmallDisk:
    """A directory on a file system that a test can fill."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._ballast = path / "ballast"

    def fill(self, *, spare_bytes: int = 0) -> None:
        """Fill the disk except for `spare_bytes`."""
        self._ballast.mkdir(exist_ok=True)
        step_bytes = _STEP_BYTES
        while step_bytes >= 1:
            # At the end page by page: a file of one byte takes one page.
            number = len(list(self._ballast.iterdir()))
            try:
                with (self._ballast / str(number)).open("wb") as file:
                    for _ in itertools.count():
                        if spare_bytes and shutil.disk_usage(self.path).free <= spare_bytes:
                            return
                        file.write(bytes(step_bytes))
                        file.flush()
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
            step_bytes //= 16

    def free(self) -> None:
        """Free the space again."""
        shutil.rmtree(self._ballast)


@contextmanager
def small_disk(directory: Path, size_bytes: int) -> Iterator[SmallDisk]:
    """Provide a small disk for the duration of a ``with`` block.

    Root mounts one. Other users mount one in their own user namespace, where they are root. Where neither is allowed,
    as in most containers, the shared memory of the container is used if it is small.

    Args:
        `directory`: Mount point, created here.
        size_bytes: Size of the file system.
    """
    directory.mkdir()
    ways: list[Callable[[Path, int], AbstractContextManager[Path | None]]] = [_mounted, _in_a_namespace, _shared_memory]
    for way in ways:
        with way(directory, size_bytes) as path:
            if path is not None:
                yield SmallDisk(path)
                return
    raise RuntimeError("no small file system can be made here: neither mounts nor user namespaces are allowed")


@contextmanager
def _mounted(directory: Path, size_bytes: int) -> Iterator[Path | None]:
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "tmpfs", str(directory)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        yield None
        return
    try:
        yield directory
    finally:
        # Lazily: a killed process may still be exiting.
        subprocess.run(["umount", "--lazy", str(directory)], check=True)


@contextmanager
def _in_a_namespace(directory: Path, size_bytes: int) -> Iterator[Path | None]:
    script = 'mount -t tmpfs -o "size=$1" tmpfs "$0" && echo mounted && exec sleep infinity'
    command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, str(directory), str(size_bytes)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as holder:
        try:
            assert holder.stdout is not None
            is_mounted = holder.stdout.readline().strip() == "mounted"
            # Other processes of this user reach the mount through the process that keeps the namespace alive.
            yield Path(f"/proc/{holder.pid}/root{directory.absolute()}") if is_mounted else None
        finally:
            holder.kill()


@contextmanager
def _shared_memory(_directory: Path, size_bytes: int) -> Iterator[Path | None]:
    if not _SHARED_MEMORY.is_dir() or shutil.disk_usage(_SHARED_MEMORY).total > _SHARED_MEMORY_BYTES_MAX:
        yield None
        return
    with contextlib.ExitStack() as stack:
        taken = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=_SHARED_MEMORY)))
        SmallDisk(taken).fill(spare_bytes=size_bytes)
        yield Path(stack.enter_context(tempfile.TemporaryDirectory(dir=_SHARED_MEMORY)))
