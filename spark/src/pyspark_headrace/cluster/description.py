"""Topic metadata as reported by the servers at one moment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from pyspark_headrace.errors import OffsetError
from pyspark_headrace.options.values import OFFSET_MAX

Key = tuple[str, int]
"""Key of a partition: topic name and partition id."""


@dataclass(frozen=True, slots=True)
class Partition:
    """Offsets and leader of one partition."""

    partition_id: int
    incarnation: int
    purge_epoch: int
    first_offset: int
    next_offset: int
    messages_count: int
    size_bytes: int
    address: str
    """gRPC address of the leader; empty while the partition has none."""

    @property
    def generation(self) -> str:
        """Generation of the log. Changes whenever offsets start again at 0."""
        return f"{self.incarnation}.{self.purge_epoch}"

    @property
    def bytes_per_message(self) -> float:
        """Average size of a message in the log."""
        return self.size_bytes / self.messages_count if self.messages_count else 0.0


@dataclass(frozen=True)
class Topic:
    """A topic and its partitions."""

    stream: str
    name: str
    stream_id: int
    topic_id: int
    incarnation: int
    partitions: tuple[Partition, ...]

    @property
    def title(self) -> str:
        """Full name of the topic, as used in offsets and messages."""
        return f"{self.stream}/{self.name}"


@dataclass(frozen=True)
class Description:
    """Metadata of the requested topics of one stream, as far as they exist."""

    topics: Mapping[str, Topic]
    """Topics by name."""

    @cached_property
    def partitions(self) -> dict[Key, Partition]:
        """Return all partitions, in order."""
        return {
            (name, partition.partition_id): partition
            for name, topic in sorted(self.topics.items())
            for partition in topic.partitions
        }

    @cached_property
    def ends(self) -> dict[Key, int]:
        """Return the end offset of each partition: the one after its last message."""
        return {key: partition.next_offset for key, partition in self.partitions.items()}

    def only(self, keys: Iterable[Key]) -> Description:
        """Return the description restricted to some partitions."""
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
    """Convert an offset received from a server.

    Raises:
        OffsetError: The offset exceeds Spark's signed 64-bit integers.
    """
    if value > OFFSET_MAX:
        raise OffsetError(f"offset {value} is more than Spark's integers hold")
    return value


EMPTY: Final = Description({})
"""Description without topics."""
