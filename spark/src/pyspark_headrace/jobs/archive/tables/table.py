"""What the job wants of a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from pyspark_headrace.errors import HeadraceError
from pyspark_headrace.jobs.archives.errors import OverlapError
from pyspark_headrace.jobs.archives.files import ArchivedFile, PartitionKey

Place = tuple[str, str, int]
"""Stream, topic and partition."""


class MadeAnewError(HeadraceError):
    """A table has messages of an earlier topic of the same name, or from before a purge."""


class Reached(NamedTuple):
    """How far the messages of a partition are in a table."""

    incarnation: str
    generation: str
    end: int
    """Behind the last one."""


@dataclass(frozen=True, kw_only=True)
class Batch:
    """What one micro-batch adds."""

    job: str
    query: str
    number: int
    files: Sequence[ArchivedFile]
    ranges: Mapping[PartitionKey, tuple[int, int]]
    """What was read, first offsets and those behind the last ones."""

    @property
    def places(self) -> list[Place]:
        """Of its ranges."""
        return [place_of(key) for key in self.ranges]


def place_of(key: PartitionKey) -> Place:
    """Of a partition, whichever topic has it."""
    return key.stream, key.topic, key.partition


class Table(Protocol):
    """Somewhere that micro-batches are committed to, each once."""

    @property
    def place(self) -> str:
        """URI of the folder that files are written below."""

    @property
    def columns(self) -> tuple[str, ...]:
        """What files need besides what is known of a message: `stream`, `topic`."""

    def has(self, query: str, number: int) -> bool:
        """Whether a micro-batch is in it already."""

    def reached(self, places: Iterable[Place]) -> Mapping[Place, Reached]:
        """How far messages of partitions are in it, as far as there are any."""

    def commit(self, batch: Batch) -> bool:
        """Add files, all of them in one step.

        Returns:
            Whether they are in it by this; False: the micro-batch was there before, and its first files stay.

        Raises:
            OverlapError: Messages would be in it twice.
            MadeAnewError: It has messages of an earlier topic.
            HeadraceError: It cannot be told; the same call again finds out.
        """


def check(batch: Batch, reached: Mapping[Place, Reached]) -> None:
    """See whether a micro-batch goes on from what is in a table.

    Args:
        batch: What is to be added.
        reached: How far the table is.

    Raises:
        OverlapError: Messages would be in it twice.
        MadeAnewError: It has messages of an earlier topic.
    """
    for key, (start, _) in batch.ranges.items():
        last = reached.get(place_of(key))
        if last is None:
            continue
        if (last.incarnation, last.generation) != (key.incarnation, key.generation):
            raise MadeAnewError(
                f"{key.title}: the topic was made anew or purged, and what is archived there is from before: "
                f"incarnation {last.incarnation}, generation {last.generation}; now they are {key.incarnation} and "
                f"{key.generation}. Archive it to another place"
            )
        if start < last.end:
            raise OverlapError(
                f"{key.title}: messages up to {last.end} are archived there, and this query begins at {start}. "
                "Its checkpoint is another one, or has been deleted: give it the old one, or another place"
            )
