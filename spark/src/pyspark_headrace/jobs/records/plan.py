"""What a job from topic to topic would do."""

from __future__ import annotations

from pyspark.sql import DataFrame

from pyspark_headrace.gateway import Gateway
from pyspark_headrace.jobs.records.config import RecordsConfig
from pyspark_headrace.jobs.records.decoding import Ranges
from pyspark_headrace.jobs.running.report import Report
from pyspark_headrace.options.reading import read_options


def ranges_of(config: RecordsConfig) -> Ranges:
    """Look where the topics that are read begin and end.

    Raises:
        ServerRefusedError: One of them is not there, or not for this user.
    """
    topics = _gateway(config).describe(config.stream, config.topics).topics
    return {
        name: {part.partition_id: (part.first_offset, part.next_offset) for part in topics[name].partitions}
        for name in config.topics
    }


def total(ranges: Ranges) -> int:
    """How many messages there are."""
    return sum(end - start for parts in ranges.values() for start, end in parts.values())


def planned(config: RecordsConfig, rows: DataFrame, *topics: str | None) -> Report:
    """Look at all topics, and tell how much there is.

    Args:
        config: Of the job.
        rows: What it would write.
        topics: Where.

    Raises:
        ServerRefusedError: One of them is not there, or not for this user.
    """
    there = {name: total({name: parts}) for name, parts in ranges_of(config).items()}
    wanted = [topic for topic in topics if topic]
    if wanted:
        _gateway(config).describe(config.stream, wanted)
    return Report(
        counts={"in": sum(there.values())},
        details={"topics": there, "to": wanted, "columns": [f"{name} {kind}" for name, kind in rows.dtypes]},
    )


def _gateway(config: RecordsConfig) -> Gateway:
    return Gateway(read_options(config.source_options() | config.reading()))
