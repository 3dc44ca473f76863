"""Sending the flights and reading them back in every way, with each byte compared."""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_left
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from apache_iggy import IggyClient, PollingStrategy, ReceiveMessage, SendMessage

from headrace_core import Client, ConnectionLost
from tests.journeys.deployment.outages import Interrupted, Link
from tests.journeys.flights.rows import Flights

TOPIC = "flights"
CONSUMER = 0
"""The number of the consumer that the official client polls as."""
PASSES_COUNT = 5

_POLL_COUNT = 1000


class Difference(Exception):
    """The messages read differ from those sent."""


@dataclass(slots=True)
class Pass:
    """One way through all messages, and what it cost."""

    name: str
    messages_count: int = 0
    size_bytes: int = 0
    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)
    """Seconds of every request that was answered."""

    @contextmanager
    def request(self) -> Iterator[None]:
        """Measure a request; one that fails does not count."""
        started = time.perf_counter()
        yield
        self.latencies.append(time.perf_counter() - started)


@dataclass(slots=True)
class InFlight:
    """Outcome of batches whose acknowledgement was prevented by a kill."""

    stored_whole: int = 0
    stored_in_part: int = 0
    not_stored: int = 0


class Journey:
    """The flights on their way into a topic and back.

    Each link works on one partition at a time, with one request in flight.
    """

    def __init__(
        self,
        flights: Flights,
        links: Sequence[Link],
        stream: str,
        *,
        batch_count: int,
        progressed: Callable[[int], None],
        connect_native: Callable[[], Client],
    ) -> None:
        """Describe a journey.

        Args:
            flights: Rows to send; carrier n goes to partition n.
            links: Connections; the partitions are spread over them.
            stream: Name of the stream, which is created.
            batch_count: Messages per send request.
            progressed: Called with the number of messages sent or read.
            connect_native: Connects the native client, to store offsets: the official client has no method for that.
        """
        self.in_flight = InFlight()
        self._flights = flights
        self._links = links
        self._stream = stream
        self._batch_count = batch_count
        self._progressed = progressed
        self._connect_native = connect_native
        self._native: dict[Link, Client] = {}
        self._timestamps: list[list[int]] = [[] for _ in flights.rows]

    async def create(self) -> None:
        """The stream, and a topic with one partition for each carrier."""

        async def create(client: IggyClient) -> None:
            await client.create_stream(self._stream)
            await client.create_topic(self._stream, TOPIC, partitions_count=len(self._flights.rows))

        await self._links[0].call(create)

    async def send(self) -> Pass:
        """Every row; only what was not acknowledged is looked up and, where it is missing, sent again."""
        return await self._each_partition("send", self._send)

    async def read_by_offset(self) -> Pass:
        """Poll by offset from 0 to the end: offsets are dense, timestamps monotonic."""
        return await self._each_partition("by offset", self._read_by_offset)

    async def read_by_timestamp(self) -> Pass:
        """Each poll asks for the time of the last message that was read."""
        return await self._each_partition("by timestamp", self._read_by_timestamp)

    async def read_next_auto_commit(self) -> Pass:
        """The server stores the offset with each poll."""
        return await self._each_partition("next, auto-commit", self._read_next_auto_commit)

    async def read_next_stored(self) -> Pass:
        """The consumer stores its offset after each poll."""
        return await self._each_partition("next, stored", self._read_next_stored)

    async def _each_partition(self, name: str, run: Callable[[Pass, Link, int], Awaitable[None]]) -> Pass:
        measured = Pass(name)

        async def run_all(link: Link, partitions: Sequence[int]) -> None:
            for partition in partitions:
                await run(measured, link, partition)

        started = time.perf_counter()
        try:
            async with asyncio.TaskGroup() as group:
                for link, partitions in zip(self._links, self._shares(), strict=True):
                    group.create_task(run_all(link, partitions))
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None
        measured.seconds = time.perf_counter() - started
        return measured

    def _shares(self) -> list[list[int]]:
        """Partitions per link: the largest first, each to the link with the fewest rows."""
        shares: list[list[int]] = [[] for _ in self._links]
        rows_counts = [0] * len(shares)
        for partition in sorted(range(len(self._flights.rows)), key=lambda number: -len(self._flights.rows[number])):
            link = rows_counts.index(min(rows_counts))
            shares[link].append(partition)
            rows_counts[link] += len(self._flights.rows[partition])
        return shares

    def _done(self, measured: Pass, rows: Sequence[bytes]) -> None:
        measured.messages_count += len(rows)
        measured.size_bytes += sum(map(len, rows))
        self._progressed(len(rows))

    # ---- sending

    async def _send(self, measured: Pass, link: Link, partition: int) -> None:
        rows = self._flights.rows[partition]
        sent = 0
        while sent < len(rows):
            batch = rows[sent : sent + self._batch_count]
            messages = [SendMessage(row) for row in batch]

            async def send(client: IggyClient, messages: list[SendMessage] = messages) -> None:
                with measured.request():
                    await client.send_messages(self._stream, TOPIC, partition, messages)

            try:
                await link.call(send)
                stored = sent + len(batch)
            except Interrupted:
                stored = await self._stored_count(link, partition)
                self._account(partition, sent, batch, stored)
            self._done(measured, rows[sent:stored])
            sent = stored

    def _account(self, partition: int, acknowledged: int, batch: Sequence[bytes], stored: int) -> None:
        """Account for a batch in flight: a prefix may be stored, once; all earlier batches must be stored."""
        if stored < acknowledged:
            raise Difference(f"{self._place(partition)}: {acknowledged} messages were acknowledged, {stored} are left")
        if stored > acknowledged + len(batch):
            raise Difference(
                f"{self._place(partition)}: {acknowledged} messages were acknowledged and {len(batch)} in flight, but "
                f"{stored} are there"
            )
        if stored == acknowledged:
            self.in_flight.not_stored += 1
        elif stored == acknowledged + len(batch):
            self.in_flight.stored_whole += 1
        else:
            self.in_flight.stored_in_part += 1

    async def _stored_count(self, link: Link, partition: int) -> int:
        while True:
            try:
                last = await self._poll(None, link, partition, PollingStrategy.Last(), count=1)
            except Interrupted:
                continue
            return last[0].offset() + 1 if last else 0

    # ---- reading

    async def _read_by_offset(self, measured: Pass, link: Link, partition: int) -> None:
        rows, timestamps = self._flights.rows[partition], self._timestamps[partition]
        while len(timestamps) < len(rows):
            start = len(timestamps)
            try:
                messages = await self._poll(measured, link, partition, PollingStrategy.Offset(start))
            except Interrupted:
                continue
            self._compare(measured, partition, start, messages)
            timestamps += [message.timestamp() for message in messages]
        if timestamps != sorted(timestamps):
            raise Difference(f"{self._place(partition)}: the timestamps go back")
        await self._expect_end(link, partition, PollingStrategy.Offset(len(rows)))

    async def _read_by_timestamp(self, measured: Pass, link: Link, partition: int) -> None:
        rows, timestamps = self._flights.rows[partition], self._timestamps[partition]
        read, moment, count = 0, 0, _POLL_COUNT
        while read < len(rows):
            try:
                messages = await self._poll(measured, link, partition, PollingStrategy.Timestamp(moment), count=count)
            except Interrupted:
                continue
            start = bisect_left(timestamps, moment)
            # What has the time of the last message read comes once more: compared again, counted once.
            self._compare(measured, partition, start, messages, counted_from=read)
            if start + len(messages) == read:
                count *= 2
            read = start + len(messages)
            moment = timestamps[read - 1]
        await self._expect_end(link, partition, PollingStrategy.Timestamp(timestamps[-1] + 1))

    async def _read_next_auto_commit(self, measured: Pass, link: Link, partition: int) -> None:
        rows = self._flights.rows[partition]
        read = 0
        while read < len(rows):
            try:
                messages = await self._poll(measured, link, partition, PollingStrategy.Next(), auto_commit=True)
            except Interrupted:
                # The offset may have been stored although the messages did not arrive; then they are read again.
                stored = await self._next_offset(link, partition)
                expected = (read, min(read + _POLL_COUNT, len(rows)))
                if stored not in expected:
                    raise Difference(f"{self._place(partition)}: next is {stored}, not one of {expected}") from None
                read = await self._read_range(measured, link, partition, read, stored)
                continue
            self._compare(measured, partition, read, messages)
            read += len(messages)
        await self._expect_end(link, partition, PollingStrategy.Next())

    async def _read_next_stored(self, measured: Pass, link: Link, partition: int) -> None:
        rows = self._flights.rows[partition]
        # The pass before has left the consumer at the end: back to the first message, which counts as read.
        await self._store(link, partition, 0)
        self._compare(measured, partition, 0, await self._first(link, partition))
        read = 1
        while read < len(rows):
            try:
                messages = await self._poll(measured, link, partition, PollingStrategy.Next())
            except Interrupted:
                continue
            self._compare(measured, partition, read, messages)
            read += len(messages)
            await self._store(link, partition, read - 1)
        await self._expect_end(link, partition, PollingStrategy.Next())

    async def _read_range(self, measured: Pass, link: Link, partition: int, start: int, end: int) -> int:
        while start < end:
            try:
                messages = await self._poll(measured, link, partition, PollingStrategy.Offset(start), count=end - start)
            except Interrupted:
                continue
            self._compare(measured, partition, start, messages)
            start += len(messages)
        return start

    async def _first(self, link: Link, partition: int) -> list[ReceiveMessage]:
        while True:
            try:
                return await self._poll(None, link, partition, PollingStrategy.First(), count=1)
            except Interrupted:
                continue

    async def _next_offset(self, link: Link, partition: int) -> int:
        """Return the next offset of the consumer without moving it."""
        while True:
            try:
                messages = await self._poll(None, link, partition, PollingStrategy.Next(), count=1)
            except Interrupted:
                continue
            return messages[0].offset() if messages else len(self._flights.rows[partition])

    async def _store(self, link: Link, partition: int, offset: int) -> None:
        """Store an offset for the consumer that the official client polls as."""

        def store() -> None:
            client = self._native.get(link) or self._native.setdefault(link, self._connect_native())
            client.store_offset(self._stream, TOPIC, partition, offset, consumer=CONSUMER)

        while True:
            await link.up()
            try:
                return await asyncio.to_thread(store)
            except ConnectionLost:
                self._native.pop(link, None)

    async def _poll(
        self,
        measured: Pass | None,
        link: Link,
        partition: int,
        strategy: PollingStrategy,
        *,
        count: int = _POLL_COUNT,
        auto_commit: bool = False,
    ) -> list[ReceiveMessage]:
        async def poll(client: IggyClient) -> list[ReceiveMessage]:
            with (measured or Pass("")).request():
                return await client.poll_messages(self._stream, TOPIC, partition, strategy, count, auto_commit)

        return await link.call(poll)

    async def _expect_end(self, link: Link, partition: int, strategy: PollingStrategy) -> None:
        while True:
            try:
                messages = await self._poll(None, link, partition, strategy, count=1)
            except Interrupted:
                continue
            if messages:
                raise Difference(f"{self._place(partition)}: more than was sent, at offset {messages[0].offset()}")
            return

    def _compare(
        self, measured: Pass, partition: int, start: int, messages: Sequence[ReceiveMessage], *, counted_from: int = 0
    ) -> None:
        """Offsets, partition and payloads of consecutive messages against the rows."""
        expected = self._flights.rows[partition][start : start + len(messages)]
        payloads = [message.payload() for message in messages]
        offsets = [message.offset() for message in messages]
        if not messages:
            raise Difference(f"{self._place(partition)}: nothing at offset {start} and behind it")
        if offsets != list(range(start, start + len(messages))):
            raise Difference(
                f"{self._place(partition)}: offsets {offsets[0]} to {offsets[-1]} instead of {start} and on"
            )
        if any(message.partition_id() != partition for message in messages):
            raise Difference(f"{self._place(partition)}: a message says that it is of another partition")
        if payloads != list(expected):
            for offset, payload, row in zip(offsets, payloads, expected, strict=False):
                if payload != row:
                    raise Difference(f"{self._place(partition)}, offset {offset}:\n  sent {row!r}\n  read {payload!r}")
            raise Difference(f"{self._place(partition)}: more messages than were sent")
        self._done(measured, expected[max(0, counted_from - start) :])

    def _place(self, partition: int) -> str:
        return f"partition {partition} ({self._flights.carriers[partition]})"
