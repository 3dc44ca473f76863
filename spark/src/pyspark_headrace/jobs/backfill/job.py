"""``headrace-spark backfill``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark_headrace.cluster.gateway import Gateway
from pyspark_headrace.errors import DataLossError
from pyspark_headrace.jobs.backfill.config import BY_KEY, BackfillConfig
from pyspark_headrace.jobs.backfill.plan import Plan, batches_of
from pyspark_headrace.jobs.backfill.planning import BATCH_BYTES, check_same, extents_of, origin_of, plan_of
from pyspark_headrace.jobs.origins.pieces import Extent, Origin
from pyspark_headrace.jobs.running.arguments import ArgumentError
from pyspark_headrace.jobs.running.job import Context, Job
from pyspark_headrace.jobs.running.report import Report
from pyspark_headrace.options.writing import WriteOptions, write_options
from pyspark_headrace.write.target import find

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run(spark: SparkSession, config: BackfillConfig, context: Context) -> Report:
    """Replay messages of an archive, or of a range of a topic, into a topic."""
    from pyspark_headrace.jobs.backfill.ledger import Ledger  # noqa: PLC0415
    from pyspark_headrace.jobs.backfill.running import Runner  # noqa: PLC0415
    from pyspark_headrace.jobs.tables.stores import Store  # noqa: PLC0415 - heavy, and of no use for --help

    origin = origin_of(spark, config)
    if config.dry_run:
        return _foretold(config, origin, extents_of(config, origin))
    options = _options(config)
    ledger = Ledger(Store.open(config.checkpoint, create=True), options, config.name)
    plan = ledger.plan()
    if plan is not None and not config.resume:
        raise ArgumentError(
            f"--checkpoint {config.checkpoint} has a backfill: continue it with --resume, or choose another checkpoint"
        )
    if plan is None:
        plan = _planned(config, origin, options)
        ledger.keep(plan)
    check_same(plan, config)
    topic = Gateway(options).describe(options.stream, (config.to_topic,)).topics[config.to_topic]
    if topic.incarnation != plan.target_incarnation:
        raise DataLossError(f"{topic.title} was created again since the backfill was planned")
    runner = Runner(spark, config, context, options, origin)
    is_done = runner.run(plan, ledger, topic)
    counts: dict[str, int | float] = dict(runner.counts)
    counts["messages_per_second"] = round(counts["messages"] / (runner.writing_seconds or 1.0), 1)
    details = _described(plan.extents) | {"batches": plan.batches, "source": plan.source}
    return Report(status="done" if is_done else "stopped", counts=counts, details=details)


def _planned(config: BackfillConfig, origin: Origin, options: WriteOptions) -> Plan:
    extents = extents_of(config, origin)
    if options.create_topic:
        options = _options(config, partitions=max(extents, default=0) + 1)
    return plan_of(config, origin, extents, find(options, config.to_topic).topic)


def _options(config: BackfillConfig, *, partitions: int | None = None) -> WriteOptions:
    given = config.source_options() | {
        "topic": config.to_topic,
        "guarantee": config.guarantee,
        "partitioner": "key" if config.partitioning == BY_KEY else "column",
        "includeHeaders": "true",
        "createTopic": "true" if config.create_topic else "false",
    }
    if partitions is not None:
        given["partitions"] = str(partitions)
    return write_options(given)


def _foretold(config: BackfillConfig, origin: Origin, extents: dict[int, Extent]) -> Report:
    batches = batches_of(extents, messages=config.messages_per_batch, size_bytes=BATCH_BYTES)
    details = _described(extents) | {
        "batches": batches,
        "source": f"{config.origin.kind}:{origin.stream}/{origin.topic}",
    }
    return Report(
        counts={
            "messages": sum(extent.count for extent in extents.values()),
            "bytes": sum(extent.size_bytes for extent in extents.values()),
        },
        details=details,
    )


def _described(extents: dict[int, Extent] | Any) -> dict[str, Any]:
    ranges = [
        {
            "partition": number,
            "start": extent.start,
            "end": extent.end,
            "messages": extent.count,
            "bytes": extent.size_bytes,
        }
        for number, extent in sorted(extents.items())
    ]
    return {"ranges": ranges}


JOB = Job("backfill", "replays messages of an archive, or of a range of a topic, into a topic", BackfillConfig, run)
