"""Creation of a plan from the configuration."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from pyspark_headrace.cluster.description import Topic
from pyspark_headrace.jobs.backfill.config import SAME, BackfillConfig
from pyspark_headrace.jobs.backfill.messages import too_long
from pyspark_headrace.jobs.backfill.plan import Plan, batches_of
from pyspark_headrace.jobs.origins.archive import ArchiveOrigin
from pyspark_headrace.jobs.origins.pieces import Extent, Origin
from pyspark_headrace.jobs.origins.topic import TopicOrigin
from pyspark_headrace.jobs.running.arguments import ArgumentError
from pyspark_headrace.jobs.tables.opening import open_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BATCH_BYTES: Final = 1 << 30
"""Maximum estimated size of a batch, which may be stored twice for a while."""


def origin_of(spark: SparkSession, config: BackfillConfig) -> Origin:
    """Open the source.

    Raises:
        OptionError: The archive has no such topic, or several.
        ArchiveError: The archive cannot be read.
    """
    if config.origin.kind == "archive":
        table = open_table(config, config.origin.where, is_iceberg=config.is_iceberg)
        return ArchiveOrigin(spark, table, config.from_stream, config.from_topic)
    return TopicOrigin(config.source_options(), config.from_stream or config.stream, config.origin.where)


def extents_of(config: BackfillConfig, origin: Origin) -> dict[int, Extent]:
    """Return the current range of each partition to replay.

    Raises:
        ArgumentError: Named offsets do not exist.
        HeadraceError: The source is unreachable.
    """
    found = origin.extents(config.since, config.until)
    if config.offsets is None:
        return {number: extent for number, extent in found.items() if extent.count}
    wanted: dict[int, Extent] = {}
    for number, (start, end) in sorted(config.offsets.items()):
        there = found.get(number)
        if there is None:
            raise ArgumentError(f"--offsets: there is no partition {number}")
        until = there.end if end is None else end
        if start > until:
            raise ArgumentError(f"--offsets: partition {number} ends at {until}, before {start}")
        if start < until and (start < there.start or until > there.end):
            raise ArgumentError(
                f"--offsets: partition {number} has messages {there.start} to {there.end}, and not {start} to {until}"
            )
        if start < until:
            size = there.size_bytes * (until - start) // there.count
            wanted[number] = Extent(start, until, there.generation, size)
    return wanted


def plan_of(config: BackfillConfig, origin: Origin, extents: Mapping[int, Extent], target: Topic) -> Plan:
    """Create a plan.

    Raises:
        ArgumentError: The target topic has too few partitions, or names are too long.
    """
    source = f"{config.origin.kind}:{origin.stream}/{origin.topic}"
    wrong = too_long(f"{source}/{max(extents, default=0)}")
    if wrong is not None:
        raise ArgumentError(wrong)
    have = {part.partition_id for part in target.partitions}
    lacking = sorted(extents.keys() - have)
    if config.partitioning == SAME and lacking:
        raise ArgumentError(
            f"{target.title} has {len(have)} partitions, and no partition {lacking[0]}, which --partitioning same needs"
        )
    batches = batches_of(extents, messages=config.messages_per_batch, size_bytes=BATCH_BYTES)
    return Plan(f"{uuid.uuid4()}/{batches}", config.asked(), source, target.incarnation, dict(extents), batches)


def check_same(plan: Plan, config: BackfillConfig) -> None:
    """Check that a plan was made for these arguments.

    Raises:
        ArgumentError: The arguments differ.
    """
    asked = config.asked()
    different = sorted(name for name in asked.keys() | plan.asked.keys() if asked.get(name) != plan.asked.get(name))
    if different:
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in different)
        raise ArgumentError(f"--checkpoint {config.checkpoint} is of a backfill with another {flags}")
