"""Driver of the job `compact`."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pyspark_headrace.jobs.compact.config import DELTA, NEVER, CompactConfig
from pyspark_headrace.jobs.compact.merging import Merged, merged
from pyspark_headrace.jobs.compact.planning import Group, plan
from pyspark_headrace.jobs.running.job import Context, Job
from pyspark_headrace.jobs.running.report import Finding, Report
from pyspark_headrace.jobs.running.tasks import run_tasks
from pyspark_headrace.jobs.tables.archive import Archive
from pyspark_headrace.jobs.tables.errors import ReplacedError
from pyspark_headrace.jobs.tables.files import ArchivedFile
from pyspark_headrace.jobs.tables.state import ArchiveState

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NAME: Final = "compact"
_GROUPS_PER_ROUND: Final = 64
"""Number of groups per commit: the work lost by a crash, and the time that a stop may take."""


class Compaction:
    """One run on a native archive."""

    def __init__(self, spark: SparkSession, config: CompactConfig, context: Context) -> None:
        self._spark = spark
        self._config = config
        self._context = context
        self._archive = Archive.open(config.dest)
        self._now = datetime.datetime.now(datetime.UTC)
        self.report = Report(
            counts=dict.fromkeys(
                (
                    "files_before",
                    "files_after",
                    "rows",
                    "merged_files",
                    "new_files",
                    "merged_bytes",
                    "new_bytes",
                    "refused_groups",
                    "skipped_groups",
                    "expired_files",
                    "expired_rows",
                    "orphans",
                    "orphan_bytes",
                ),
                0,
            )
        )

    def run(self) -> Report:
        """Merge files, expire messages and delete unused files."""
        report, archive = self.report, self._archive
        report.counts["files_before"] = len(archive.state().files)
        for step in (self._expire, self._merge, self._clean):
            if self._context.stop.is_set():
                report.status = "stopped"
                break
            step()
        state = archive.state()
        report.counts["files_after"] = len(state.files)
        report.counts["rows"] = state.rows
        report.details["version"] = state.version
        report.details["topics"] = _topics(state)
        return report

    def _merge(self) -> None:
        before = self._micros(self._config.older_than)
        groups = plan(
            self._archive.state().files.values(),
            target_bytes=self._config.target_bytes,
            min_files=self._config.min_files,
            before=before,
        )
        self._context.log.info("planned", groups=len(groups), files=sum(len(group.files) for group in groups))
        if self._config.dry_run:
            self._count(groups, [])
            self.report.details["groups"] = [
                {"topic": group.key.topic, "partition": group.key.partition, "files": len(group.files)}
                | {"start": group.files[0].start, "end": group.files[-1].end, "bytes": group.bytes}
                for group in groups
            ]
            return
        for done in range(0, len(groups), _GROUPS_PER_ROUND):
            if self._context.stop.is_set():
                self.report.status = "stopped"
                return
            self._context.progress.update("merging", done, len(groups))
            self._round(groups[done : done + _GROUPS_PER_ROUND])

    def _round(self, groups: Sequence[Group]) -> None:
        results = run_tasks(self._spark, partial(merged, self._config.dest), [[group] for group in groups])
        done = [(group, one.file) for group, one in zip(groups, results, strict=True) if one.file is not None]
        for one in results:
            if one.file is None:
                self._left(one)
        # Check the new files, since the old ones will be deleted.
        self._archive.store.check_written({file.path: file.bytes for _, file in done})
        while done:
            # Skip groups with files that a concurrent writer has replaced or removed.
            files = self._archive.state().files
            still = [(group, file) for group, file in done if all(one.path in files for one in group.files)]
            self.report.counts["refused_groups"] += len(done) - len(still)
            done = still
            try:
                self._archive.commit(
                    [file for _, file in done],
                    remove=[one.path for group, _ in done for one in group.files],
                    job=self._config.name or _NAME,
                )
            except ReplacedError:
                continue
            self._count([group for group, _ in done], [file for _, file in done])
            return

    def _count(self, groups: Sequence[Group], files: Sequence[ArchivedFile]) -> None:
        counts = self.report.counts
        counts["merged_files"] += sum(len(group.files) for group in groups)
        counts["merged_bytes"] += sum(group.bytes for group in groups)
        counts["new_files"] += len(files)
        counts["new_bytes"] += sum(file.bytes for file in files)
        if files:
            self._context.log.info("replaced", files=sum(len(group.files) for group in groups), by=len(files))
            rows, size = sum(group.rows for group in groups), sum(file.bytes for file in files)
            self._context.metrics.add(rows=rows, bytes=size)

    def _left(self, one: Merged) -> None:
        counts = self.report.counts
        file = self._archive.state().files.get(one.path)
        if file is None:
            counts["refused_groups"] += 1
            return
        counts["skipped_groups"] += 1
        where = {"topic": file.topic, "partition": file.partition, "path": file.path}
        is_damaged = one.reason.startswith(file.path)
        self.report.findings.append(
            Finding("archive" if is_damaged else "columns", "error" if is_damaged else "info", where, one.reason)
        )

    def _expire(self) -> None:
        if self._config.expire is None:
            return
        before = self._micros(self._config.expire)
        while True:
            old = [file for file in self._archive.state().files.values() if file.last_timestamp < before]
            try:
                if old and not self._config.dry_run:
                    self._archive.commit([], remove=[file.path for file in old], job=self._config.name or _NAME)
                break
            except ReplacedError:
                continue
        self.report.counts["expired_files"] = len(old)
        self.report.counts["expired_rows"] = sum(file.rows for file in old)

    def _clean(self) -> None:
        if self._config.remove_orphans_older_than == NEVER:
            return
        found = self._archive.orphans(self._config.remove_orphans_older_than)
        if not self._config.dry_run:
            self._archive.delete(stored.path for stored in found)
        self.report.counts["orphans"] = len(found)
        self.report.counts["orphan_bytes"] = sum(stored.size_bytes for stored in found)

    def _micros(self, ago: datetime.timedelta) -> int:
        return int((self._now - ago).timestamp() * 1_000_000)


def run(spark: SparkSession, config: CompactConfig, context: Context) -> Report:
    """Run the job."""
    if config.format == DELTA:
        from pyspark_headrace.jobs.compact.delta import compact  # noqa: PLC0415 - heavy

        return compact(config, context)
    return Compaction(spark, config, context).run()


def _topics(state: ArchiveState) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for key, files in state.partitions.items():
        topic = found.setdefault(f"{key.stream}/{key.topic}", {"files": 0, "rows": 0, "bytes": 0})
        topic["files"] += len(files)
        topic["rows"] += sum(file.rows for file in files)
        topic["bytes"] += sum(file.bytes for file in files)
    return found


JOB = Job(_NAME, "merges small files of an archive, and removes expired and unreferenced files", CompactConfig, run)
