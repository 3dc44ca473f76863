"""Selection of files to merge."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from pyspark_headrace.columns.digest import total
from pyspark_headrace.jobs.tables.files import ArchivedFile, PartitionKey

_OVERHEAD_BYTES: Final = 4096
"""Approximate overhead of a file, which does not add up when files are merged."""


@dataclass(frozen=True)
class Group:
    """Adjacent files of a partition and a day to be merged into one."""

    files: tuple[ArchivedFile, ...]

    @property
    def key(self) -> PartitionKey:
        """Partition of the messages."""
        return self.files[0].key

    @property
    def rows(self) -> int:
        """Total number of rows."""
        return sum(file.rows for file in self.files)

    @property
    def digest(self) -> int:
        """Digest of all messages."""
        return total(file.digest for file in self.files)

    @property
    def bytes(self) -> int:
        """Total size."""
        return sum(file.bytes for file in self.files)


def plan(files: Iterable[ArchivedFile], *, target_bytes: int, min_files: int, before: int) -> list[Group]:
    """Choose files to merge.

    The merged files have between half and twice the target size, as far as adjacent files allow. Files of at least half
    the target size are left alone unless needed for that, so that no file is merged again and again.

    Args:
        files: Committed files.
        target_bytes: Approximate size of merged files.
        min_files: Minimum number of small files in a day of a partition; days with fewer are left alone.
        before: Files with messages at or after this time (microseconds since 1970) are left alone.
    """
    days: dict[tuple[PartitionKey, str, str], list[ArchivedFile]] = {}
    for file in files:
        if file.last_timestamp < before:
            days.setdefault((file.key, file.date, file.mode), []).append(file)
    groups: list[Group] = []
    for day in sorted(days):
        if sum(_size(file) < target_bytes // 2 for file in days[day]) >= min_files:
            for run in _runs(sorted(days[day], key=lambda file: file.start)):
                groups.extend(_groups(run, target_bytes))
    return groups


def _runs(files: Sequence[ArchivedFile]) -> Iterator[list[ArchivedFile]]:
    """Yield runs of files without gaps between them: a merged file claims a contiguous range of offsets."""
    run: list[ArchivedFile] = []
    for file in files:
        if run and run[-1].end != file.start:
            yield run
            run = []
        run.append(file)
    if run:
        yield run


def _groups(run: Sequence[ArchivedFile], target: int) -> Iterator[Group]:
    parts: list[list[ArchivedFile]] = []
    small: list[ArchivedFile] = []
    for file in run:
        if _size(file) < target // 2:
            small.append(file)
            if _total(small) >= target:
                parts.append(small)
                small = []
        elif small and _total(small) < target // 2 and _total([*small, file]) <= 2 * target:
            # The remaining small files are too small for a group of their own.
            parts.append([*small, file])
            small = []
        else:
            parts.extend(part for part in (small, [file]) if part)
            small = []
    if small and parts and _total(small) < target // 2 and _total([*parts[-1], *small]) <= 2 * target:
        parts[-1] = [*parts[-1], *small]
    elif small:
        parts.append(small)
    return (Group(tuple(part)) for part in parts if len(part) > 1)


def _total(files: Iterable[ArchivedFile]) -> int:
    return sum(map(_size, files))


def _size(file: ArchivedFile) -> int:
    return max(file.bytes - _OVERHEAD_BYTES, 1)
