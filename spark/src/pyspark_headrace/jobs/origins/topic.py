"""A topic as a source of ranges."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from pyspark_headrace.cluster.description import Description, Key
from pyspark_headrace.errors import DataLossError
from pyspark_headrace.jobs.origins.pieces import Extent, Piece, schema_of
from pyspark_headrace.options.reading import ReadOptions, batch_options
from pyspark_headrace.read.planning import Planner
from pyspark_headrace.read.reading import read_range
from pyspark_headrace.read.splits import Split

_BELIEVED_MS: Final = 10_000
"""Time for which metadata from gateways is cached. Planning and tasks find moved partitions by themselves."""


@dataclass(frozen=True)
class TopicPiece:
    """A range of a partition of the topic."""

    split: Split
    options: ReadOptions

    @property
    def partition_id(self) -> int:
        """Partition of the topic."""
        return self.split.partition_id

    @property
    def start(self) -> int:
        """First offset."""
        return self.split.start

    @property
    def end(self) -> int:
        """End offset, exclusive."""
        return self.split.end

    @property
    def size_bytes(self) -> int:
        """Estimated size."""
        return self.split.size_bytes

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the messages of the range.

        Raises:
            HeadraceError: See `read_range`.
        """
        return read_range(self.split, self.options, schema_of(columns))


class TopicOrigin:
    """A topic on the servers."""

    def __init__(self, options: Mapping[str, str], stream: str, topic: str) -> None:
        """Create the source without any request.

        Args:
            options: Options of the data source: servers and credentials.
            stream: Stream of the topic.
            topic: Name of the topic.
        """
        given = {name: value for name, value in options.items() if name.lower() != "stream"}
        self._options = batch_options(given | {"stream": stream, "subscribe": topic})
        self._planner = Planner(self._options)
        self.stream = stream
        self.topic = topic

    def extents(self, since_micros: int | None, until_micros: int | None) -> dict[int, Extent]:
        """Return the currently available range of each partition between two times.

        Raises:
            ServerRefusedError: The topic does not exist, or the user is not authorized.
            UnreachableError: No server answers.
        """
        described = self._planner.describe(with_sizes=True)
        bounds = {key: (part.first_offset, part.next_offset) for key, part in described.partitions.items()}
        starts = {key: first for key, (first, _) in bounds.items()}
        ends = {key: following for key, (_, following) in bounds.items()}
        if since_micros is not None:
            starts = self._at(described, since_micros)
        if until_micros is not None:
            ends = self._at(described, until_micros)
        found: dict[int, Extent] = {}
        for key, part in described.partitions.items():
            first, following = bounds[key]
            start = min(max(starts[key], first), following)
            # The lookup may return offsets later than those in the description.
            end = max(min(ends[key], following), start)
            found[key[1]] = Extent(start, end, part.generation, round((end - start) * part.bytes_per_message))
        return found

    def pieces(self, ranges: Mapping[int, Extent], *, rows: int, size_bytes: int) -> list[Piece]:
        """Return the pieces for tasks.

        Raises:
            DataLossError: A partition was deleted, purged or recreated.
            ServerRefusedError: The user is not authorized to read the topic.
            UnreachableError: No server answers.
        """
        described = self._planner.describe(with_sizes=True, max_age_ms=_BELIEVED_MS)
        for number, extent in ranges.items():
            part = described.partitions.get((self.topic, number))
            title = f"{self.stream}/{self.topic}, partition {number}"
            if part is None or part.generation != extent.generation:
                raise DataLossError(f"{title}: it was purged, or it or its topic is gone or was created again")
            if extent.start < part.first_offset and extent.count:
                raise DataLossError(f"{title}: {extent.start} was the next to be read, and {part.first_offset} is left")
        options = replace(self._options, max_records_per_partition=rows, max_bytes_per_partition=size_bytes)
        self._planner.options = options
        wanted = {(self.topic, number): (extent.start, extent.end) for number, extent in ranges.items()}
        splits = self._planner.splits(wanted, described, is_batch=True)
        splits.sort(key=lambda split: (split.partition_id, split.start))
        return [TopicPiece(split, options) for split in splits]

    def _at(self, described: Description, micros: int) -> dict[Key, int]:
        return self._planner.offsets_of_times(described)(dict.fromkeys(described.partitions, micros))
