"""Plan of a job from topic to topic."""

from __future__ import annotations

from pyspark.sql import DataFrame

from pyspark_headrace.cluster.gateway import Gateway
from pyspark_headrace.jobs.records.config import RecordsConfig
from pyspark_headrace.jobs.records.decoding import Ranges
from pyspark_headrace.jobs.running.report import Report
from pyspark_headrace.options.reading import read_options


def ranges_of(config: RecordsConfig) -> Ranges:
    """Return the start and end offsets of the source topics.

    Raises:
        ServerRefusedError: A topic does not exist, or the user is not authorized.
    """
    topics = _gateway(config).describe(config.stream, config.topics).topics
    return {
        name: {part.partition_id: (part.first_offset, part.next_offset) for part in topics[name].partitions}
        for name in config.topics
    }


def total(ranges: Ranges) -> int:
    """Total number of messages."""
    return sum(end - start for parts in ranges.values() for start, end in parts.values())


def planned(config: RecordsConfig, rows: DataFrame, *topics: str | None) -> Report:
    """Check all topics and report the number of messages.

    Args:
        config: Configuration of the job.
        rows: Planned output.
        topics: Target topics.

    Raises:
        ServerRefusedError: A topic does not exist, or the user is not authorized.
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
