"""Run of the job `compact`."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from deltalake import WriterProperties
from deltalake.exceptions import CommitFailedError, DeltaError

from pyspark_headrace.jobs.compact.config import NEVER, CompactConfig
from pyspark_headrace.jobs.running.job import Context, Job
from pyspark_headrace.jobs.running.report import Finding, Report
from pyspark_headrace.jobs.tables.delta import PARTITIONED_BY, DeltaLakeTable
from pyspark_headrace.jobs.tables.errors import FileError, StoreError
from pyspark_headrace.jobs.tables.failures import said
from pyspark_headrace.jobs.tables.reading import keys_of, part_of, runs_of
from pyspark_headrace.jobs.tables.table import TableFile
from pyspark_headrace.jobs.tables.verifying import Verifying

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ROW_GROUP_ROWS: Final = 1 << 16
"""Small enough for readers of a range to pass over most of a merged file, by the statistics of its row groups."""
_ZSTD_LEVEL: Final = 3
_HOUR: Final = datetime.timedelta(hours=1)


_Day = tuple[str, str, str]
"""Partition of the table, as written by `archive`: stream, topic and date."""


def run(_: SparkSession, config: CompactConfig, context: Context) -> Report:
    """Merge files, expire messages and delete unused files.

    Raises:
        ArchiveError: An earlier release has written the archive.
        StoreError: The table does not exist, or cannot be read or written.
    """
    table = DeltaLakeTable(config.dest)
    try:
        return _compact(table, config, context)
    except (DeltaError, OSError) as error:
        raise StoreError(f"{config.dest}: {said(error)}") from None


def _compact(table: DeltaLakeTable, config: CompactConfig, context: Context) -> Report:
    report = Report()
    now = datetime.datetime.now(datetime.UTC)
    counts, delta = report.counts, table.delta
    counts |= dict.fromkeys(
        ("merged_files", "new_files", "refused_days", "skipped_days", "expired_files", "orphans"), 0
    )
    counts["files_before"] = len(table.files())
    if config.expire is not None:
        # Expire whole days, which changes the log only.
        limit = (now - config.expire).date().isoformat()
        if config.dry_run:
            counts["expired_files"] = sum(file.date < limit for file in table.files())
        else:
            counts["expired_files"] = delta.delete(f"date < '{limit}'")["num_removed_files"]
    days = list(_days(table, config, now))
    report.details["days"] = ["/".join(day) for day, _ in days]
    for number, (day, files) in enumerate([] if config.dry_run else days):
        if context.stop.is_set():
            report.status = "stopped"
            return report
        context.progress.update("merging", number, len(days))
        # The library would copy damage into files without checksums.
        damage = [finding for file in files for finding in _damage(table, file)]
        if damage:
            report.findings += damage
            counts["skipped_days"] += 1
            continue
        try:
            done = delta.optimize.compact(
                partition_filters=[(name, "=", value) for name, value in zip(PARTITIONED_BY, day, strict=True)],
                target_size=config.target_bytes,
                writer_properties=WriterProperties(
                    compression="ZSTD", compression_level=_ZSTD_LEVEL, max_row_group_size=_ROW_GROUP_ROWS
                ),
            )
        except CommitFailedError as error:
            # A concurrent writer has removed or merged the same files. Concurrent appends of `archive` do not conflict.
            context.log.info("unchanged", day="/".join(day), reason=said(error))
            counts["refused_days"] += 1
            delta.update_incremental()
            continue
        counts["merged_files"] += done["numFilesRemoved"]
        counts["new_files"] += done["numFilesAdded"]
    if config.remove_orphans_older_than != NEVER:
        orphans = delta.vacuum(
            retention_hours=config.remove_orphans_older_than // _HOUR,
            dry_run=config.dry_run,
            enforce_retention_duration=False,
            full=True,
        )
        counts["orphans"] = len(orphans)
    counts["files_after"] = len(table.files())
    report.details["version"] = table.version
    return report


def _days(
    table: DeltaLakeTable, config: CompactConfig, now: datetime.datetime
) -> Iterator[tuple[_Day, list[TableFile]]]:
    """Yield days with enough small files and without messages that are too recent, with the files to merge."""
    found: dict[_Day, list[TableFile]] = {}
    for file in table.files():
        found.setdefault((file.stream, file.topic, file.date), []).append(file)
    before = int((now - config.older_than).timestamp() * 1_000_000)
    for day, files in sorted(found.items()):
        small = sum(file.bytes < config.target_bytes // 2 for file in files)
        if small >= config.min_files and max(file.times.most for file in files) < before:
            # The library rewrites these.
            yield day, [file for file in files if file.bytes < config.target_bytes]


def _damage(table: DeltaLakeTable, file: TableFile) -> list[Finding]:
    """Compare a file with its checksums and its digest, or with the table if it was merged."""
    where = {"stream": file.stream, "topic": file.topic, "path": file.path}
    runs = runs_of(table.place, file)
    if isinstance(runs, FileError):
        return [Finding("archive", "error", where, runs.what)]
    keys = keys_of(table, {(file.stream, file.topic, run.partition) for run in runs})
    parts = [part_of(file, run, keys[file.stream, file.topic, run.partition][0]) for run in runs]
    problems = Verifying(table.place, file, parts, table.is_raw).verified().problems
    return [
        Finding("archive", "error", where | ({} if one.offset is None else {"offset": one.offset}), one.what)
        for one in problems
    ]


JOB = Job(
    "compact",
    "merges small files of an archive, and removes expired and unreferenced files",
    CompactConfig,
    run,
    needs_spark=False,
)
