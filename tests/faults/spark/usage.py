"""Resource usage of a process, sampled from /proc, and detection of growth."""

from __future__ import annotations

import statistics
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final

_MEBIBYTE: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Usage:
    """Usage at one moment."""

    memory_bytes: int
    """Resident memory."""
    threads: int
    descriptors: int
    sockets: int

    @classmethod
    def of(cls, process: int) -> Usage:
        """Measure an existing process."""
        directory = Path(f"/proc/{process}")
        metrics = dict(
            line.split(":", 1)
            for line in (directory / "status").read_text(encoding="utf-8").splitlines()
            if ":" in line
        )
        descriptors = list((directory / "fd").iterdir())
        sockets = 0
        for descriptor in descriptors:
            with suppress(FileNotFoundError):
                sockets += str(descriptor.readlink()).startswith("socket:")
        return cls(int(metrics["VmRSS"].split()[0]) * 1024, int(metrics["Threads"]), len(descriptors), sockets)


@dataclass(slots=True)
class Series:
    """Usage of one process over a number of micro-batches."""

    name: str
    process: int
    found: list[tuple[int, Usage]]
    """Pairs of the number of committed micro-batches and the usage."""

    def take(self, batches: int) -> None:
        """Take a sample."""
        self.found.append((batches, Usage.of(self.process)))

    def grown(self, *, bytes_per_batch_max: float, ignored: Collection[str] = ()) -> list[str]:
        """Return what has grown from the second quarter to the last; the first quarter is warm-up.

        Args:
            bytes_per_batch_max: Maximum growth of memory. Nothing else may grow at all.
            ignored: Fields of `Usage` that may grow.
        """
        quarter = len(self.found) // 4
        early, late = self.found[quarter : 2 * quarter], self.found[-quarter:]
        batches = late[0][0] - early[0][0]
        problems = []
        for field in fields(Usage):
            if field.name in ignored:
                continue
            before, after = (
                statistics.median(getattr(usage, field.name) for _, usage in part) for part in (early, late)
            )
            allowed = bytes_per_batch_max * batches if field.name == "memory_bytes" else 0
            if after - before > allowed:
                problems.append(
                    f"{self.name}: {field.name} from {before:.0f} to {after:.0f} in {batches} micro-batches"
                )
        return problems

    def report(self) -> str:
        """Describe each quarter's median in one line."""
        quarter = len(self.found) // 4
        parts = [self.found[begin : begin + quarter] for begin in range(0, 4 * quarter, quarter)]
        columns = []
        for field in fields(Usage):
            medians = [statistics.median(getattr(usage, field.name) for _, usage in part) for part in parts]
            if field.name == "memory_bytes":
                columns.append("memory " + " ".join(f"{median / _MEBIBYTE:.1f}" for median in medians) + " MiB")
            else:
                columns.append(f"{field.name} " + " ".join(f"{median:.0f}" for median in medians))
        return f"{self.name}: {', '.join(columns)}"
