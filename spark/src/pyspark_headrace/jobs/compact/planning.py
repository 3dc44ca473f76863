"""Which files become one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from pyspark_headrace.digest import total
from pyspark_headrace.jobs.archives.files import ArchivedFile, PartitionKey

_OVERHEAD_BYTES: Final = 4096
"""About what a file has besides its messages, which does not add up when files are merged."""


@dataclass(frozen=True)
class Group:
    """Neighbouring files of a partition and a day that become one file."""

    files: tuple[ArchivedFile, ...]

    @property
    def key(self) -> PartitionKey:
        """Whose messages."""
        return self.files[0].key

    @property
    def rows(self) -> int:
        """Of all of them."""
        return sum(file.rows for file in self.files)

    @property
    def digest(self) -> int:
        """Of all of them."""
        return total(file.digest for file in self.files)

    @property
    def bytes(self) -> int:
        """Of all of them."""
        return sum(file.bytes for file in self.files)


def plan(files: Iterable[ArchivedFile], *, target_bytes: int, min_files: int, before: int) -> list[Group]:
    """Choose files to be merged.

    What comes out has between half and double the target, as far as neighbours allow it. Files that have half of it are
    left alone, unless they are needed for that, so that nothing is merged again and again.

    Args:
        files: That count.
        target_bytes: About how large files are to be.
        min_files: Days of a partition with fewer small files are left.
        before: Files with messages that are not older (microseconds since 1970) are left.
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
    """Files without a hole between them: a merged file says that it has every offset."""
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
            # Too little by themselves.
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
