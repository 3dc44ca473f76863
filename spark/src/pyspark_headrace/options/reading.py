"""Options of reading, in batches and in streams."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pyspark_headrace.errors import OptionError
from pyspark_headrace.options.connection import ConnectionOptions
from pyspark_headrace.options.parsing import option, parse
from pyspark_headrace.options.values import (
    LATEST,
    PartitionOffsets,
    assignment,
    choice,
    integer,
    milliseconds,
    moment,
    moments,
    names,
    pattern,
    positions,
    size,
    truth,
    words,
)

BATCH_ONLY: Final = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")
STREAM_ONLY: Final = (
    "readerId",
    "maxOffsetsPerTrigger",
    "maxBytesPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "metadataMaxAgeMs",
)

ROWS_PER_SPLIT_MIN: Final = 100_000
"""Smaller splits cost more than they gain, unless the options request them."""
_BATCH_SPLIT_BYTES: Final = 256 << 20


@dataclass(frozen=True, kw_only=True)
class ReadOptions(ConnectionOptions):
    """Options of a read: topics, start and end, split sizes."""

    stream: str = option("stream", words, required=True)
    """Name of the stream."""
    subscribe: tuple[str, ...] | None = option("subscribe", names)
    """Names of topics."""
    subscribe_pattern: str | None = option("subscribePattern", pattern)
    """Regular expression that matches whole topic names."""
    assign: dict[str, tuple[int, ...]] | None = option("assign", assignment)
    """Partitions of topics."""
    starting_offsets: PartitionOffsets | str | None = option("startingOffsets", positions("earliest", "latest"))
    """Start offsets. Partitions that are not named start at their first message."""
    starting_timestamp: int | None = option("startingTimestamp", moment)
    """Start timestamp in microseconds: older messages are skipped."""
    starting_offsets_by_timestamp: PartitionOffsets | None = option("startingOffsetsByTimestamp", moments)
    """Start timestamps by partition."""
    starting_strategy: str = option("startingOffsetsByTimestampStrategy", choice("error", "latest"), "error")
    """Behaviour where all messages are older than the start timestamp."""
    ending_offsets: PartitionOffsets | str | None = option("endingOffsets", positions("latest"))
    """End offsets, exclusive."""
    ending_timestamp: int | None = option("endingTimestamp", moment)
    """End timestamp in microseconds, exclusive."""
    ending_offsets_by_timestamp: PartitionOffsets | None = option("endingOffsetsByTimestamp", moments)
    """End timestamps by partition."""
    reader_id: str | None = option("readerId", words)
    """Name under which the server keeps the start offsets of the query, until the query has made progress."""
    max_offsets_per_trigger: int | None = option("maxOffsetsPerTrigger", integer(1))
    """Maximum number of messages in a micro-batch."""
    max_bytes_per_trigger: int | None = option("maxBytesPerTrigger", size(1))
    """Maximum estimated number of bytes in a micro-batch."""
    min_offsets_per_trigger: int | None = option("minOffsetsPerTrigger", integer(1))
    """Minimum number of messages before the next micro-batch starts."""
    max_trigger_delay_ms: int = option("maxTriggerDelay", milliseconds(1), 900_000)
    """Maximum time to wait for `minOffsetsPerTrigger`."""
    min_partitions: int | None = option("minPartitions", integer(1, 100_000))
    """Minimum number of tasks, if there are as many messages."""
    max_records_per_partition: int | None = option("maxRecordsPerPartition", integer(1))
    """Maximum number of messages in a task."""
    max_bytes_per_partition: int | None = option("maxBytesPerPartition", size(1))
    """Maximum estimated number of bytes in a task. Default for batches: 256m."""
    fail_on_data_loss: bool = option("failOnDataLoss", truth, default=True)
    """Fail the query if messages are missing; otherwise continue with the remaining ones."""
    include_headers: bool = option("includeHeaders", truth, default=False)
    """Include the column `headers`."""
    columns: tuple[str, ...] | None = option("columns", names)
    """Columns, in this order."""
    isolation: str = option("isolation", choice("committed"), "committed")
    """Isolation level: committed messages only."""
    verify_checksums: bool = option("verifyChecksums", truth, default=True)
    """Check every message's checksum."""
    batch_rows: int = option("batchRows", integer(1, 1_000_000), 16384)
    """Number of rows in a record batch passed to Spark."""
    batch_bytes: int = option("batchBytes", size(1, 1 << 30), 4 << 20)
    """Number of bytes in a record batch passed to Spark."""
    fetch_bytes: int = option("fetchBytes", size(1024, 64 << 20), 1 << 20)
    """Maximum number of bytes in a response of a server."""
    fetch_timeout_ms: int = option("fetchTimeoutMs", milliseconds(1), 120_000)
    """Maximum time between two responses."""
    prefetch_chunks: int = option("prefetchChunks", integer(1, 1000), 4)
    """Number of responses to prefetch."""
    metadata_max_age_ms: int = option("metadataMaxAgeMs", milliseconds(0), 200)
    """Maximum age of cached topic metadata."""
    emit: str = option("emit", choice("records", "ranges"), "records")
    """Output: messages, or one row per range that a task would read."""


