"""A topic with all kinds of messages, and the results of a backfill."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import job_runs
import pytest
from place import Place
from pyspark.sql import SparkSession

from pyspark_headrace.jobs.backfill.job import JOB
from pyspark_headrace.jobs.backfill.messages import JOB as JOB_HEADER
from pyspark_headrace.jobs.backfill.messages import OFFSET, SOURCE
from pyspark_headrace.jobs.running.job import DONE

COLUMNS = "partition,offset,timestamp,origin_timestamp,id,key,value,headers"
_OURS = {SOURCE, OFFSET, JOB_HEADER}


def arguments(place: Place, checkpoint: Path | None, *more: str) -> list[str]:
    """Arguments of a backfill from topic `a` to topic `b`."""
    given = {"name": "again", "from": "topic:a", "to_topic": "b", "checkpoint": checkpoint}
    return [*job_runs.arguments(place, **given), *more]


def run(capfd: pytest.CaptureFixture[str], given: Sequence[str], code: int = DONE) -> dict[str, Any]:
    """Run the job in this process; returns its report."""
    return job_runs.run(JOB, capfd, given, code)


def fill(spark: SparkSession, place: Place, *counts: int, topic: str = "a", seed: int = 0) -> None:
    """Create a topic with messages with and without keys, headers, producer timestamps and ids."""
    place.client.create_topic(place.stream, topic, len(counts))
    chance = random.Random(seed)
    rows = [
        (
            partition,
            f"{partition}:{number}".encode(),
            f"k{chance.randrange(20)}".encode() if chance.random() < 0.7 else None,
            chance.randbytes(16),
            datetime.fromtimestamp(1_700_000_000 + number, UTC) if number % 2 else None,
            [(f"h{at}", chance.randbytes(chance.randrange(1, 9))) for at in range(chance.randrange(3))],
        )
        for partition, count in enumerate(counts)
        for number in range(count)
    ]
    frame = spark.createDataFrame(
        rows,
        "partition INT, value BINARY, key BINARY, id BINARY, origin_timestamp TIMESTAMP, "
        "headers ARRAY<STRUCT<key: STRING, value: BINARY>>",
    )
    options = place.options(topic=topic, partitioner="column", includeHeaders="true")
    frame.coalesce(1).write.format("headrace").mode("append").options(**options).save()


def messages(spark: SparkSession, place: Place, topic: str) -> dict[int, list[Any]]:
    """Return the messages of each partition, in order."""
    options = place.options(subscribe=topic, columns=COLUMNS)
    found = defaultdict(list)
    for row in spark.read.format("headrace").options(**options).load().collect():
        found[row.partition].append(row)
    return {partition: sorted(rows, key=lambda row: row.offset) for partition, rows in found.items()}


def content(row: Any) -> tuple[Any, ...]:
    """Parts of a message that a backfill preserves."""
    headers = [(header.key, bytes(header.value)) for header in row.headers if header.key not in _OURS]
    return (None if row.key is None else bytes(row.key), bytes(row.value), headers)


def origin(row: Any) -> dict[str, str]:
    """Origin headers of a message."""
    return {header.key: bytes(header.value).decode() for header in row.headers if header.key in _OURS}
