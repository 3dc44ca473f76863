"""From ranges of offsets to tasks."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Final, NamedTuple, Self

from pyspark.sql.datasource import InputPartition

from pyspark_headrace.admission import shared_out
from pyspark_headrace.description import Description, Key
from pyspark_headrace.options.reading import ROWS_PER_SPLIT_MIN, ReadOptions, split_bytes


@dataclass(frozen=True)
class Split(InputPartition):
    """What one task reads, with all that it needs for it."""

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
    """Exclusive."""
    size_bytes: int
    """As estimated."""
    address: str
    """gRPC address of the node that has it."""
    ticket: str = field(repr=False)

    @property
    def title(self) -> str:
        """What messages call it."""
        return f"{self.stream}/{self.topic}, partition {self.partition_id}, offsets {self.start} to {self.end}"

    def to_bytes(self) -> bytes:
        """As a row of ``emit = ranges`` carries it to a task that reads the range itself, with `reading.read_range`."""
        return json.dumps(asdict(self), separators=(",", ":")).encode()

    @classmethod
    def from_bytes(cls, text: bytes) -> Self:
        """Take it from such a row."""
        return cls(**json.loads(text))


NOTHING: Final = Split("", "", 0, 0, 0, 0, 0, 0, 0, 0, 0, "", "")
"""In place of no tasks at all, which Spark would make up one for."""

Ranges = Mapping[Key, tuple[int, int]]
"""Start and end of each partition."""


class Part(NamedTuple):
    """A part of a range that is not cut for its size any more."""

    start: int
    end: int
    """Exclusive."""
    size_bytes: int
    """As estimated."""


def split_up(
    parts: Mapping[Key, Sequence[Part]], described: Description, tickets: Mapping[str, str], options: ReadOptions
) -> list[Split]:
    """Make tasks of parts: as many as there have to be, and none with too many messages."""
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
                )
                for start, end in cut(part.start, part.end, number)
            )
    return splits


def target_bytes(rows: int, size: int, options: ReadOptions, *, is_batch: bool) -> int | None:
    """Bytes that a part of a range should have; None: it is not too large as it is."""
    limit = split_bytes(options, is_batch=is_batch)
    if limit is None or size <= limit:
        return None
    if options.max_bytes_per_partition is None:
        # Nobody has asked for tasks of fewer messages.
        limit = max(limit, ROWS_PER_SPLIT_MIN * size // rows)
    return limit


def cut(start: int, end: int, number: int) -> Sequence[tuple[int, int]]:
    """Cut a range into so many of about the same length."""
    length = end - start
    bounds = [start + length * index // number for index in range(number + 1)]
    return list(pairwise(bounds))
