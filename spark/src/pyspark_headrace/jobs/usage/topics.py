"""Measurement of topics: the driver lists the partitions, tasks count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from headrace_proto.gateway import v1
from headrace_proto.gateway.v1.catalog_pb2_grpc import CatalogStub
from pyspark_headrace.cluster.description import offset_of_wire
from pyspark_headrace.cluster.gateway import Gateway
from pyspark_headrace.errors import DataLossError
from pyspark_headrace.jobs.running.tasks import run_tasks, spread
from pyspark_headrace.jobs.usage.measuring import measure
from pyspark_headrace.jobs.usage.tally import Counted, Place
from pyspark_headrace.options.connection import ConnectionOptions
from pyspark_headrace.options.parsing import parse
from pyspark_headrace.options.reading import ReadOptions, batch_options
from pyspark_headrace.read.leader import Holder
from pyspark_headrace.read.planning import Planner
from pyspark_headrace.read.splits import Split

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PIECE_BYTES: Final = 1 << 30
_LOAD_BYTES: Final = 64 << 20
"""Minimum size of a task."""
_ANY: Final = ".*"


@dataclass(frozen=True)
class Piece:
    """A range of a partition to measure."""

    split: Split
    options: ReadOptions
    bounds: Sequence[int]
    """Starts of hours, and the end of the measurement."""
    lacks_first: bool
    """True if earlier messages of the partition were removed."""

    def count(self) -> Counted:
        """Measure the range, in a task.

        Raises:
            DataLossError: Messages of the period were removed meanwhile.
            HeadraceError: Any other error, see `measure`.
        """
        split = self.split
        offsets = self._offsets(Holder(split, self.options))
        before = measure(replace(split, end=offsets[0]), self.options)
        hours: dict[int, tuple[int, int]] = {}
        # Retention may have removed messages since the driver looked.
        lacks_first = self.lacks_first or before.messages < offsets[0] - split.start
        for at, start in enumerate(self.bounds[:-1]):
            if offsets[at] < offsets[at + 1]:
                found = measure(replace(split, start=offsets[at], end=offsets[at + 1]), self.options)
                if found.messages < offsets[at + 1] - offsets[at]:
                    raise DataLossError(f"{split.title}: messages of it were removed while they were counted")
                hours[start] = (found.messages, found.bytes)
        return Counted(Place(split.stream, split.topic), f"{split.partition_id}", before.bytes, hours, lacks_first)

    def _offsets(self, holder: Holder) -> list[int]:
        """Offsets of the bounds within the range."""
        first, last = 0, len(self.bounds) - 1
        found = {first: self._offset(holder, first), last: self._offset(holder, last)}
        rest = [(first, last)]
        while rest:
            low, high = rest.pop()
            if found[low] == found[high]:
                # No message lies between the bounds.
                found.update(dict.fromkeys(range(low, high), found[low]))
            elif high - low > 1:
                middle = (low + high) // 2
                found[middle] = self._offset(holder, middle)
                rest += [(low, middle), (middle, high)]
        return [found[at] for at in range(len(self.bounds))]

    def _offset(self, holder: Holder, at: int) -> int:
        found = offset_of_wire(holder.bounds(self.bounds[at]).offset_of_timestamp)
        return min(max(found, self.split.start), self.split.end)


class _Streams(Gateway):
    def names(self) -> list[str]:
        """Return all streams visible to the user."""
        response = self._call(
            lambda stub, **how: stub.ListStreams(v1.ListStreamsRequest(), **how),
            "the streams that there are",
            CatalogStub,
        )
        return sorted(stream.name for stream in response.streams)


def stream_names(options: dict[str, str]) -> list[str]:
    """Return all streams visible to the user.

    Args:
        options: Options of the data source; the one for the stream is ignored.

    Raises:
        ServerRefusedError: The user is not authorized to see any.
        UnreachableError: No server answers.
    """
    return _Streams(parse(ConnectionOptions, options, ignored=("stream",)).checked()).names()


def count_topics(
    spark: SparkSession, options: dict[str, str], streams: Sequence[str], bounds: Sequence[int]
) -> list[Counted]:
    """Measure all topics of streams.

    Args:
        spark: The session.
        options: Options of the data source.
        streams: Names of the streams.
        bounds: Starts of hours, and the end of the measurement.

    Raises:
        HeadraceError: A server refuses a request or is unreachable.
        pyspark.errors.PySparkException: A task has failed permanently.
    """
    pieces: list[Piece] = []
    empty: list[Counted] = []
    for stream in streams:
        given: dict[str, Any] = options | {"stream": stream, "subscribePattern": _ANY}
        reading = batch_options(given | {"maxBytesPerPartition": str(_PIECE_BYTES)})
        planner = Planner(reading)
        described = planner.describe(with_sizes=True)
        lacking = {key: part.first_offset > 0 or part.purge_epoch > 0 for key, part in described.partitions.items()}
        ranges = {key: (part.first_offset, part.next_offset) for key, part in described.partitions.items()}
        pieces += (
            Piece(split, reading, bounds, lacking[split.topic, split.partition_id])
            for split in planner.splits(ranges, described, is_batch=True)
        )
        empty += (
            Counted(Place(stream, name), f"{number}", 0, lacks_first=lacking[name, number])
            for (name, number), (first, following) in ranges.items()
            if first == following
        )
    loads = spread(pieces, [piece.split.size_bytes for piece in pieces], _LOAD_BYTES)
    return empty + run_tasks(spark, Piece.count, loads)
