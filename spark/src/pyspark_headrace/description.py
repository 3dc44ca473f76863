"""What the servers have said about topics, at one moment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from pyspark_headrace.errors import OffsetError
from pyspark_headrace.options.values import OFFSET_MAX

Key = tuple[str, int]
"""A partition: the name of its topic, and its number."""


@dataclass(frozen=True, slots=True)
class Partition:
    """Where a partition begins and ends, and who has it."""

    partition_id: int
    incarnation: int
    purge_epoch: int
    first_offset: int
    next_offset: int
    messages_count: int
    size_bytes: int
    address: str
    """gRPC address of its holder; empty while there is none."""

    @property
    def generation(self) -> str:
        """What changes whenever its offsets begin anew."""
        return f"{self.incarnation}.{self.purge_epoch}"

    @property
    def bytes_per_message(self) -> float:
        """As they are in the log, on average."""
        return self.size_bytes / self.messages_count if self.messages_count else 0.0


@dataclass(frozen=True)
class Topic:
    """A topic with its partitions."""

    stream: str
    name: str
    stream_id: int
    topic_id: int
    incarnation: int
    partitions: tuple[Partition, ...]

    @property
    def title(self) -> str:
        """As it stands in offsets and messages."""
        return f"{self.stream}/{self.name}"


@dataclass(frozen=True)
class Description:
    """Topics of one stream: those that were asked for and are there."""

    topics: Mapping[str, Topic]
    """By name."""

    @cached_property
    def partitions(self) -> dict[Key, Partition]:
        """All of them, in order."""
        return {
            (name, partition.partition_id): partition
            for name, topic in sorted(self.topics.items())
            for partition in topic.partitions
        }

    @cached_property
    def ends(self) -> dict[Key, int]:
        """Behind the last message of each."""
        return {key: partition.next_offset for key, partition in self.partitions.items()}

    def only(self, keys: Iterable[Key]) -> Description:
        """The same for some partitions."""
        wanted = set(keys)
        return Description(
            {
                name: Topic(
                    topic.stream,
                    topic.name,
                    topic.stream_id,
                    topic.topic_id,
                    topic.incarnation,
                    tuple(part for part in topic.partitions if (name, part.partition_id) in wanted),
                )
                for name, topic in self.topics.items()
            }
        )


def offset_of_wire(value: int) -> int:
    """Take an offset from a server.

    Raises:
        OffsetError: Spark has no integer for it.
    """
    if value > OFFSET_MAX:
        raise OffsetError(f"offset {value} is more than Spark's integers hold")
    return value


EMPTY: Final = Description({})
"""No topics."""
