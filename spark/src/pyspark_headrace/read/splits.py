"""Conversion of ranges of offsets to tasks."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Final, NamedTuple, Self

from pyspark.sql.datasource import InputPartition

from pyspark_headrace.cluster.description import Description, Key
from pyspark_headrace.options.reading import ROWS_PER_SPLIT_MIN, ReadOptions, split_bytes
from pyspark_headrace.read.admission import shared_out


@dataclass(frozen=True)
class Split(InputPartition):
    """Input of one task, self-contained."""

    stream: str
    topic: str
    stream_id: int
    topic_id: int
    partition_id: int
    incarnation: int
    purge_epoch: int
    topic_incarnation: int
    start: int
    end: int
    """End offset, exclusive."""
    size_bytes: int
    """Estimated size."""
    address: str
    """gRPC address of the leader."""
    ticket: str = field(repr=False)
    epoch: int = 0
    """Number of the opening of the log in which the range was planned; 0: unknown."""

    @property
    def title(self) -> str:
        """Name of the partition in messages."""
        return f"{self.stream}/{self.topic}, partition {self.partition_id}, offsets {self.start} to {self.end}"

    def to_bytes(self) -> bytes:
        """Encode the split for the column `split` of ``emit = ranges``, for tasks that call `reading.read_range`."""
        return json.dumps(asdict(self), separators=(",", ":")).encode()

    @classmethod
    def from_bytes(cls, text: bytes) -> Self:
        """Decode a split from such a column."""
        return cls(**json.loads(text))


NOTHING: Final = Split("", "", 0, 0, 0, 0, 0, 0, 0, 0, 0, "", "")
"""Placeholder for an empty plan, for which Spark would make up a partition."""

Ranges = Mapping[Key, tuple[int, int]]
"""Start and end offset of each partition."""


class Part(NamedTuple):
    """Part of a range that is not split further for its size."""

    start: int
    end: int
    """End offset, exclusive."""
    size_bytes: int
    """Estimated size."""


def split_up(
    parts: Mapping[Key, Sequence[Part]], described: Description, tickets: Mapping[str, str], options: ReadOptions
) -> list[Split]:
    """Split parts into tasks, honouring the minimum number of tasks and the maximum number of messages per task."""
    rows = {key: sum(part.end - part.start for part in of_it) for key, of_it in parts.items()}
    asked = shared_out(options.min_partitions, rows) if options.min_partitions else {}
    splits: list[Split] = []
    for key, of_it in parts.items():
        topic, partition = described.topics[key[0]], described.partitions[key]
        numbers = shared_out(
            max(asked.get(key, 1), len(of_it)), {at: part.end - part.start for at, part in enumerate(of_it)}
        )
        for at, part in enumerate(of_it):
            count = part.end - part.start
            number = numbers[at]
            if options.max_records_per_partition is not None:
                number = max(number, -(-count // options.max_records_per_partition))
            splits.extend(
                Split(
                    topic.stream,
                    topic.name,
                    topic.stream_id,
                    topic.topic_id,
                    partition.partition_id,
                    partition.incarnation,
                    partition.purge_epoch,
                    topic.incarnation,
                    start,
                    end,
                    part.size_bytes * (end - start) // count,
                    partition.address,
                    tickets[topic.name],
                    partition.epoch,
                )
                for start, end in cut(part.start, part.end, number)
            )
    return splits


def target_bytes(rows: int, size: int, options: ReadOptions, *, is_batch: bool) -> int | None:
    """Return the target size of the parts of a range; None if the range is small enough."""
    limit = split_bytes(options, is_batch=is_batch)
    if limit is None or size <= limit:
        return None
    if options.max_bytes_per_partition is None:
        # No explicit limit: tasks keep a minimum number of messages.
        limit = max(limit, ROWS_PER_SPLIT_MIN * size // rows)
    return limit


def cut(start: int, end: int, number: int) -> Sequence[tuple[int, int]]:
    """Divide a range into parts of about equal length."""
    length = end - start
    bounds = [start + length * index // number for index in range(number + 1)]
    return list(pairwise(bounds))
