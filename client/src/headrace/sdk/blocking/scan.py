"""Reading a topic, or a part of it, as a table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Protocol, Unpack

import pyarrow as pa

from headrace.sdk.blocking.waiting import computed
from headrace.sdk.calls import Name
from headrace.sdk.errors import HeadraceError
from headrace.sdk.options import ConsumerArguments
from headrace.sdk.starts import StartLike, at_offset, at_time
from headrace.tables.selection import QUIET_SECONDS, READING, Range, Selection
from headrace_core import MessageBatch, PlannedRange, Topic

if TYPE_CHECKING:
    from headrace.sdk.consumer import Consumer


class Reads(Protocol):
    """Calls of `headrace.Client` that a scan needs."""

    def topic(self, stream: Name, topic: Name) -> Topic:
        """Return a topic with its partitions."""

    def plan(self, stream: Name, topic: Name, partition: int) -> PlannedRange:
        """Return the first offset of a partition, and the one after its last message."""

    def read(self, stream: Name, topic: Name, *, partition: int, start: StartLike, count: int) -> MessageBatch:
        """Read messages of a partition once."""

    def consumer(
        self,
        stream: Name,
        topic: Name,
        *,
        partitions: list[int],
        start: StartLike,
        **options: Unpack[ConsumerArguments],
    ) -> Consumer:
        """Return a consumer of a topic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanCalls(Selection):
    """A table, but for the libraries that it is made for."""

    client: Reads

    def ranges(self) -> list[Range]:
        """Return the offsets that will be read: found by the indexes of the server, without reading messages."""
        found = []
        chosen = self._chosen()
        if chosen is None:
            chosen = [partition.id for partition in self.client.topic(self.stream, self.topic).partitions]
        for id_ in chosen:
            # The partition itself is asked: the statistics of a topic may be old where a node has not answered.
            whole = self.client.plan(self.stream, self.topic, id_)
            part = Range(id_, whole.first_offset, whole.next_offset)
            start, end = part.start, part.end
            if self.since is not None:
                start = self._first_since(part, self.since)
            if self.until is not None:
                end = self._first_since(part, self.until)
            clipped = self._clipped(Range(part.partition_id, start, end))
            if clipped.start < clipped.end:
                found.append(clipped)
        return found

    def _first_since(self, part: Range, moment: datetime) -> int:
        polled = self.client.read(self.stream, self.topic, partition=part.partition_id, start=at_time(moment), count=1)
        return min(part.end, polled[0].offset) if len(polled) else part.end

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Read, and yield record batches of one partition each."""
        rows = self._converter()
        for part in self.ranges():
            with self.client.consumer(
                self.stream, self.topic, partitions=[part.partition_id], start=at_offset(part.start), **READING
            ) as consumer:
                while True:
                    batch = consumer.poll(QUIET_SECONDS)
                    if batch is None:
                        if self._ends_early(part):
                            break
                        continue
                    # An event loop has others to serve meanwhile.
                    yield computed(rows, batch, part)
                    if batch.next_offset >= part.end:
                        break

    def _ends_early(self, part: Range) -> bool:
        try:
            now = self.client.plan(self.stream, self.topic, part.partition_id)
        except HeadraceError as error:
            if not error.retryable:
                raise
            # The node is away, for example: the consumer waits for that, too.
            return False
        return self._is_removed(part, now)
