"""Planning on the driver: topic metadata, tickets and offsets of timestamps."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import grpc

from pyspark_headrace.cluster.call_errors import remedy
from pyspark_headrace.cluster.description import Description, Key, Topic, cut_since
from pyspark_headrace.cluster.gateway import READ, Gateway
from pyspark_headrace.cluster.retrying import Attempts, said
from pyspark_headrace.errors import DataLossError, OffsetError, OptionError, ServerRefusedError, UnreachableError
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

    def describe_again(self, known: Description, keys: Iterable[Key]) -> Description:
        """Return the metadata with the current leaders; the known metadata if no gateway answers.

        Args:
            known: Metadata that the ranges were planned with.
            keys: Partitions of the ranges.

        Raises:
            DataLossError: One of the partitions was deleted, purged, recreated or cut.
            ServerRefusedError: The user is not authorized.
        """
        now = self._clock()
        try:
            # One round over the gateways: the caller retries.
            gateway = Gateway(self.options.each_server_once())
            found = selected(gateway, self.options, with_sizes=self._has_sizes, tolerates_missing=True)
        except UnreachableError:
            # The leader may become reachable sooner than a gateway.
            return known
        for key in keys:
            if _generation(found, key) != _generation(known, key):
                title = f"{known.topics[key[0]].title}, partition {key[1]}"
                raise DataLossError(f"{title}: it was purged, or it or its topic is gone or was created again")
            then = known.partitions[key]
            cut = cut_since(found.partitions[key].openings, then.epoch, then.next_offset)
            # Otherwise the next micro-batch goes back to where the log was cut.
            if cut is not None and self.options.fail_on_data_loss:
                raise DataLossError(
                    f"{known.topics[key[0]].title}, partition {key[1]}: the log was cut at {cut} meanwhile"
                )
        self._described, self._described_at = found, now
        return found

    def splits(self, ranges: Ranges, described: Description, *, is_batch: bool) -> list[Split]:
        """Return the tasks for ranges of offsets.

        Raises:
            DataLossError: A partition was deleted, purged or recreated.
            OffsetError: A range ends before it starts.
            ServerRefusedError: The user is not authorized to read a topic.
            UnreachableError: No server answers.
        """
        for (name, number), (start, end) in ranges.items():
            if start > end:
                raise OffsetError(f"topic {name}, partition {number}: a range from {start} to {end} cannot be")
        wanted = {key: (start, end) for key, (start, end) in ranges.items() if end > start}
        leaders = _Leaders(self, described, wanted)
        parts: dict[Key, list[Part]] = {}
        for key, (start, end) in wanted.items():
            size = int((end - start) * described.partitions[key].bytes_per_message)
            target = target_bytes(end - start, size, self.options, is_batch=is_batch)
            parts[key] = [Part(start, end, size)] if target is None else self._parts(leaders, key, start, end, target)
        # Tickets come last: a node may have refused the one from the cache.
        tickets = {name: self.ticket(leaders.described, name) for name in {name for name, _ in wanted}}
        return split_up(parts, leaders.described, tickets, self.options)

    def _parts(self, leaders: _Leaders, key: Key, start: int, end: int, target: int) -> list[Part]:
        while True:
            topic, partition = leaders.described.topics[key[0]], leaders.described.partitions[key]
            ticket = self.ticket(leaders.described, topic.name)
            try:
                found = cuts(topic, partition, start, end, target, ticket, self.options)
            except grpc.RpcError as error:
                leaders.failed(error, f"parts of {topic.title}, partition {key[1]}", key)
            else:
                leaders.progressed()
                ends = [begin for begin, _ in found[1:]] + [end]
                return [Part(begin, until, of_it) for (begin, of_it), until in zip(found, ends, strict=True)]

    def ticket(self, described: Description, name: str) -> str:
        """Return a ticket for reading a topic, from the cache if it is fresh enough."""
        topic = described.topics[name]
        key = _ticket_key(topic)
        ticket, until = self._tickets.get(key, ("", 0.0))
        now = self._clock()
        if now >= until:
            issued = self._gateway.ticket(topic, READ)
            ticket = issued.text
            self._tickets[key] = (ticket, now + _RENEWED_AT * issued.lifetime_seconds)
        return ticket

    def forget_ticket(self, topic: Topic) -> None:
        """Drop the cached ticket of a topic: a node has refused it."""
        self._tickets.pop(_ticket_key(topic), None)

    def offsets_of_times(self, described: Description) -> Callable[[Mapping[Key, int]], dict[Key, int]]:
        """Return a function that looks up the first offset at or after a timestamp (microseconds) per partition."""

        def find(times: Mapping[Key, int]) -> dict[Key, int]:
            found: dict[Key, int] = {}
            leaders = _Leaders(self, described, times)
            while len(found) < len(times):
                groups: dict[tuple[str, str, int], list[int]] = {}
                for (name, number), at in times.items():
                    if (name, number) not in found:
                        address = leaders.described.partitions[name, number].address
                        groups.setdefault((name, address, at), []).append(number)
                for (name, address, at), numbers in groups.items():
                    topic, ticket = leaders.described.topics[name], self.ticket(leaders.described, name)
                    try:
                        offsets = offsets_of_time(topic, address, numbers, at, ticket, self.options)
                    except grpc.RpcError as error:
                        what = f"offsets of {topic.title} at {at} microseconds since 1970"
                        leaders.failed(error, what, (name, numbers[0]))
                        # The partitions of the group may have moved to several nodes.
                        break
                    leaders.progressed()
                    found.update({(name, number): offsets[number] for number in numbers})
            return found

        return find


class _Leaders:
    """Leaders of partitions that a plan needs answers from. Looks them up again after a failed call."""

    def __init__(self, planner: Planner, described: Description, keys: Iterable[Key]) -> None:
        self.described = described
        """Metadata with the last known leaders."""
        self._planner = planner
        self._keys = tuple(keys)
        self._attempts = Attempts(planner.options)
        self._is_ticket_new = False

    def progressed(self) -> None:
        """Reset the retry count after an answer."""
        self._attempts.progressed()
        self._is_ticket_new = False

    def failed(self, error: grpc.RpcError, what: str, key: Key) -> None:
        """Handle a failed call: back off, and look up what the next call needs.

        Args:
            error: Error that ended the call.
            what: Subject of the call, for messages.
            key: One of the partitions that were asked for.

        Raises:
            DataLossError: A partition was deleted, purged or recreated.
            ServerRefusedError: Another call would fail as well.
            UnreachableError: All retries are used up.
        """
        address = self.described.partitions[key].address
        found = remedy(error, what, self._planner.options, is_ticket_new=self._is_ticket_new)
        if not self._attempts.again():
            raise UnreachableError(f"{what}: {address} fails: {said(error)}") from error
        _log.info("%s: %s from %s; trying again", what, said(error), address)
        if found.needs_ticket:
            self._planner.forget_ticket(self.described.topics[key[0]])
            self._is_ticket_new = True
        if found.can_look:
            self.described = self._planner.describe_again(self.described, self._keys)


def _ticket_key(topic: Topic) -> tuple[int, int, int]:
    return topic.stream_id, topic.topic_id, topic.incarnation


def _generation(described: Description, key: Key) -> tuple[int, str] | None:
    """Return the incarnation of a topic and the generation of a partition; None if the partition does not exist."""
    partition = described.partitions.get(key)
    return None if partition is None else (described.topics[key[0]].incarnation, partition.generation)
