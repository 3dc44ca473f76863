"""One topic of a sink: read, write, flush, and store offsets; strictly in this order."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from headrace.aio.client import Client
from headrace.aio.consumer import Consumer
from headrace.sdk.errors import HeadraceError, InvalidArgument, NotFound
from headrace.sdk.starts import at_offset
from headrace_connectors.contract import InvalidRecord, Place, Sink, Unavailable
from headrace_connectors.counters import SinkCounters
from headrace_connectors.failures import FailureClass, class_of, translated
from headrace_connectors.pipeline_file.models import SinkSettings, TopicName
from headrace_connectors.runtime.attempts import Attempts
from headrace_connectors.runtime.sink_batch import Decoding, Item, decode, write
from headrace_connectors.runtime.status import Status
from headrace_connectors.runtime.stopping import GraceOver, until_stop, with_grace

_CLOSE_SECONDS: Final = 5.0
_LOGGED: Final = frozenset({*range(1, 11), *(10**digits for digits in range(2, 10))})
"""Repetitions of an invalid message that are logged: a topic may be full of them."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SinkParts:
    """Objects that the loops of a sink share."""

    group: str
    """Consumer group."""
    sink: Sink
    """The sink, opened."""
    decoding: Decoding
    settings: SinkSettings
    status: Status
    counters: SinkCounters
    attempts: Attempts
    stop: asyncio.Event
    """Set when the sink is to end."""
    may_go_on: Callable[[], bool] = lambda: True
    """Asked before each write; False ends the sink."""
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while the sink is used: its loops take turns."""


@dataclass(frozen=True, slots=True)
class _End:
    """End of a partition."""

    offset: int
    last: tuple[int, int] | None = None
    """Id and time of the message before it; None: there is none."""


async def _last(client: Client, place: Place, end: int) -> tuple[int, int] | None:
    if end == 0:
        return None
    found = await client.read(place.stream, place.topic, partition=place.partition, start=end - 1, count=1)
    return next(((one.id, one.timestamp_micros) for one in found if one.offset == end - 1), None)


class SinkLoop:
    """Reads one topic into a sink until it is stopped or fails. A sink with several topics has a loop for each.

    Args:
        topic: The topic.
        parts: What is around it.
    """

    def __init__(self, topic: TopicName, parts: SinkParts) -> None:
        self._topic = topic
        self._parts = parts
        self._stop = parts.stop
        self._clock = asyncio.get_running_loop().time
        self._grace = parts.settings.delivery.commit_stop_grace.seconds
        self._consumer: Consumer | None = None
        self._items: list[Item] = []
        """Read and not flushed."""
        self._positions: dict[Place, int] = {}
        """Offset after the last message of each partition that was read and not flushed."""
        self._due_at: float | None = None
        self._begun: dict[int, _End] | None = None
        """Ends of the partitions when it began, if reading begins there; in others, which are added, it begins at 0."""

    async def run(self, client: Client) -> None:
        """Read until the stop. A failure of the server, or of the sink while partitions change, begins anew.

        Raises:
            ConnectorError: The sink cannot go on.
            Exception: The plugin failed in another way.
        """
        while not self._stop.is_set():
            self._forget()
            try:
                await until_stop(self._begin(client), self._stop)
                consumer = self._consumer = self._consumer_of(client)
                try:
                    await self._read(consumer)
                finally:
                    with contextlib.suppress(HeadraceError):
                        await consumer.close(_CLOSE_SECONDS)
            except NotFound:
                where = f"{self._topic.stream}/{self._topic.topic}"
                missing = Unavailable(f"there is no topic {where} yet: create it, or start the source that creates it")
                await self._parts.attempts.missed(missing)
            except Unavailable as error:
                await self._parts.attempts.failed(error)
            except HeadraceError as error:
                await self._failed(error)

    async def _failed(self, error: HeadraceError) -> None:
        failure = translated(error, f"{self._topic.stream}/{self._topic.topic}")
        if class_of(failure) is FailureClass.CONNECTOR:
            raise failure from error
        await self._parts.attempts.failed(failure)

    async def _begin(self, client: Client) -> None:
        """Note the ends of the partitions. A consumer that follows a broken connection would begin at later ones."""
        if self._parts.settings.start != "end" or self._begun is not None:
            return
        name = self._topic
        try:
            topic = await client.topic(name.stream, name.topic)
        except NotFound:
            # All that it will ever have comes after the beginning.
            self._begun = {}
            raise
        places = [Place(name.stream, name.topic, partition.id) for partition in topic.partitions]
        ends = {place: (await client.plan(*place)).next_offset for place in places}
        self._begun = {place.partition: _End(end, await _last(client, place, end)) for place, end in ends.items()}

    def _consumer_of(self, client: Client) -> Consumer:
        settings = self._parts.settings
        return client.consumer(
            self._topic.stream,
            self._topic.topic,
            group=self._parts.group,
            start=settings.start,
            on_assigned=partial(self._assigned, client),
            on_revoked=self._revoked,
            on_lost=self._lost,
            commit="manual",
            batch_messages=settings.batch_size,
            dead_letter_topic=settings.dead_letter_topic,
        )

    def _opened(self) -> Consumer:
        if self._consumer is None:
            raise AssertionError("the consumer is opened before it calls back")
        return self._consumer

    async def _read(self, consumer: Consumer) -> None:
        while not self._stop.is_set():
            pause = None if self._due_at is None else max(0.0, self._due_at - self._clock())
            batch = await until_stop(consumer.poll(timeout=pause), self._stop)
            if batch is not None:
                place = Place(self._topic.stream, self._topic.topic, batch.partition_id)
                for message in batch:
                    self._items.append(Item(message, place))
                self._positions[place] = batch.next_offset
                if self._due_at is None:
                    self._due_at = self._clock() + self._parts.settings.linger.seconds
            if self._is_due() and not self._stop.is_set():
                await self._settle()
        await self._settle()

    def _is_due(self) -> bool:
        full = len(self._items) >= self._parts.settings.batch_size
        return full or (self._due_at is not None and self._clock() >= self._due_at)

    def _forget(self) -> None:
        self._items.clear()
        self._positions.clear()
        self._due_at = None

    # ---- partitions

    async def _assigned(self, client: Client, partitions: Sequence[int]) -> None:
        places = [Place(self._topic.stream, self._topic.topic, partition) for partition in partitions]
        async with self._parts.turn:
            positions = await self._parts.sink.positions(places)
        for place in places:
            offset = positions.get(place)
            if offset is None and self._begun is not None:
                offset = await self._begun_at(client, place, self._begun.get(place.partition, _End(0)))
            if offset is not None:
                # The next event says so if the partition is with others by now.
                with contextlib.suppress(InvalidArgument):
                    await self._opened().seek(place.partition, at_offset(offset))

    async def _begun_at(self, client: Client, place: Place, begun: _End) -> int | None:
        """Return the offset to begin at in a partition; None: an offset is stored."""
        # The group may have been deleted.
        with contextlib.suppress(NotFound):
            if await client.offset(*place, group=self._parts.group) is not None:
                return None
        # Offsets begin at 0 again after the topic was purged, or made anew: there is less, or another message.
        if begun.offset > (await client.plan(*place)).next_offset:
            return 0
        last = await _last(client, place, begun.offset)
        is_same = last is None or begun.last is None or last == begun.last
        return begun.offset if is_same else 0

    async def _revoked(self, partitions: Sequence[int]) -> None:
        # The next member continues at the stored offsets.
        del partitions
        await self._settle()

    def _lost(self, partitions: Sequence[int]) -> None:
        # Others may read them already. A new consumer continues at what is stored, so that nothing is left out.
        raise Unavailable(
            f"{self._topic.stream}/{self._topic.topic}: the connection broke, and the partitions "
            f"{', '.join(map(str, partitions))} are with others"
        )

    # ---- writing

    async def _settle(self) -> None:
        """Write, flush, and store the offsets of everything that was read; when stopped, within the grace."""
        if not self._positions:
            self._forget()
            return
        if not self._parts.may_go_on():
            # Another process continues at the stored offsets.
            self._stop.set()
            self._forget()
            return
        try:
            await with_grace(self._write(), self._stop, self._grace)
        except GraceOver:
            _log.warning(
                "%s/%s: stopped before its messages were written; they are read again at the next start",
                self._topic.stream,
                self._topic.topic,
            )
            self._forget()

    async def _write(self) -> None:
        parts = self._parts
        while True:
            try:
                async with parts.turn:
                    await self._write_and_flush()
                break
            except (Unavailable, HeadraceError) as error:
                await (self._failed(error) if isinstance(error, HeadraceError) else parts.attempts.failed(error))
                if self._stop.is_set():
                    self._forget()
                    return
        count = sum(item.count for item in self._items)
        self._forget()
        await self._opened().commit()
        parts.counters.written += count
        parts.status.committed(count)
        parts.attempts.succeeded()

    async def _write_and_flush(self) -> None:
        sink = self._parts.sink
        try:
            await self._write_all(sink)
            await sink.flush(self._positions)
        except BaseException:
            # All of it is written again. The flush of another topic would make it durable without its offsets.
            await sink.forget()
            raise

    async def _write_all(self, sink: Sink) -> None:
        """Decode and write the messages, as many at a time as fit into memory."""
        written: list[Item] = []
        left = self._items
        part: list[Item] = []
        try:
            while left:
                part = await decode(self._parts.decoding, left, self._reject)
                del left[: len(part)]
                try:
                    await write(sink, part, self._reject)
                finally:
                    for item in part:
                        item.received = None
                    written += part
        finally:
            self._items = [*written, *left]

    async def _reject(self, item: Item, error: InvalidRecord) -> None:
        policy = self._parts.settings.on_invalid
        where = (
            f"{item.place.stream}/{item.place.topic}, partition {item.place.partition}, offset {item.message.offset}"
        )
        if policy == "error":
            raise InvalidRecord(f"{where}: {error}; correct its writer, or set on_invalid") from error
        if policy == "dead_letter":
            await self._opened().dead_letter(item.message, error)
            self._parts.counters.dead_letters += 1
        self._parts.counters.invalid += 1
        count = self._parts.status.noted(error)
        if count in _LOGGED:
            times = "" if count == 1 else f" ({count} times)"
            _log.warning("%s: %s%s", where, error, times)