def read_options(given: Mapping[str, str]) -> ReadOptions:
    """Parse the options common to batches and streams.

    Raises:
        OptionError: An option is unknown, missing or invalid, or options contradict each other.
    """
    options = parse(ReadOptions, given).checked()
    chosen = (options.subscribe, options.subscribe_pattern, options.assign)
    if sum(way is not None for way in chosen) != 1:
        raise OptionError("exactly one of subscribe, subscribePattern and assign is needed")
    if options.columns is not None and options.include_headers and "headers" not in options.columns:
        raise OptionError("includeHeaders = true, but columns has no headers")
    if options.emit == "ranges" and (options.columns is not None or options.include_headers):
        raise OptionError("emit = ranges has columns of its own: leave columns and includeHeaders away")
    return options


def batch_options(given: Mapping[str, str]) -> ReadOptions:
    """Parse the options of a batch.

    Raises:
        OptionError: See `read_options`; or an option is for streams only.
    """
    _without(given, STREAM_ONLY, "streams (readStream)")
    options = read_options(given)
    if _asks_for_latest(options.starting_offsets):
        raise OptionError("startingOffsets: a batch that begins behind the last message has nothing to read")
    if isinstance(options.ending_offsets, dict) and any(
        offset < LATEST for partitions in options.ending_offsets.values() for offset in partitions.values()
    ):
        raise OptionError("endingOffsets: -2 (earliest) is where a batch may begin, not where it ends")
    return options


def stream_options(given: Mapping[str, str]) -> ReadOptions:
    """Parse the options of a stream.

    Raises:
        OptionError: See `read_options`; or an option is for batches only.
    """
    _without(given, BATCH_ONLY, "batches (read)")
    options = read_options(given)
    least, most = options.min_offsets_per_trigger, options.max_offsets_per_trigger
    if least is not None and most is not None and least > most:
        raise OptionError("minOffsetsPerTrigger is more than maxOffsetsPerTrigger")
    return options


def split_bytes(options: ReadOptions, *, is_batch: bool) -> int | None:
    """Return the maximum number of bytes of a task; None if no limit is set."""
    return options.max_bytes_per_partition or (_BATCH_SPLIT_BYTES if is_batch else None)


def _asks_for_latest(starting: PartitionOffsets | str | None) -> bool:
    if isinstance(starting, dict):
        return any(offset == LATEST for partitions in starting.values() for offset in partitions.values())
    return starting == "latest"


def _without(given: Mapping[str, str], names_refused: tuple[str, ...], where: str) -> None:
    lower = {name.lower() for name in given}
    for name in names_refused:
        if name.lower() in lower:
            raise OptionError(f"option {name} is for {where}")
