"""Results of tasks, sent to the driver."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pyspark_headrace.errors import BatchError
from pyspark_headrace.jobs.tables.files import ArchivedFile, PartitionKey
from pyspark_headrace.read.splits import Split
from pyspark_headrace.transactions.staged import Part, Staged, Transaction


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

    def to_text(self) -> str:
        """Encode the result for the driver."""
        return json.dumps(
            {
                "key": self.key,
                "start": self.start,
                "end": self.end,
                "files": [file.to_json() for file in self.files],
                "bad_records": self.bad_records,
                "staged": None if self.staged is None else _staged_to_json(self.staged),
            },
            separators=(",", ":"),
        )

    @classmethod
    def from_text(cls, text: str) -> TaskResult:
        """Decode the result of a task."""
        found = json.loads(text)
        return cls(
            key=PartitionKey(*found["key"]),
            start=found["start"],
            end=found["end"],
            files=tuple(ArchivedFile.from_json(file) for file in found["files"]),
            bad_records=found["bad_records"],
            staged=None if found["staged"] is None else _staged_from_json(found["staged"]),
        )


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


def _staged_to_json(staged: Staged) -> dict[str, Any]:
    return asdict(staged) | {
        "transaction": list(staged.transaction),
        "parts": [list(part._replace(stage_id=part.stage_id.hex())) for part in staged.parts],  # type: ignore[arg-type]
    }


def _staged_from_json(found: dict[str, Any]) -> Staged:
    parts = [Part(*part) for part in found["parts"]]
    return Staged(
        **found
        | {
            "transaction": Transaction(*found["transaction"]),
            "parts": tuple(part._replace(stage_id=bytes.fromhex(str(part.stage_id))) for part in parts),
        }
    )
