"""Topic metadata as reported by the servers at one moment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from pyspark_headrace.errors import OffsetError
from pyspark_headrace.options.values import OFFSET_MAX

Key = tuple[str, int]
"""Key of a partition: topic name and partition id."""


Openings = Sequence[tuple[int, int]]
"""Number of each opening of a log, ascending, and the end that it found; the last one is the present."""


def cut_since(openings: Openings, epoch: int, position: int) -> int | None:
    """Return where a log was cut since a reader was at a position in it; None if it was not, or if that is unknown.

    Args:
        openings: Those of the log; none: unknown.
        epoch: Opening in which the reader was at the position; 0: unknown.
        position: Offset after the last message that the reader may have got.
    """
    if not epoch or not openings or openings[-1][0] == epoch:
        return None
    # Of the reader's opening nothing may be left, so that a later one has a lower number if the clock was set back.
    end = next((end for number, end in openings if number > epoch), openings[-1][1])
    return end if end < position else None


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
    openings: Openings = ()

    @property
    def epoch(self) -> int:
        """Number of the present opening of the log; 0: unknown."""
        return self.openings[-1][0] if self.openings else 0

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


def openings_of_wire(openings: Iterable[Any]) -> Openings:
    """Convert the openings of a log received from a server."""
    return tuple((opening.epoch, opening.end_offset) for opening in openings)


EMPTY: Final = Description({})
"""Description without topics."""
