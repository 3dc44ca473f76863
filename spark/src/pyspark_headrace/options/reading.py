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
"""Smaller splits cost more than they bring, unless somebody asks for them."""
_BATCH_SPLIT_BYTES: Final = 256 << 20


@dataclass(frozen=True, kw_only=True)
class ReadOptions(ConnectionOptions):
    """What is read, from where to where, and in which pieces."""

    stream: str = option("stream", words, required=True)
    """Name of the stream."""
    subscribe: tuple[str, ...] | None = option("subscribe", names)
    """Topics."""
    subscribe_pattern: str | None = option("subscribePattern", pattern)
    """Topics whose whole name matches."""
    assign: dict[str, tuple[int, ...]] | None = option("assign", assignment)
    """Partitions of topics."""
    starting_offsets: PartitionOffsets | str | None = option("startingOffsets", positions("earliest", "latest"))
    """Where to begin. Partitions that are not named begin at their first message."""
    starting_timestamp: int | None = option("startingTimestamp", moment)
    """Microseconds: begin with what is not older."""
    starting_offsets_by_timestamp: PartitionOffsets | None = option("startingOffsetsByTimestamp", moments)
    """The same for partitions."""
    starting_strategy: str = option("startingOffsetsByTimestampStrategy", choice("error", "latest"), "error")
    """What to do where everything is older."""
    ending_offsets: PartitionOffsets | str | None = option("endingOffsets", positions("latest"))
    """Where to end, exclusive."""
    ending_timestamp: int | None = option("endingTimestamp", moment)
    """Microseconds: end before what is not older."""
    ending_offsets_by_timestamp: PartitionOffsets | None = option("endingOffsetsByTimestamp", moments)
    """The same for partitions."""
    reader_id: str | None = option("readerId", words)
    """Name under which the server keeps where the query began, until that has made progress."""
    max_offsets_per_trigger: int | None = option("maxOffsetsPerTrigger", integer(1))
    """Messages of one micro-batch."""
    max_bytes_per_trigger: int | None = option("maxBytesPerTrigger", size(1))
    """Bytes of one micro-batch, as estimated."""
    min_offsets_per_trigger: int | None = option("minOffsetsPerTrigger", integer(1))
    """Messages to wait for before the next micro-batch."""
    max_trigger_delay_ms: int = option("maxTriggerDelay", milliseconds(1), 900_000)
    """How long to wait for so many."""
    min_partitions: int | None = option("minPartitions", integer(1, 100_000))
    """Tasks at least, if there are as many messages."""
    max_records_per_partition: int | None = option("maxRecordsPerPartition", integer(1))
    """Messages of a task."""
    max_bytes_per_partition: int | None = option("maxBytesPerPartition", size(1))
    """Bytes of a task, as estimated. In batches 256m unless said."""
    fail_on_data_loss: bool = option("failOnDataLoss", truth, default=True)
    """End the query where messages are gone; otherwise go on with what is left."""
    include_headers: bool = option("includeHeaders", truth, default=False)
    """Have a column `headers`."""
    columns: tuple[str, ...] | None = option("columns", names)
    """The columns, in this order."""
    isolation: str = option("isolation", choice("committed"), "committed")
    """Only messages that everybody may see."""
    verify_checksums: bool = option("verifyChecksums", truth, default=True)
    """Check every message's checksum."""
    batch_rows: int = option("batchRows", integer(1, 1_000_000), 16384)
    """Rows of a batch that is handed to Spark."""
    batch_bytes: int = option("batchBytes", size(1, 1 << 30), 4 << 20)
    """Bytes of one."""
    fetch_bytes: int = option("fetchBytes", size(1024, 64 << 20), 1 << 20)
    """Bytes of one response of a server."""
    fetch_timeout_ms: int = option("fetchTimeoutMs", milliseconds(1), 120_000)
    """How long nothing may come."""
    prefetch_chunks: int = option("prefetchChunks", integer(1, 1000), 4)
    """Responses that are read ahead."""
    metadata_max_age_ms: int = option("metadataMaxAgeMs", milliseconds(0), 200)
    """For how long what the server has said about topics is believed."""
    emit: str = option("emit", choice("records", "ranges"), "records")
    """Messages, or one row for each range that a task would read."""


def read_options(given: Mapping[str, str]) -> ReadOptions:
    """Read options, of batches and streams alike.

    Raises:
        OptionError: One is unknown, missing or wrong, or they contradict each other.
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
    """Read options of a batch.

    Raises:
        OptionError: As above, or one is for streams.
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
    """Read options of a stream.

    Raises:
        OptionError: As above, or one is for batches.
    """
    _without(given, BATCH_ONLY, "batches (read)")
    options = read_options(given)
    least, most = options.min_offsets_per_trigger, options.max_offsets_per_trigger
    if least is not None and most is not None and least > most:
        raise OptionError("minOffsetsPerTrigger is more than maxOffsetsPerTrigger")
    return options


def split_bytes(options: ReadOptions, *, is_batch: bool) -> int | None:
    """Bytes that a task should have at most; None: nobody has asked for a limit."""
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
