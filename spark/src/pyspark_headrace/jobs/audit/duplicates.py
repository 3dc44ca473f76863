"""Detection of messages with equal ids: the only check that compares messages of different tasks."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping
from functools import reduce
from itertools import groupby
from typing import TYPE_CHECKING, Final

from pyspark_headrace.jobs.audit.config import DUP_ID, AuditConfig
from pyspark_headrace.jobs.audit.findings import Findings
from pyspark_headrace.jobs.audit.scanned import Scanned

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_LISTED: Final = 1000
_READS_MOST: Final = 50
"""Maximum number of readable ranges of a partition, between unreadable messages."""

Ranges = dict[tuple[str, int], list[tuple[int, int]]]
"""Readable ranges of each partition."""


def find_duplicates(spark: SparkSession, config: AuditConfig, ranges: Iterable[Scanned], findings: Findings) -> None:
    """Compare the ids of messages within each topic.

    Args:
        spark: The session.
        config: Configuration of the job.
        ranges: Results of the earlier read, including unreadable ranges.
        findings: Collector of findings.
    """
    readable = _readable(ranges)
    for (topic, partition), parts in readable.items():
        if len(parts) > _READS_MOST:
            where = {"stream": config.stream, "topic": topic, "partition": partition, "offset": parts[_READS_MOST][0]}
            findings.add(DUP_ID, where, "ids behind this were not compared: too much cannot be read", "info")
    frames = [
        _ids(spark, config, {key: parts[number] for key, parts in readable.items() if number < len(parts)})
        for number in range(min(_READS_MOST, max(map(len, readable.values()), default=0)))
    ]
    if not frames:
        return
    ids = reduce(lambda left, right: left.union(right), frames)
    if config.sample < 1.0:
        # Sample by id: messages with equal ids are either all in the sample or all outside.
        ids = ids.where(f"pmod(xxhash64(id), 1000000) < {int(config.sample * 1_000_000)}")
    twice = (
        ids.groupBy("topic", "id")
        .agg(*_places())
        .where("count > 1")
        .orderBy("topic", "last.partition", "last.offset")
        .limit(_LISTED)
        .collect()
    )
    for row in twice:
        first, last = row["first"], row["last"]
        where = {
            "stream": config.stream,
            "topic": row["topic"],
            "partition": last["partition"],
            "offset": last["offset"],
            "id": str(uuid.UUID(bytes=bytes(row["id"]))),
            "first": {"partition": first["partition"], "offset": first["offset"]},
        }
        message = (
            f"{row['count']} messages have the same id, the first of them in partition {first['partition']} at"
            f" {first['offset']}, the last in partition {last['partition']} at {last['offset']}"
        )
        findings.add(DUP_ID, where, message)


def _places() -> tuple[Column, ...]:
    from pyspark.sql.functions import count, max_by, min_by, struct  # noqa: PLC0415 - jobs are listed without it

    place, order = struct("partition", "offset"), struct("timestamp", "partition", "offset")
    return count("*").alias("count"), min_by(place, order).alias("first"), max_by(place, order).alias("last")


def _ids(spark: SparkSession, config: AuditConfig, ranges: Mapping[tuple[str, int], tuple[int, int]]) -> DataFrame:
    begin: dict[str, dict[str, int]] = {}
    end: dict[str, dict[str, int]] = {}
    for (topic, partition), (start, until) in ranges.items():
        begin.setdefault(topic, {})[str(partition)] = start
        end.setdefault(topic, {})[str(partition)] = until
    return (
        spark.read.format("headrace")
        .options(**config.source_options())
        .option("assign", json.dumps({topic: [int(number) for number in parts] for topic, parts in begin.items()}))
        .option("startingOffsets", json.dumps(begin))
        .option("endingOffsets", json.dumps(end))
        .option("columns", "topic,partition,offset,timestamp,id")
        # Messages that retention removes during the audit are no fault. The remaining ones are compared.
        .option("failOnDataLoss", "false")
        .load()
    )


def _readable(ranges: Iterable[Scanned]) -> Ranges:
    ordered = sorted(ranges, key=lambda one: (one.topic, one.partition, one.start))
    found: Ranges = {}
    for key, of_it in groupby(ordered, key=lambda one: (one.topic, one.partition)):
        parts: list[tuple[int, int]] = []
        for one in of_it:
            position = one.start + one.removed
            for start, end, _ in one.unreadable:
                parts.append((position, start))
                position = end
            parts.append((position, one.end))
        found[key] = _joined(parts)
    return {key: parts for key, parts in found.items() if parts}


def _joined(parts: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for start, end in parts:
        if start >= end:
            continue
        if joined and joined[-1][1] == start:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    return joined
