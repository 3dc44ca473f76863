"""Run of the job `compact`."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
from deltalake import DeltaTable, WriterProperties
from deltalake.exceptions import CommitFailedError, DeltaError

from pyspark_headrace.jobs.compact.config import NEVER, CompactConfig
from pyspark_headrace.jobs.running.job import Context, Job
from pyspark_headrace.jobs.running.report import Report
from pyspark_headrace.jobs.tables.delta import PARTITIONED_BY, DeltaLakeTable
from pyspark_headrace.jobs.tables.errors import StoreError
from pyspark_headrace.jobs.tables.failures import said

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ROW_GROUP_ROWS: Final = 1 << 16
"""Small enough for readers of a range to pass over most of a merged file, by the statistics of its row groups."""
_ZSTD_LEVEL: Final = 3
_HOUR: Final = datetime.timedelta(hours=1)


class _Day(NamedTuple):
    """Partition of the table, as written by `archive`."""

    stream: str
    topic: str
    date: str


def run(_: SparkSession, config: CompactConfig, context: Context) -> Report:
    """Merge files, expire messages and delete unused files.

    Raises:
        ArchiveError: An earlier release has written the archive.
        StoreError: The table does not exist, or cannot be read or written.
    """
    table = DeltaLakeTable(config.dest).delta
    try:
        return _compact(table, config, context)
    except (DeltaError, OSError) as error:
        raise StoreError(f"{config.dest}: {said(error)}") from None


def _compact(table: DeltaTable, config: CompactConfig, context: Context) -> Report:
    report = Report()
    now = datetime.datetime.now(datetime.UTC)
    counts = report.counts
    counts |= dict.fromkeys(("merged_files", "new_files", "refused_days", "expired_files", "orphans"), 0)
    counts["files_before"] = len(table.file_uris())
    if config.expire is not None:
        # Expire whole days, which changes the log only.
        old = f"date < '{(now - config.expire).date().isoformat()}'"
        if config.dry_run:
            counts["expired_files"] = sum(_is_older(day, (now - config.expire).date()) for day in _days_of_files(table))
        else:
            counts["expired_files"] = table.delete(old)["num_removed_files"]
    days = list(_days(table, config, now))
    report.details["days"] = ["/".join(day) for day in days]
    for number, day in enumerate([] if config.dry_run else days):
        if context.stop.is_set():
            report.status = "stopped"
            return report
        context.progress.update("merging", number, len(days))
        try:
            done = table.optimize.compact(
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
            table.update_incremental()
            continue
        counts["merged_files"] += done["numFilesRemoved"]
        counts["new_files"] += done["numFilesAdded"]
    if config.remove_orphans_older_than != NEVER:
        orphans = table.vacuum(
            retention_hours=config.remove_orphans_older_than // _HOUR,
            dry_run=config.dry_run,
            enforce_retention_duration=False,
            full=True,
        )
        counts["orphans"] = len(orphans)
    counts["files_after"] = len(table.file_uris())
    report.details["version"] = table.version()
    return report


def _days(table: DeltaTable, config: CompactConfig, now: datetime.datetime) -> Iterator[_Day]:
    """Yield days with enough small files and without messages that are too recent."""
    found: dict[_Day, list[dict[str, Any]]] = {}
    for file in _files(table):
        found.setdefault(_day(file), []).append(file)
    for day in sorted(found):
        newest = max(file["max.timestamp"] for file in found[day])
        small = sum(file["size_bytes"] < config.target_bytes // 2 for file in found[day])
        if small >= config.min_files and newest < now - config.older_than:
            yield day


def _days_of_files(table: DeltaTable) -> Iterator[_Day]:
    return (_day(file) for file in _files(table))


def _is_older(day: _Day, date: datetime.date) -> bool:
    return day.date < date.isoformat()


def _day(file: dict[str, Any]) -> _Day:
    return _Day(*(str(file[f"partition.{name}"]) for name in PARTITIONED_BY))


def _files(table: DeltaTable) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    return rows


JOB = Job(
    "compact",
    "merges small files of an archive, and removes expired and unreferenced files",
    CompactConfig,
    run,
    needs_spark=False,
)
