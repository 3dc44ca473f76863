"""State of an archive after some entry of its log."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Final

from pyspark_headrace.jobs.tables.entries import VERSION, Entry, document, path_of, time_of
from pyspark_headrace.jobs.tables.errors import ManifestError, OverlapError
from pyspark_headrace.jobs.tables.files import ArchivedFile, PartitionKey

REMOVED_FOR: Final = datetime.timedelta(days=30)
"""Time for which removals are remembered: the maximum time that removed files can be kept for readers."""
_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


@dataclass(frozen=True)
class ArchiveState:
    """Committed files, and what the next commit is checked against."""

    version: int = 0
    """Number of the last entry; 0 for an empty log."""
    files: Mapping[str, ArchivedFile] = field(default_factory=lambda: _NOTHING)
    """Files by path."""
    batches: Mapping[str, int] = field(default_factory=lambda: _NOTHING)
    """Last micro-batch of each query."""
    removed: Mapping[str, datetime.datetime] = field(default_factory=lambda: _NOTHING)
    """Removal times of files by path, for removals within `REMOVED_FOR`."""

    @cached_property
    def partitions(self) -> Mapping[PartitionKey, Sequence[ArchivedFile]]:
        """Files of each partition, in offset order."""
        found: dict[PartitionKey, list[ArchivedFile]] = {}
        for file in self.files.values():
            found.setdefault(file.key, []).append(file)
        return {key: sorted(found[key], key=_place) for key in sorted(found)}

    @cached_property
    def rows(self) -> int:
        """Number of messages in all files."""
        return sum(file.rows for file in self.files.values())

    def with_entry(self, number: int, entry: Entry) -> ArchiveState:
        """Return the state after the next entry.

        Raises:
            ManifestError: The entry removes an unknown file or adds a known one.
        """
        files = dict(self.files)
        removed = {path: at for path, at in self.removed.items() if at > entry.at - REMOVED_FOR}
        for path in entry.remove:
            if files.pop(path, None) is None:
                raise ManifestError(path_of(number), f"removes {path}, which does not exist")
            removed[path] = entry.at
        for file in entry.add:
            if file.path in files or file.path in removed:
                raise ManifestError(path_of(number), f"adds {file.path}, which already exists")
            files[file.path] = file
        batches = dict(self.batches)
        if entry.query is not None and entry.batch is not None:
            batches[entry.query] = max(entry.batch, batches.get(entry.query, -1))
        return ArchiveState(number, files, batches, removed)

    def check_apart(self, add: Iterable[ArchivedFile], remove: Iterable[str]) -> None:
        """Check that no message would be archived twice.

        Raises:
            OverlapError: Ranges overlap.
        """
        gone = set(remove)
        new: dict[PartitionKey, list[ArchivedFile]] = {}
        for file in add:
            new.setdefault(file.key, []).append(file)
        for key, files in new.items():
            kept = [file for file in self.partitions.get(key, ()) if file.path not in gone]
            for left, right in pairwise(sorted([*kept, *files], key=_place)):
                if right.start < left.end:
                    raise OverlapError(
                        f"{key.title}: offsets {right.start} to {min(left.end, right.end)} would be in the archive"
                        f" twice: {left.path} has {left.start} to {left.end}, {right.path} {right.start} to {right.end}"
                    )

    def to_json(self) -> bytes:
        """Encode the state as a snapshot."""
        return json.dumps(
            {
                "v": VERSION,
                "version": self.version,
                "files": [file.to_json() for file in self.files.values()],
                "batches": dict(self.batches),
                "removed": {path: at.isoformat() for path, at in self.removed.items()},
            },
            ensure_ascii=False,
            separators=(",", ":"),
        ).encode()

    @staticmethod
    def from_json(path: str, number: int, content: bytes) -> ArchiveState:
        """Decode a snapshot.

        Raises:
            ManifestError: The bytes are not a snapshot with this number.
        """
        value = document(path, content)
        try:
            if value["version"] != number:
                raise ValueError(f"it is of entry {value['version']!r}")
            files = [ArchivedFile.from_json(file) for file in value["files"]]
            return ArchiveState(
                number,
                {file.path: file for file in files},
                {str(query): int(batch) for query, batch in value["batches"].items()},
                {str(path): time_of(at) for path, at in value["removed"].items()},
            )
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ManifestError(path, f"is damaged: {error}") from error


def _place(file: ArchivedFile) -> tuple[int, int, str]:
    return file.start, file.end, file.path
