"""Driver of the job `audit`."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from pyspark_headrace.cluster.description import EMPTY, Description, Key
from pyspark_headrace.cluster.gateway import Gateway
from pyspark_headrace.columns.digest import total
from pyspark_headrace.jobs.audit.archived import ArchiveCheck
from pyspark_headrace.jobs.audit.config import DUP_ID, RETENTION, AuditConfig
from pyspark_headrace.jobs.audit.duplicates import find_duplicates
from pyspark_headrace.jobs.audit.findings import Findings
from pyspark_headrace.jobs.audit.folding import fold, time_of
from pyspark_headrace.jobs.audit.retention import check_retention
from pyspark_headrace.jobs.audit.scanned import Scanned
from pyspark_headrace.jobs.audit.scanning import Scanning
from pyspark_headrace.jobs.running.job import Context, Job
from pyspark_headrace.jobs.running.report import Report
from pyspark_headrace.jobs.running.tasks import row_by_row, unpacked
from pyspark_headrace.jobs.tables.errors import StoreError
from pyspark_headrace.jobs.tables.stores import Store
from pyspark_headrace.options.reading import batch_options
from pyspark_headrace.read.planning import Planner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SAMPLES: Final = 1_000_000


class Audit:
    """One run of the job."""

    def __init__(self, spark: SparkSession, config: AuditConfig, context: Context) -> None:
        self._spark = spark
        self._config = config
        self._context = context
        self._findings = Findings(config.checks)
        self._ranges: list[Scanned] = []
        self._described: Description = EMPTY
        self._archived: ArchiveCheck | None = None
        self.report = Report()

    def run(self) -> Report:
        """Run all selected checks, as far as possible before a request to stop."""
        config, report = self._config, self.report
        if config.reads_archive:
            self._archived = ArchiveCheck(self._spark, config, self._findings)
            report.details["archive_version"] = self._archived.version
        if config.servers:
            self._described = Planner(batch_options(config.subscription())).describe()
        if config.dry_run:
            self._plan()
            return report
        for step in (self._archive, self._topics, self._duplicates, self._compare):
            if self._context.stop.is_set():
                report.status = "stopped"
                break
            step()
        report.findings = self._findings.listed
        report.counts["findings"] = self._findings.count
        report.details["ranges"] = _summary(self._ranges)
        if config.out is not None:
            try:
                self._write(config.out)
            except StoreError as error:
                # Report the findings in spite of the failure.
                report.status, report.error = "failed", str(error)
        return report

    def _plan(self) -> None:
        report = self.report
        report.counts["partitions"] = len(self._described.partitions)
        report.counts["messages"] = sum(
            one.next_offset - one.first_offset for one in self._described.partitions.values()
        )
        report.counts["files"] = 0 if self._archived is None else len(self._archived.files)

    def _archive(self) -> None:
        if self._archived is not None:
            self._context.progress.update("checking files")
            self._archived.check_table()
            counts = self.report.counts
            counts["files"], counts["files_with_findings"] = self._archived.check_files()

    def _topics(self) -> None:
        if not self._described.partitions:
            return
        config = self._config
        self._context.progress.update("reading topics")
        given = config.subscription()
        bounds: Mapping[Key, Sequence[int]] = {} if self._archived is None else self._archived.bounds(self._described)
        scanning = Scanning(batch_options(given), bounds, config.size_limit)
        splits = (
            self._spark.read.format("headrace")
            .options(**given, emit="ranges")
            .schema("topic STRING, partition INT, start BIGINT, split BINARY")
            .load()
        )
        if config.sample < 1.0:
            splits = splits.where(
                f"pmod(xxhash64(topic, partition, start), {_SAMPLES}) < {config.sample * _SAMPLES:.0f}"
            )
        scan = row_by_row(scanning, "binary")
        self._ranges = [unpacked(row[0]) for row in splits.select(scan("split")).collect()]
        fold(self._ranges, self._findings, is_sample=config.sample < 1.0)
        counts = self.report.counts
        counts["partitions"] = len(self._described.partitions)
        counts["ranges"] = len(self._ranges)
        counts["rows"] = sum(one.rows for one in self._ranges)
        counts["unreadable"] = sum(one.unreadable_count for one in self._ranges)
        self._context.metrics.add(rows=int(counts["rows"]))

    def _duplicates(self) -> None:
        if DUP_ID in self._config.checks and self._ranges:
            self._context.progress.update("comparing ids")
            find_duplicates(self._spark, self._config, self._ranges, self._findings)

    def _compare(self) -> None:
        if not self._described.partitions:
            return
        ends: dict[Key, int] = {}
        if self._archived is not None:
            ends = self._archived.ends(self._described)
            self.report.counts["files_compared"] = self._archived.compare(self._described, self._ranges)
        if RETENTION in self._config.checks:
            gateway = Gateway(batch_options(self._config.subscription()))
            check_retention(gateway, self._described, self._ranges, ends, time.time_ns() // 1000, self._findings)

    def _write(self, uri: str) -> None:
        store = Store.open(uri, create=True)
        now = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
        tables = {
            "findings": [asdict(finding) for finding in self.report.findings],
            "ranges": [asdict(one) | {"digest": f"{one.digest:016x}"} for one in self._ranges],
        }
        for name, rows in tables.items():
            text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
            path = f"{name}/{self._config.name or 'audit'}-{now}.jsonl"
            store.create(path, text.encode())
            self.report.details.setdefault("written", []).append(path)


def _summary(ranges: Sequence[Scanned]) -> dict[str, dict[str, Any]]:
    """Summarize the messages read per partition. The digest equals that of `archive` and of any other reader."""
    found: dict[str, dict[str, Any]] = {}
    for one in sorted(ranges, key=lambda one: (one.topic, one.partition, one.start)):
        entry = found.setdefault(
            f"{one.stream}/{one.topic}/{one.partition}", {"start": one.start, "rows": 0, "digest": 0}
        )
        entry["end"] = one.end
        entry["rows"] += one.rows
        entry["digest"] = total((entry["digest"], one.digest))
        if one.rows:
            entry.setdefault("first", time_of(one.first_timestamp))
            entry["last"] = time_of(one.last_timestamp)
    return {place: entry | {"digest": f"{entry['digest']:016x}"} for place, entry in found.items()}


def run(spark: SparkSession, config: AuditConfig, context: Context) -> Report:
    """Run the job."""
    return Audit(spark, config, context).run()


JOB = Job("audit", "checks topics and archives for gaps, duplicates and damage", AuditConfig, run)
