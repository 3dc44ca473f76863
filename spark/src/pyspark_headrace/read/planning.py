"""Planning on the driver: topic metadata, tickets and offsets of timestamps."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping
from typing import Final

from pyspark_headrace.cluster.description import Description, Key
from pyspark_headrace.cluster.gateway import READ, Gateway
from pyspark_headrace.errors import OffsetError, OptionError, ServerRefusedError, UnreachableError
from pyspark_headrace.options.reading import ReadOptions
from pyspark_headrace.read.log_positions import cuts, offsets_of_time
from pyspark_headrace.read.offsets import Offsets
from pyspark_headrace.read.selection import selected, selection_text
from pyspark_headrace.read.splits import Part, Ranges, Split, split_up, target_bytes

_log: Final = logging.getLogger(__name__)
_RENEWED_AT: Final = 0.5
"""Fraction of a ticket's lifetime during which the planner reuses the ticket. A stream plans for months."""


class Planner:
    """Planner of one query, on the driver."""

    def __init__(self, options: ReadOptions, clock: Callable[[], float] = time.monotonic) -> None:
        self.options = options
        self._gateway = Gateway(options)
        self._clock = clock
        self._tickets: dict[tuple[int, int, int], tuple[str, float]] = {}
        self._described: Description | None = None
        self._described_at = 0.0
        self._has_sizes = False

    def pinned(self, reader: str, offsets: Offsets) -> Offsets:
        """Return the pinned start offsets, common to all runs of the query. The first run sets them.

        Raises:
            OptionError: The first run has read other topics or partitions.
            ServerRefusedError: The user is not authorized.
            UnreachableError: No server answers.
        """
        wanted = selection_text(self.options)
        encoded = json.dumps({"selection": wanted, "offsets": offsets.to_json()}, separators=(",", ":"))
        kept = json.loads(self._gateway.pin(self.options.stream, reader, encoded.encode()))
        if kept["selection"] != wanted:
            raise OptionError(
                f"option readerId: {reader} began to read {kept['selection']}, this query reads {wanted}; "
                "another query needs another name"
            )
        return Offsets.from_json(self.options.stream, kept["offsets"])

    def unpin(self, reader: str) -> None:
        """Remove the pinned start offsets: the checkpoint has replaced them. A failure is harmless."""
        try:
            self._gateway.unpin(self.options.stream, reader)
        except (ServerRefusedError, UnreachableError) as error:
            _log.warning("the server goes on to keep where %s has begun: %s", reader, error)

    def describe(
        self, *, with_sizes: bool = False, max_age_ms: int = 0, tolerates_missing: bool = False
    ) -> Description:
        """Return the metadata of the selected partitions, from the cache if recent enough.

        Args:
            with_sizes: Include sizes in bytes.
            max_age_ms: Maximum age of a cached response.
            tolerates_missing: Leave out named topics that do not exist any more.

        Raises:
            OptionError: A named partition does not exist.
            ServerRefusedError: A named topic does not exist, or the user is not authorized.
            UnreachableError: No server answers.
        """
        is_enough = self._has_sizes or not with_sizes
        now = self._clock()
        if self._described is None or not is_enough or now - self._described_at > max_age_ms / 1000:
            self._described = selected(
                self._gateway, self.options, with_sizes=with_sizes, tolerates_missing=tolerates_missing
            )
            self._described_at, self._has_sizes = now, with_sizes
        return self._described

    def splits(self, ranges: Ranges, described: Description, *, is_batch: bool) -> list[Split]:
        """Return the tasks for ranges of offsets.

        Raises:
            OffsetError: A range ends before it starts.
            ServerRefusedError: The user is not authorized to read a topic.
            UnreachableError: No server answers.
        """
        for (name, number), (start, end) in ranges.items():
            if start > end:
                raise OffsetError(f"topic {name}, partition {number}: a range from {start} to {end} cannot be")
        topics = {name for (name, _), (start, end) in ranges.items() if end > start}
        tickets = {name: self.ticket(described, name) for name in topics}
        parts = self._parts(ranges, described, tickets, is_batch=is_batch)
        return split_up(parts, described, tickets, self.options)

    def _parts(
        self, ranges: Ranges, described: Description, tickets: Mapping[str, str], *, is_batch: bool
    ) -> dict[Key, list[Part]]:
        parts: dict[Key, list[Part]] = {}
        for key, (start, end) in ranges.items():
            if start >= end:
                continue
            topic, partition = described.topics[key[0]], described.partitions[key]
            size = int((end - start) * partition.bytes_per_message)
            target = target_bytes(end - start, size, self.options, is_batch=is_batch)
            if target is None:
                parts[key] = [Part(start, end, size)]
                continue
            found = cuts(topic, partition, start, end, target, tickets[topic.name], self.options)
            ends = [begin for begin, _ in found[1:]] + [end]
            parts[key] = [Part(begin, until, of_it) for (begin, of_it), until in zip(found, ends, strict=True)]
        return parts

    def ticket(self, described: Description, name: str) -> str:
        """Return a ticket for reading a topic, from the cache if it is fresh enough."""
        topic = described.topics[name]
        key = (topic.stream_id, topic.topic_id, topic.incarnation)
        ticket, until = self._tickets.get(key, ("", 0.0))
        now = self._clock()
        if now >= until:
            issued = self._gateway.ticket(topic, READ)
            ticket = issued.text
            self._tickets[key] = (ticket, now + _RENEWED_AT * issued.lifetime_seconds)
        return ticket

    def offsets_of_times(self, described: Description) -> Callable[[Mapping[Key, int]], dict[Key, int]]:
        """Return a function that looks up the first offset at or after a timestamp (microseconds) per partition."""

        def find(times: Mapping[Key, int]) -> dict[Key, int]:
            found: dict[Key, int] = {}
            groups: dict[tuple[str, str, int], list[int]] = {}
            for (name, number), at in times.items():
                groups.setdefault((name, described.partitions[name, number].address, at), []).append(number)
            for (name, address, at), numbers in groups.items():
                offsets = offsets_of_time(
                    described.topics[name], address, numbers, at, self.ticket(described, name), self.options
                )
                found.update({(name, number): offset for number, offset in offsets.items()})
            return found

        return find
