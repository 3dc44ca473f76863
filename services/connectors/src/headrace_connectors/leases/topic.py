"""The topic of a ledger: entries are appended to it, and all entries are applied in its order."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, Self

import msgspec

from headrace.aio.client import Client
from headrace.aio.direct import DirectProducer
from headrace.sdk.direct import Outgoing
from headrace.sdk.errors import AlreadyExists, HeadraceError, NotFound, PermissionDenied
from headrace.sdk.starts import at_offset
from headrace_chassis.background import background
from headrace_connectors.contract import ConnectorError, Unavailable
from headrace_connectors.leases.ledger import FORMATS, Entry, Ledger, Snapshot, decode, encode

_log = logging.getLogger(__name__)

# The name under which the server keeps the place from which older releases read the ledger.
_POINTER: Final = "ledger"
_RETRY_SECONDS: Final = 0.2
# The oldest segments are removed beyond this size. The newest snapshot is never far from the end.
_TOPIC_BYTES_MAX: Final = 4 << 30
_SNAPSHOT_BYTES: Final = 4 << 20
_READ_MESSAGES: Final = 1000
_SEARCH_MESSAGES: Final = 500


class LedgerTopic:
    """The ledger of a group, kept current from its topic.

    Args:
        client: A client whose user may create the topic, read it and write to it.
        stream: Stream of the topic.
        topic: The topic.
        timeout: Time for an entry to be stored and read back, in seconds.
    """

    def __init__(self, client: Client, stream: str, topic: str, *, timeout: float) -> None:
        self.ledger = Ledger()
        self._client = client
        self._stream, self._topic = stream, topic
        self._timeout = timeout
        self._changed = asyncio.Condition()
        # Own entries that are waited for, by message id: whether one had an effect. An entry is there twice if its
        # first answer was lost.
        self._own: dict[int, bool] = {}
        # Entries after the place of the snapshot and before the snapshot itself; None: it was read.
        self._early: list[tuple[int, int, Entry]] | None = None
        self._snapshot_at = 0
        self._next_offset = 0
        self._bytes_since, self._long_bytes = 0, _SNAPSHOT_BYTES
        self._failure: ConnectorError | None = None
        self._producer: DirectProducer | None = None

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Self]:
        """Follow the topic for the duration of an ``async with`` block; create it if missing.

        Raises:
            HeadraceError: The server cannot be reached, or refuses it.
        """
        await self._ensure()
        await self._begin()
        async with self._client.direct_producer(delivery_timeout=self._timeout) as producer:
            self._producer = producer
            async with background(self._following(), "ledger"):
                yield self

    async def read_once(self) -> Ledger:
        """Return the ledger as it is now; an empty one if there is no topic. Nothing is created or followed.

        Raises:
            HeadraceError: The server cannot be reached, or refuses it.
            ConnectorError: The ledger is of another release.
        """
        try:
            await self._client.topic(self._stream, self._topic)
        except NotFound:
            return self.ledger
        await self._begin()
        while messages := list(
            await self._client.read(self._stream, self._topic, start=at_offset(self._next_offset), count=_READ_MESSAGES)
        ):
            for message in messages:
                self._read(message.offset, message.id, message.payload)
        return self.ledger

    async def append(self, entry: Entry) -> bool:
        """Append an entry, and wait until it was read back; return False if it had no effect.

        Raises:
            Unavailable: The outcome is not known in time: the entry may take effect.
            ConnectorError: The ledger is of another release.
        """
        if self._failure is not None:
            raise self._failure
        if self._producer is None:
            raise AssertionError("the topic is opened before anything is appended")
        id_ = uuid.uuid4().int
        self._own[id_] = False
        try:
            async with asyncio.timeout(self._timeout):
                message = Outgoing(encode(entry), partition=0, message_id=id_)
                runs = await self._producer.send_to(self._stream, self._topic, message)
                offset = runs[0][0].offset
                if offset is None:
                    raise ConnectorError("the server does not report offsets: a group needs a Headrace server")
                async with self._changed:
                    await self._changed.wait_for(lambda: self.ledger.next_offset > offset and self._early is None)
            return self._own[id_]
        except HeadraceError as error:
            raise Unavailable(f"{self._stream}/{self._topic}: {error}") from error
        except TimeoutError:
            raise Unavailable(f"{self._stream}/{self._topic}: no answer within {self._timeout:g} s") from None
        finally:
            del self._own[id_]

    async def changed(self, seconds: float) -> None:
        """Wait until entries were applied, at most for this time."""
        before = self.ledger.next_offset
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds), self._changed:
                await self._changed.wait_for(lambda: self.ledger.next_offset > before)

    @property
    def is_long(self) -> bool:
        """True if so much was read since the last snapshot that another one is due."""
        return self._bytes_since >= self._long_bytes

    async def shorten(self) -> None:
        """Write a snapshot, and let later readers begin there.

        Raises:
            Unavailable: It may not have been written.
        """
        snapshot = self.ledger.snapshot()
        self._long_bytes = max(_SNAPSHOT_BYTES, 4 * len(encode(snapshot)))
        await self.append(snapshot)
        try:
            # The stored offset is that of the last entry that need not be read.
            await self._client.store_offset(self._stream, self._topic, 0, snapshot.next_offset - 1, consumer=_POINTER)
        except PermissionDenied:
            # Another reader has taken the name: this process needs it for nothing.
            _log.warning("%s/%s: the stored offset of %r belongs to another user", self._stream, self._topic, _POINTER)
        except HeadraceError as error:
            raise Unavailable(f"{self._stream}/{self._topic}: {error}") from error

    async def _begin(self) -> None:
        """Find the newest snapshot, and begin where it does; at the beginning of the topic if there is none.

        Entries are looked through from the end on. The stored offset is for processes of older releases: every
        reader of the topic may store another one, so nothing here depends on it.
        """
        end = (await self._client.plan(self._stream, self._topic, 0)).next_offset
        while end > 0:
            begin = max(0, end - _SEARCH_MESSAGES)
            entries = await self._between(begin, end)
            newest = next((entry for offset, entry in reversed(entries) if _is_snapshot(offset, entry)), None)
            if isinstance(newest, Snapshot):
                self._early, self._snapshot_at = [], newest.next_offset
                self._next_offset = newest.next_offset
                return
            if not entries:
                # The rest was removed.
                return
            end = begin

    async def _between(self, begin: int, end: int) -> list[tuple[int, Entry | None]]:
        """Return the entries of these offsets that are there; None: a message is no entry."""
        found: list[tuple[int, Entry | None]] = []
        while begin < end:
            batch = list(await self._client.read(self._stream, self._topic, start=at_offset(begin), count=end - begin))
            for message in batch:
                if message.offset < end:
                    try:
                        found.append((message.offset, decode(message.payload)))
                    except msgspec.MsgspecError:
                        found.append((message.offset, None))
            if not batch:
                break
            begin = batch[-1].offset + 1
        return found

    async def _ensure(self) -> None:
        try:
            await self._client.topic(self._stream, self._topic)
        except NotFound:
            with contextlib.suppress(AlreadyExists):
                await self._client.create_stream(self._stream)
            with contextlib.suppress(AlreadyExists):
                await self._client.create_topic(
                    self._stream, self._topic, partitions=1, message_expiry="never", max_size_bytes=_TOPIC_BYTES_MAX
                )

    async def _following(self) -> None:
        while True:
            try:
                consumer = self._client.consumer(
                    self._stream, self._topic, partitions=[0], start=at_offset(self._next_offset)
                )
                try:
                    while (batch := await consumer.poll()) is not None:
                        for message in batch:
                            self._read(message.offset, message.id, message.payload)
                        async with self._changed:
                            self._changed.notify_all()
                finally:
                    with contextlib.suppress(HeadraceError):
                        await consumer.close()
            except HeadraceError as error:
                _log.warning("%s/%s cannot be read, and is tried again: %s", self._stream, self._topic, error)
                await asyncio.sleep(_RETRY_SECONDS)
            except ConnectorError as error:
                self._failure = error
                _log.error("%s", error)
                return

    def _read(self, offset: int, id_: int, payload: bytes) -> None:
        if offset != self._next_offset:
            raise ConnectorError(
                f"{self._stream}/{self._topic}: the entries from offset {self._next_offset} to {offset - 1} were "
                "removed before they were read: start this process again, and let the topic keep more"
            )
        self._next_offset = offset + 1
        self._bytes_since += len(payload)
        try:
            entry = decode(payload)
        except msgspec.MsgspecError as error:
            # All processes leave it out alike.
            _log.warning("%s/%s, offset %d is no entry: %s", self._stream, self._topic, offset, error)
            if self._early is None:
                self.ledger.next_offset = offset + 1
            return
        if self._early is None:
            self._apply(offset, id_, entry)
        elif isinstance(entry, Snapshot) and entry.next_offset == self._snapshot_at:
            if entry.format not in FORMATS:
                raise ConnectorError(
                    f"{self._stream}/{self._topic} has format {entry.format}, this release reads "
                    f"{' and '.join(map(str, FORMATS))}: start the newer release"
                )
            early, self._early = self._early, None
            self.ledger.restore(entry)
            for one in early:
                self._apply(*one)
            self._apply(offset, id_, entry)
        else:
            self._early.append((offset, id_, entry))

    def _apply(self, offset: int, id_: int, entry: Entry) -> None:
        if isinstance(entry, Snapshot):
            self._bytes_since = 0
        if self.ledger.apply(offset, entry) and id_ in self._own:
            self._own[id_] = True


def _is_snapshot(offset: int, entry: Entry | None) -> bool:
    return isinstance(entry, Snapshot) and entry.next_offset <= offset
