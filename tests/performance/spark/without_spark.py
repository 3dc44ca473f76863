"""Cost of reading without Spark: the fetch from a node, and the codec."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from headrace_core import RecordDecoder
from pyspark_headrace.cluster.node import Range, chunk, fetch
from pyspark_headrace.cluster.readahead import ReadAhead
from pyspark_headrace.cluster.runtime import runtime
from pyspark_headrace.options.reading import ReadOptions, batch_options
from pyspark_headrace.options.values import EARLIEST
from pyspark_headrace.read.planning import Planner
from pyspark_headrace.read.selection import ends, starts
from pyspark_headrace.read.splits import Split
from tests.performance.spark.runs import Meter, SparkRun

_WHOLE = "64g"


def whole_partition(source: Mapping[str, str]) -> tuple[ReadOptions, Split]:
    """Return the first partition of a topic, as one task would read it."""
    options = batch_options({**source, "maxBytesPerPartition": _WHOLE})
    planner = Planner(options)
    described = planner.describe(with_sizes=True)
    times = planner.offsets_of_times(described)
    begin = starts(options, described, times, otherwise=EARLIEST)
    end = ends(options, described, times)
    split, *_ = planner.splits({key: (begin[key], end[key]) for key in begin}, described, is_batch=True)
    return options, split


def fetched(source: Mapping[str, str], server_pid: int, value_bytes: int) -> SparkRun:
    """Fetch a partition as a task does, and drop it."""
    options, split = whole_partition(source)
    rows = split.end - split.start
    return Meter(None, [server_pid]).run(rows, rows * value_bytes, lambda: _fetch(options, split, lambda _: None))


def payloads(source: Mapping[str, str], rows_max: int) -> tuple[Split, list[bytes]]:
    """Return about `rows_max` payloads from the start of a partition."""
    options, split = whole_partition(source)
    kept: list[bytes] = []
    taken = Split(**{**split.__dict__, "end": min(split.end, split.start + rows_max)})
    _fetch(options, taken, lambda polled: kept.append(bytes(polled)))
    return taken, kept


def decoded(split: Split, kept: Sequence[bytes], columns: Sequence[str], value_bytes: int) -> SparkRun:
    """Decode payloads in memory into columns."""
    rows = split.end - split.start

    def decode() -> None:
        decoder = RecordDecoder(columns, start=split.start, end=split.end, partition=split.partition_id)
        seen = sum(batch.rows for payload in kept for batch in decoder.feed(payload))
        assert seen + sum(batch.rows for batch in decoder.finish()) == rows, "messages are missing"

    return Meter(None).run(rows, rows * value_bytes, decode)


def _fetch(options: ReadOptions, split: Split, take: Callable[[memoryview], object]) -> None:
    wanted = Range(split.stream_id, split.topic_id, split.partition_id, split.incarnation, split.start, split.end)
    call = fetch(runtime().node(split.address, options), wanted, split.ticket, options.fetch_bytes)
    with ReadAhead(call, ahead=options.prefetch_chunks, timeout_seconds=options.fetch_timeout_ms / 1000) as responses:
        for response in responses:
            piece = chunk(response)
            take(piece.polled)
            if piece.is_last:
                return
    raise AssertionError("the node has not sent everything")
