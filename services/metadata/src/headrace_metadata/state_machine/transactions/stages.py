"""Committed staged batches not yet appended, and aborted ones: records, look-ups, and deltas of changes."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from typing import Final, TypeVar

from headrace_proto.catalog.v1 import AbortedStages, Delta, PendingPublication, PublicationKey

Place = tuple[int, int, int]
"""Stream, topic and partition id."""

_Record = TypeVar("_Record", PendingPublication, AbortedStages)

_EXPIRY_BYTES: Final = 8


class Stages:
    """All pending publications and aborted stages. Records are never changed in place.

    The existence of partitions is not tracked here: code that removes partitions must report it. Stages that are
    neither committed nor aborted are known to their partitions only.

    Attributes:
        publications_count: Number of pending publications.
    """

    def __init__(self, changes: list[Delta]) -> None:
        """Start empty.

        Args:
            changes: List to which every change of the catalog is appended, in order.
        """
        self._changes = changes
        # Pending publications by number, which increases with every publication.
        self._pending: dict[Place, dict[int, PendingPublication]] = {}
        self._pending_counts: dict[Place, int] = {}
        self._pending_ids: set[bytes] = set()
        self.publications_count = 0
        self._aborted: dict[Place, dict[int, AbortedStages]] = {}
        self._aborted_ids: set[bytes] = set()
        # Heap of the aborted stages, ordered by their last expiry.
        self._aborted_until: list[tuple[int, Place, int]] = []

    @property
    def pending_count(self) -> int:
        """Number of stages that are committed and not yet appended."""
        return len(self._pending_ids)

    @property
    def aborted_count(self) -> int:
        """Number of aborted stages that are still recorded."""
        return len(self._aborted_ids)

    def is_pending(self, stage_id: bytes) -> bool:
        """Return whether a stage is committed and not yet appended."""
        return stage_id in self._pending_ids

    def is_aborted(self, stage_id: bytes) -> bool:
        """Return whether a stage is recorded as aborted."""
        return stage_id in self._aborted_ids

    def pending_at(self, place: Place) -> int:
        """Return the number of committed stages of a partition that are not yet appended."""
        return self._pending_counts.get(place, 0)

    def publications_of(self, place: Place) -> list[PendingPublication]:
        """Return the pending publications of a partition, ascending by number."""
        return _ascending(self._pending.get(place, {}))

    def publications(self) -> Iterator[PendingPublication]:
        """Iterate over all pending publications, ascending by partition and number."""
        for place in sorted(self._pending):
            yield from self.publications_of(place)

    def aborted(self) -> Iterator[AbortedStages]:
        """Iterate over all aborted stages, ascending by partition and number."""
        for place in sorted(self._aborted):
            yield from _ascending(self._aborted[place])

    def next_forgotten_at_micros(self) -> int | None:
        """Return the expiry of the first aborted record to expire, if any."""
        return self._aborted_until[0][0] if self._aborted_until else None

    def put_publication(self, publication: PendingPublication) -> None:
        """Add a publication to an existing partition; its stages must not be in another publication."""
        place = place_of(publication)
        self._pending.setdefault(place, {})[publication.number] = publication
        self._pending_counts[place] = self.pending_at(place) + len(publication.stage_ids)
        self._pending_ids.update(publication.stage_ids)
        self.publications_count += 1
        self._changes.append(Delta(publication_put=publication))

    def remove_publications(self, place: Place, up_to_number: int) -> None:
        """Remove the publications of a partition up to a number; there may be none."""
        numbers = [number for number in sorted(self._pending.get(place, {})) if number <= up_to_number]
        if not numbers:
            return
        for number in numbers:
            publication = self._pending[place].pop(number)
            self._pending_counts[place] -= len(publication.stage_ids)
            self._pending_ids.difference_update(publication.stage_ids)
        self.publications_count -= len(numbers)
        if not self._pending[place]:
            del self._pending[place], self._pending_counts[place]
        self._changes.append(Delta(publications_deleted=_key(place, numbers[-1])))

    def remove_all_publications(self, stream_id: int, topic_id: int) -> None:
        """Remove the publications of all partitions of a topic that is kept."""
        for place in _below(self._pending, (stream_id, topic_id)):
            self.remove_publications(place, max(self._pending[place]))

    def put_aborted(self, stages: AbortedStages) -> None:
        """Record stages of an existing partition as aborted; they must not be in a publication."""
        place = place_of(stages)
        self._aborted.setdefault(place, {})[stages.number] = stages
        self._aborted_ids.update(stages.stage_ids)
        until_micros = max(expires_at_micros(stage_id) for stage_id in stages.stage_ids)
        heapq.heappush(self._aborted_until, (until_micros, place, stages.number))
        self._changes.append(Delta(aborted_stages_put=stages))

    def forget_aborted(self, now_micros: int) -> None:
        """Remove expired records of aborted stages."""
        while self._aborted_until and self._aborted_until[0][0] <= now_micros:
            _, place, number = heapq.heappop(self._aborted_until)
            self._forget(place, number)
            self._changes.append(Delta(aborted_stages_deleted=_key(place, number)))

    def shrink_topic(self, stream_id: int, topic_id: int, partitions_count: int) -> None:
        """Remove the records of partitions that a topic has lost."""
        for place in _below(self._pending, (stream_id, topic_id)):
            if place[2] >= partitions_count:
                self.remove_publications(place, max(self._pending[place]))
        gone = [place for place in _below(self._aborted, (stream_id, topic_id)) if place[2] >= partitions_count]
        for place in gone:
            self._changes.extend(
                Delta(aborted_stages_deleted=_key(place, number)) for number in sorted(self._aborted[place])
            )
        self._drop_aborted(gone)

    def remove_topic(self, stream_id: int, topic_id: int) -> None:
        """Remove the records of a topic. The delta of the topic covers them."""
        self._remove_below((stream_id, topic_id))

    def remove_stream(self, stream_id: int) -> None:
        """Remove the records of a stream. The delta of the stream covers them."""
        self._remove_below((stream_id,))

    def copy(self, changes: list[Delta]) -> Stages:
        """Return independent stages with the same records."""
        other = Stages(changes)
        other._pending = {place: dict(publications) for place, publications in self._pending.items()}
        other._pending_counts = dict(self._pending_counts)
        other._pending_ids = set(self._pending_ids)
        other.publications_count = self.publications_count
        other._aborted = {place: dict(stages) for place, stages in self._aborted.items()}
        other._aborted_ids = set(self._aborted_ids)
        other._aborted_until = list(self._aborted_until)
        return other

    def _remove_below(self, prefix: tuple[int, ...]) -> None:
        for place in _below(self._pending, prefix):
            publications = self._pending.pop(place)
            for publication in publications.values():
                self._pending_ids.difference_update(publication.stage_ids)
            self.publications_count -= len(publications)
            del self._pending_counts[place]
        self._drop_aborted(_below(self._aborted, prefix))

    def _drop_aborted(self, places: Iterable[Place]) -> None:
        gone = dict.fromkeys(places)
        if not gone:
            return
        for place in gone:
            for number in sorted(self._aborted[place]):
                self._forget(place, number)
        self._aborted_until = [entry for entry in self._aborted_until if entry[1] not in gone]
        heapq.heapify(self._aborted_until)

    def _forget(self, place: Place, number: int) -> None:
        stages = self._aborted[place].pop(number)
        self._aborted_ids.difference_update(stages.stage_ids)
        if not self._aborted[place]:
            del self._aborted[place]


def place_of(record: PendingPublication | AbortedStages) -> Place:
    """Return the partition that a record belongs to."""
    return record.stream_id, record.topic_id, record.partition_id


def expires_at_micros(stage_id: bytes) -> int:
    """Return the time from which on no commit may name a stage."""
    return int.from_bytes(stage_id[:_EXPIRY_BYTES], "big")


def _key(place: Place, number: int) -> PublicationKey:
    stream_id, topic_id, partition_id = place
    return PublicationKey(stream_id=stream_id, topic_id=topic_id, partition_id=partition_id, number=number)


def _below(records: Iterable[Place], prefix: tuple[int, ...]) -> list[Place]:
    return sorted(place for place in records if place[: len(prefix)] == prefix)


def _ascending(records: dict[int, _Record]) -> list[_Record]:
    return [records[number] for number in sorted(records)]
