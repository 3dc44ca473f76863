"""Results of tasks, sent to the driver."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark_headrace.errors import BatchError
from pyspark_headrace.jobs.tables.files import ArchivedFile, PartitionKey
from pyspark_headrace.read.splits import Split
from pyspark_headrace.transactions.staged import Staged


@dataclass(frozen=True, kw_only=True)
class TaskResult:
    """Result of one task."""

    key: PartitionKey
    start: int
    end: int
    """End offset, exclusive."""
    files: tuple[ArchivedFile, ...]
    bad_records: int = 0
    staged: Staged | None = None
    """Staged dead letters, to be committed."""

    @property
    def rows(self) -> int:
        """Number of rows in its files."""
        return sum(file.rows for file in self.files)


def key_of(split: Split) -> PartitionKey:
    """Return the partition of a task, as a key of archives."""
    generation = f"{split.incarnation}.{split.purge_epoch}"
    return PartitionKey(split.stream, split.topic, split.partition_id, str(split.topic_incarnation), generation)


def ranges(results: Sequence[TaskResult]) -> dict[PartitionKey, tuple[int, int]]:
    """Return the ranges that a micro-batch has read.

    Raises:
        BatchError: Ranges of the tasks have gaps or overlaps.
    """
    found: dict[PartitionKey, tuple[int, int]] = {}
    for result in sorted(results, key=lambda one: (one.key, one.start)):
        first, last = found.get(result.key, (result.start, result.start))
        if result.start != last:
            raise BatchError(f"{result.key.title}: tasks have read up to {last}, and from {result.start}")
        if result.rows + result.bad_records != result.end - result.start:
            raise BatchError(
                f"{result.key.title}: of offsets {result.start} to {result.end} there are {result.rows} in files, "
                f"and {result.bad_records} are bad"
            )
        found[result.key] = (first, result.end)
    return found
