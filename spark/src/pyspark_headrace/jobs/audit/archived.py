"""Checks of an archive: is it complete and undamaged, and does it have the messages of its topics."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark_headrace.cluster.description import Description, Key
from pyspark_headrace.columns.digest import total
from pyspark_headrace.jobs.audit.config import ARCHIVE, AuditConfig
from pyspark_headrace.jobs.audit.findings import Findings, Level
from pyspark_headrace.jobs.audit.scanned import Piece, Scanned
from pyspark_headrace.jobs.running.tasks import run_tasks
from pyspark_headrace.jobs.tables.files import PartitionKey
from pyspark_headrace.jobs.tables.opening import open_table
from pyspark_headrace.jobs.tables.reading import Archived, Part, Parts
from pyspark_headrace.jobs.tables.table import TableFile
from pyspark_headrace.jobs.tables.verifying import Verifying
from pyspark_headrace.read.splits import cut

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TASKS_MOST: Final = 256
_SAMPLES: Final = 1 << 32


class ArchiveCheck:
    """The selected messages of an archive, and what is found about them."""

    def __init__(self, spark: SparkSession, config: AuditConfig, findings: Findings) -> None:
        """Read the table.

        Raises:
            ArchiveError: The table has messages that the job `archive` has not written.
            StoreError: The table does not exist, or cannot be read.
        """
        assert config.archive is not None  # noqa: S101 - asked for
        self._spark = spark
        self._config = config
        self._findings = findings
        self._table = open_table(config, config.archive, is_iceberg=config.is_iceberg)
        self._is_raw = self._table.is_raw
        self._archived = Archived(spark, self._table)
        self._digests: dict[Part, int] = {}
        """Digests of the parts of verified files without defects."""
        parts = self._archived.parts(self._is_chosen, passes_over_damage=True)
        self.version = self._table.version
        self.partitions: Parts = {
            key: [one for one in of_it if config.since is None or one.last_timestamp >= config.since]
            for key, of_it in parts.items()
        }

    @property
    def files(self) -> dict[TableFile, list[Part]]:
        """Files with their parts."""
        found: dict[TableFile, list[Part]] = {}
        for parts in self.partitions.values():
            for part in parts:
                found.setdefault(part.file, []).append(part)
        return found

    def check_table(self) -> None:
        """Report gaps and overlaps, up to the recorded end of each partition.

        Bad messages may be missing in decoded values on purpose.
        """
        level: Level = "error" if self._is_raw else "info"
        add = self._findings.add
        for error in self._archived.damaged():
            add(ARCHIVE, {"path": error.path}, error.what)
        for key, parts in self.partitions.items():
            before: Part | None = None
            for part in parts:
                if before is not None and part.start > before.end:
                    message = f"messages {before.end} to {part.start - 1} are missing in front of it"
                    add(ARCHIVE, _where(part, before.end, part.start), message, level)
                if before is not None and part.start < before.end:
                    until = min(before.end, part.end)
                    message = f"messages {part.start} to {until - 1} are in {before.file.path}, too"
                    add(ARCHIVE, _where(part, part.start, until), message)
                if before is None or part.end >= before.end:
                    before = part
            end = self._archived.ends[key]
            if before is not None and before.end < end:
                message = f"messages {before.end} to {end - 1}, which were archived, are missing behind it"
                add(ARCHIVE, _where(before, before.end, end), message, level)

    def check_files(self) -> tuple[int, int]:
        """Verify the contents of files in tasks.

        Returns:
            Number of files, and of damaged ones.
        """
        # Sample by path: each run checks the same files.
        limit = int(self._config.sample * _SAMPLES)
        files = [
            Verifying(self._table.place, file, parts, self._is_raw)
            for file, parts in self.files.items()
            if zlib.crc32(file.path.encode()) < limit
        ]
        if not files:
            return 0, 0
        loads = [files[begin:end] for begin, end in cut(0, len(files), min(len(files), _TASKS_MOST))]
        wrong = 0
        for one, found in zip(files, run_tasks(self._spark, Verifying.verified, loads), strict=True):
            for problem in found.problems:
                self._findings.add(ARCHIVE, _where(one.parts[0], problem.offset), problem.what)
            wrong += bool(found.problems)
            if not found.problems and self._is_raw:
                self._digests.update(zip(one.parts, found.digests, strict=True))
        return len(files), wrong

    def bounds(self, described: Description) -> dict[Key, list[int]]:
        """Return the boundaries of parts for the partitions that exist now."""
        return {
            place: sorted({bound for part in parts for bound in (part.start, part.end)})
            for place, parts in self._current(described).items()
        }

    def compare(self, described: Description, ranges: Iterable[Scanned]) -> int:
        """Compare verified files with the remaining messages of their topics.

        Args:
            described: Metadata of the topics.
            ranges: Results of reading the topics.

        Returns:
            Number of compared files.
        """
        pieces: dict[Key, list[Piece]] = {}
        for one in ranges:
            pieces.setdefault((one.topic, one.partition), []).extend(one.pieces)
        compared = set()
        for place, parts in self._current(described).items():
            last, following = _last(parts), described.partitions[place].next_offset
            if last.end > following:
                message = f"the topic ends at {following}, and the archive at {last.end}"
                self._findings.add(ARCHIVE, _where(last, following, last.end), message)
            ordered = sorted(pieces.get(place, ()))
            for part in parts:
                of_it = [piece for piece in ordered if part.start <= piece.start and piece.end <= part.end]
                if part not in self._digests or sum(piece.rows for piece in of_it) != part.end - part.start:
                    continue
                compared.add(part.file.path)
                if total(piece.digest for piece in of_it) != self._digests[part]:
                    message = "its messages are not those of the topic"
                    self._findings.add(ARCHIVE, _where(part, part.start, part.end), message)
        return len(compared)

    def ends(self, described: Description) -> dict[Key, int]:
        """Return the end of the archived messages for the partitions that exist now."""
        return {place: _last(parts).end for place, parts in self._current(described).items()}

    def _is_chosen(self, stream: str, topic: str) -> bool:
        config = self._config
        return (
            (not config.stream or stream == config.stream)
            and (config.topics is None or topic in config.topics)
            and (config.topics_pattern is None or re.fullmatch(config.topics_pattern, topic) is not None)
        )

    def _current(self, described: Description) -> Mapping[Key, Sequence[Part]]:
        found: dict[Key, Sequence[Part]] = {}
        for key, parts in self.partitions.items():
            topic = described.topics.get(key.topic)
            partition = described.partitions.get((key.topic, key.partition))
            if parts and topic is not None and partition is not None:
                now = PartitionKey(topic.stream, key.topic, key.partition, str(topic.incarnation), partition.generation)
                if now == key:
                    found[key.topic, key.partition] = parts
        return found


def _last(parts: Sequence[Part]) -> Part:
    return max(parts, key=lambda part: part.end)


def _where(part: Part, start: int | None, end: int | None = None) -> dict[str, Any]:
    key = part.key
    where: dict[str, Any] = {"stream": key.stream, "topic": key.topic, "partition": key.partition}
    where["path"] = part.file.path
    if start is not None:
        where["offset"] = start
    if end is not None:
        where["until"] = end
    return where
