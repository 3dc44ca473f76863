"""Peak memory of Spark's processes."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import psutil

JVM, WORKER, PLANNER = "the JVM", "a worker", "a planner on the driver"
_LOOK_SECONDS = 0.2


class Peaks:
    """The highest resident memory of each kind of process, in bytes."""

    def __init__(self, jvm: psutil.Process) -> None:
        """Sample a JVM and its child processes."""
        self._jvm = jvm
        self.bytes: dict[str, int] = {}

    @contextmanager
    def watched(self) -> Generator[None]:
        """Sample repeatedly during a ``with`` block: the numbers of a process are lost when it ends."""
        is_over = threading.Event()

        def watch() -> None:
            while not is_over.wait(_LOOK_SECONDS):
                self.look()

        thread = threading.Thread(target=watch)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()
            self.look()

    def look(self) -> None:
        """Take one sample."""
        self._note(JVM, self._jvm)
        for process in self._jvm.children(recursive=True):
            try:
                is_worker = process.cmdline()[-1] == "pyspark.worker"
                self._note(WORKER if is_worker else PLANNER, process)
            except (psutil.Error, OSError, IndexError):
                continue

    def _note(self, kind: str, process: psutil.Process) -> None:
        self.bytes[kind] = max(self.bytes.get(kind, 0), _peak_bytes(process.pid))


def _peak_bytes(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    (peak,) = (line.split()[1] for line in lines if line.startswith("VmHWM:"))
    return int(peak) * 1024
