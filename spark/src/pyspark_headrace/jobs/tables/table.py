"""Interface of the tables that archives are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from pyspark_headrace.errors import HeadraceError
from pyspark_headrace.jobs.tables.errors import OverlapError
from pyspark_headrace.jobs.tables.files import ArchivedFile, PartitionKey

Place = tuple[str, str, int]
"""Stream, topic and partition."""


class TopicRecreatedError(HeadraceError):
    """The table has messages of an earlier topic of the same name, or from before a purge."""


class Reached(NamedTuple):
    """End of the archived messages of a partition."""

    incarnation: str
    generation: str
    end: int
    """Offset after the last message."""


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Contents of one micro-batch."""

    job: str
    query: str
    number: int
    files: Sequence[ArchivedFile]
    ranges: Mapping[PartitionKey, tuple[int, int]]
    """Ranges read: first offset, and the offset after the last one."""

    @property
    def places(self) -> list[Place]:
        """Partitions of its ranges."""
        return [place_of(key) for key in self.ranges]


class Bounds(NamedTuple):
    """Least and greatest value of a column in a file."""

    least: int
    most: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFile:
    """A file as its table lists it."""

    path: str
    """Path relative to the location of the table."""
    stream: str
    topic: str
    date: str
    """Date of all its messages, in UTC: ``2026-11-21``."""
    rows: int
    bytes: int
    partitions: Bounds
    """Partitions of its messages: one, unless files were merged."""
    offsets: Bounds
    times: Bounds
    """Timestamps in microseconds since 1970."""


def place_of(key: PartitionKey) -> Place:
    """Return the name of a partition, without incarnation and generation."""
    return key.stream, key.topic, key.partition


class Table(Protocol):
    """Table that micro-batches are committed to, each once, and whose files are read."""

    @property
    def place(self) -> str:
        """URI of the directory for files."""

    @property
    def is_raw(self) -> bool:
        """Return whether its values are those of messages, and not decoded columns."""

    @property
    def version(self) -> int:
        """Number of its present state."""

    def files(self) -> list[TableFile]:
        """Return the files of its present state.

        Raises:
            ArchiveError: The table has contents that no job of this package has written.
            StoreError: The table cannot be read.
        """

    def has(self, query: str, number: int) -> bool:
        """Return whether the table contains a micro-batch."""

    def reached(self, places: Iterable[Place]) -> Mapping[Place, Reached]:
        """Return the end of the archived messages per partition, if any."""

    def commit(self, batch: Batch) -> bool:
        """Add files atomically.

        Returns:
            True if this call has added the files; False if the micro-batch was committed before and its first files
                stay.

        Raises:
            OverlapError: Messages would be in the table twice.
            TopicRecreatedError: The table has messages of an earlier topic.
            HeadraceError: The outcome is unknown; repeating the call resolves that.
        """


def check(batch: Batch, reached: Mapping[Place, Reached]) -> None:
    """Check that a micro-batch continues the contents of a table.

    Args:
        batch: The micro-batch.
        reached: End of the archived messages per partition.

    Raises:
        OverlapError: Messages would be in the table twice.
        TopicRecreatedError: The table has messages of an earlier topic.
    """
    for key, (start, _) in batch.ranges.items():
        last = reached.get(place_of(key))
        if last is None:
            continue
        if (last.incarnation, last.generation) != (key.incarnation, key.generation):
            raise TopicRecreatedError(
                f"{key.title}: the topic was created again or purged, and what is archived there is from before: "
                f"incarnation {last.incarnation}, generation {last.generation}; now they are {key.incarnation} and "
                f"{key.generation}. Archive it to another place"
            )
        if start < last.end:
            raise OverlapError(
                f"{key.title}: messages up to {last.end} are archived there, and this query begins at {start}. "
                "Its checkpoint is another one, or has been deleted: give it the old one, or another place"
            )
