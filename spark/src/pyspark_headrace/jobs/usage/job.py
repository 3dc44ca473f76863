"""Driver of the job `usage`."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pyspark_headrace.jobs.running.arguments import ArgumentError
from pyspark_headrace.jobs.running.job import Context, Job
from pyspark_headrace.jobs.running.report import Finding, Report
from pyspark_headrace.jobs.tables.opening import open_table
from pyspark_headrace.jobs.usage.config import UsageConfig
from pyspark_headrace.jobs.usage.period import HOUR_MICROS, time_of
from pyspark_headrace.jobs.usage.rows import KINDS, Row, by_tenant, rows_of
from pyspark_headrace.jobs.usage.tally import Counted, Place, hours_of, merged
from pyspark_headrace.jobs.usage.tenants import Tenants, tenants_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass
class _Found:
    """Result of the measurement."""

    partitions: list[Counted]
    stored: bool
    """True if storage was measured."""
    unknown: dict[Place, list[tuple[int, int]]] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)


def run(spark: SparkSession, config: UsageConfig, context: Context) -> Report:
    """Report traffic and storage of tenants, measured from the log itself."""
    tenants = Tenants() if config.tenants is None else tenants_of(config.tenants)
    bounds = config.period.hours(_until(config))
    if len(bounds) == 1 or bounds[-1] <= bounds[0]:
        raise ArgumentError(f"--period {config.period}: it has not begun, or its first hour is not over")
    found = _from_topics(spark, config, bounds) if config.archive is None else _from_archive(spark, config, bounds)
    topics: dict[Place, list[Counted]] = {}
    for counted in merged(found.partitions):
        topics.setdefault(counted.place, []).append(counted)
    rows: list[Row] = []
    for place, partitions in sorted(topics.items()):
        found.findings += _looked_at(place, partitions, config)
        hours = hours_of(partitions, bounds, found.unknown.get(place, ()))
        tenant = tenants.of(place)
        if tenant is None:
            where = {"stream": place.stream, "topic": place.topic}
            found.findings.append(Finding("tenants", "warning", where, f"{place.title} has no tenant: not counted"))
            continue
        end, stored = bounds[-1], found.stored
        rows += rows_of(tenant, place, hours, end=end, granularity=config.granularity, stored=stored)
    files = _written(spark, config, by_tenant(rows)) if not config.dry_run and not context.stop.is_set() else []
    return Report(
        status="stopped" if context.stop.is_set() else "done",
        counts={
            **{kind: sum(row.quantity for row in rows if row.kind == kind) for kind in KINDS},
            "rows": len(rows),
            "rows_incomplete": sum(not row.is_complete for row in rows),
            "tenants": len({row.tenant for row in rows}),
        },
        details={"since": _iso(bounds[0]), "until": _iso(bounds[-1]), "files": files},
        findings=found.findings,
    )


def _until(config: UsageConfig) -> int:
    now = time.time_ns() // 1000
    if config.until is None:
        return now - now % HOUR_MICROS
    if config.until > now:
        raise ArgumentError("--until: the time must be in the past")
    return config.until


def _from_topics(spark: SparkSession, config: UsageConfig, bounds: Sequence[int]) -> _Found:
    from pyspark_headrace.jobs.usage.topics import count_topics, stream_names  # noqa: PLC0415 - not for --help

    options = replace(config, stream=config.stream or "-").source_options()
    streams = stream_names(options) if config.streams is None else config.streams
    return _Found(count_topics(spark, options, streams, bounds), stored=True)


def _from_archive(spark: SparkSession, config: UsageConfig, bounds: Sequence[int]) -> _Found:
    from pyspark_headrace.jobs.usage.archives import Files  # noqa: PLC0415 - not for --help

    table = open_table(config, config.archive or "", is_iceberg=config.is_iceberg)
    files = Files(spark, table, config.streams)
    findings = [
        Finding(
            "archive",
            "error",
            {
                "stream": hole.key.stream,
                "topic": hole.key.topic,
                "partition": hole.key.partition,
                "start": hole.start,
                "end": hole.end,
            },
            "the archive lacks messages here",
        )
        for hole in files.holes
        if hole.since_micros < bounds[-1] and hole.until_micros >= bounds[0]
    ]
    return _Found(files.counted(bounds), stored=False, unknown=files.unknown, findings=findings)


def _looked_at(place: Place, partitions: Iterable[Counted], config: UsageConfig) -> list[Finding]:
    findings = []
    for counted in partitions:
        where = {"stream": place.stream, "topic": place.topic, "partition": int(counted.line.partition("/")[0])}
        if counted.lacks_first and not counted.before_bytes:
            why = "retention or a purge has taken them" if config.archive is None else "the archive was begun later"
            since = min(counted.hours, default=None)
            described = (
                "of the whole period"
                if since is None
                else f"of the hour that begins at {_iso(since)}, and of all before it"
            )
            message = f"messages {described} may be missing: {why}"
            findings.append(Finding("coverage", "warning", where, message))
        if counted.unknown_headers:
            message = f"headers of {counted.unknown_headers} messages are encrypted, and their bytes are not counted"
            findings.append(Finding("headers", "warning", where, message))
    return findings


def _written(spark: SparkSession, config: UsageConfig, tenants: dict[str, list[Row]]) -> list[str]:
    from pyspark_headrace.jobs.tables.stores import Store  # noqa: PLC0415 - not for --help
    from pyspark_headrace.jobs.usage.output import content_of, path_of, send, write_file  # noqa: PLC0415

    files = []
    if config.out is not None:
        store = Store.open(config.out, create=True)
        for tenant, rows in tenants.items():
            path = path_of(str(config.period), config.granularity, tenant, config.format)
            write_file(store, path, content_of(rows, config.format))
            files.append(path)
    if config.to_topic is not None and tenants:
        every = [row for rows in tenants.values() for row in rows]
        send(spark, every, config.source_options() | {"topic": config.to_topic})
    return files


def _iso(micros: int) -> str:
    return time_of(micros).isoformat().replace("+00:00", "Z")


JOB = Job("usage", "counts the messages and bytes that tenants have sent and stored", UsageConfig, run)
