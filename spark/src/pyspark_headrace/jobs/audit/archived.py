"""Checks of an archive: internal consistency, and comparison with its topics."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pyspark_headrace.cluster.description import Description, Key
from pyspark_headrace.columns.digest import total
from pyspark_headrace.jobs.audit.config import ARCHIVE, AuditConfig
from pyspark_headrace.jobs.audit.findings import Findings, Level
from pyspark_headrace.jobs.audit.scanned import Piece, Scanned
from pyspark_headrace.jobs.audit.verifying import verified_at
from pyspark_headrace.jobs.running.tasks import run_tasks
from pyspark_headrace.jobs.tables.archive import Archive
from pyspark_headrace.jobs.tables.errors import ManifestError
from pyspark_headrace.jobs.tables.files import RAW, ArchivedFile, PartitionKey
from pyspark_headrace.jobs.tables.state import ArchiveState
from pyspark_headrace.read.splits import cut

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TASKS_MOST: Final = 256
_SAMPLES: Final = 1 << 32

Partitions = Mapping[PartitionKey, Sequence[ArchivedFile]]


def state_of(config: AuditConfig, findings: Findings) -> ArchiveState | None:
    """Return the state of the archive; None and a finding if its log is damaged.

    Raises:
        StoreError: The location does not exist, or cannot be read.
    """
    assert config.archive is not None  # noqa: S101 - asked for
    try:
        return Archive.open(config.archive).state()
    except ManifestError as error:
        findings.add(ARCHIVE, {"path": error.path}, f"the log of the archive: {error}")
        return None


def chosen(state: ArchiveState, config: AuditConfig) -> Partitions:
    """Return the files of the selected topics."""
    return {
        key: [file for file in files if config.since is None or file.last_timestamp >= config.since]
        for key, files in state.partitions.items()
        if (not config.stream or key.stream == config.stream)
        and (config.topics is None or key.topic in config.topics)
        and (config.topics_pattern is None or re.fullmatch(config.topics_pattern, key.topic))
    }


def check_log(partitions: Partitions, findings: Findings) -> None:
    """Report gaps and overlaps between and within files, according to the log.

    Bad messages may be missing from decoded files on purpose.
    """
    for key, files in partitions.items():
        before: ArchivedFile | None = None
        for file in files:
            level: Level = "error" if file.mode == RAW else "info"
            if file.rows != file.end - file.start:
                message = f"has {file.rows} of the messages {file.start} to {file.end - 1}"
                findings.add(ARCHIVE, _where(key, file, file.start, file.end), message, level)
            if before is not None and file.start > before.end:
                message = f"messages {before.end} to {file.start - 1} are missing in front of it"
                findings.add(ARCHIVE, _where(key, file, before.end, file.start), message, level)
            if before is not None and file.start < before.end:
                until = min(before.end, file.end)
                message = f"messages {file.start} to {until - 1} are in {before.path}, too"
                findings.add(ARCHIVE, _where(key, file, file.start, until), message)
            if before is None or file.end >= before.end:
                before = file


def check_files(
    spark: SparkSession, partitions: Partitions, config: AuditConfig, findings: Findings
) -> tuple[int, set[str]]:
    """Verify the contents of files in tasks.

    Returns:
        Number of files, and the paths of damaged ones.
    """
    assert config.archive is not None  # noqa: S101 - asked for
    # Sample by path: each run checks the same files.
    limit = int(config.sample * _SAMPLES)
    files = [file for of_it in partitions.values() for file in of_it if zlib.crc32(file.path.encode()) < limit]
    if not files:
        return 0, set()
    loads = [files[begin:end] for begin, end in cut(0, len(files), min(len(files), _TASKS_MOST))]
    wrong = set()
    for file, problems in zip(files, run_tasks(spark, partial(verified_at, config.archive), loads), strict=True):
        for problem in problems:
            wrong.add(file.path)
            findings.add(ARCHIVE, _where(file.key, file, problem.offset), problem.what)
    return len(files), wrong


def bounds(partitions: Partitions, described: Description) -> dict[Key, list[int]]:
    """Return the boundaries of files for the partitions that exist now."""
    return {
        place: sorted({bound for file in files for bound in (file.start, file.end)})
        for place, files in _current(partitions, described).items()
    }


def compare(
    partitions: Partitions, described: Description, ranges: Iterable[Scanned], wrong: set[str], findings: Findings
) -> int:
    """Compare files with the remaining messages of their topics.

    Args:
        partitions: Files of the archive.
        described: Metadata of the topics.
        ranges: Results of reading the topics.
        wrong: Paths of damaged files.
        findings: Collector of findings.

    Returns:
        Number of compared files.
    """
    pieces: dict[Key, list[Piece]] = {}
    for one in ranges:
        pieces.setdefault((one.topic, one.partition), []).extend(one.pieces)
    compared = 0
    for place, files in _current(partitions, described).items():
        last, following = _last(files), described.partitions[place].next_offset
        if last.end > following:
            message = f"the topic ends at {following}, and the archive at {last.end}"
            findings.add(ARCHIVE, _where(last.key, last, following, last.end), message)
        ordered = sorted(pieces.get(place, ()))
        for file in files:
            of_it = [piece for piece in ordered if file.start <= piece.start and piece.end <= file.end]
            if file.mode != RAW or file.path in wrong or sum(piece.rows for piece in of_it) != file.rows:
                continue
            compared += 1
            if total(piece.digest for piece in of_it) != file.digest:
                message = "its messages are not those of the topic"
                findings.add(ARCHIVE, _where(file.key, file, file.start, file.end), message)
    return compared


def ends(partitions: Partitions, described: Description) -> dict[Key, int]:
    """Return the end of the archived messages for the partitions that exist now."""
    return {place: _last(files).end for place, files in _current(partitions, described).items()}


def _last(files: Sequence[ArchivedFile]) -> ArchivedFile:
    return max(files, key=lambda file: file.end)


def _current(partitions: Partitions, described: Description) -> dict[Key, Sequence[ArchivedFile]]:
    found = {}
    for key, files in partitions.items():
        topic = described.topics.get(key.topic)
        partition = described.partitions.get((key.topic, key.partition))
        if files and topic is not None and partition is not None:
            now = (topic.stream, str(topic.incarnation), partition.generation)
            if now == (key.stream, key.incarnation, key.generation):
                found[key.topic, key.partition] = files
    return found


def _where(key: PartitionKey, file: ArchivedFile, start: int | None, end: int | None = None) -> dict[str, Any]:
    where: dict[str, Any] = {"stream": key.stream, "topic": key.topic, "partition": key.partition, "path": file.path}
    if start is not None:
        where["offset"] = start
    if end is not None:
        where["until"] = end
    return where
