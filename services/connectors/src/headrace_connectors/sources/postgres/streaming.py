"""Changes through the replication protocol: each is decoded once, and sent when it is committed."""

from __future__ import annotations

import asyncio
import contextlib
import struct
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Final

from headrace_connectors.contract import ConnectorError, Unavailable
from headrace_connectors.sources.postgres.changes import MalformedChange, Transaction, parse_lsn, print_lsn
from headrace_connectors.sources.postgres.pgoutput import Begin, Decoder, Relations, changes_count, end_of_commit
from headrace_connectors.sources.postgres.progress import Part, Polled, State
from headrace_connectors.sources.postgres.replication import Keepalive, ReplicationConnection, SlotInUse
from headrace_connectors.sources.postgres.slot import Slot

_WAIT_SECONDS: Final = 1.0
_IDLE_ADVANCE_SECONDS: Final = 10.0
_STATUS_SECONDS_MAX: Final = 10.0
_YIELD_MESSAGES: Final = 1000
_PAUSE_SECONDS: Final = 0.05
_CONFIRMED_ATTEMPTS: Final = 200
_START_ATTEMPTS: Final = 20
_ALL: Final = 2**63


@dataclass(slots=True)
class _Open:
    """Messages of a transaction, as far as they have arrived and are in no batch yet."""

    begin: Begin
    first: int
    """Number of the first change that is in `messages`."""
    skipped: int
    """Number of changes at its beginning that are stored already."""
    messages: list[bytes] = field(default_factory=list)
    count: int = 0
    """Number of its changes that have arrived."""
    size: int = 0


@dataclass(frozen=True, slots=True)
class _Collected:
    """A batch that is not decoded."""

    parts: list[_Open]
    position: int
    part: Part | None


@dataclass(frozen=True, slots=True)
class _Kept:
    """A batch that is not committed."""

    batch: _Collected
    relations: Relations
    """Descriptions of tables before it: decoded again, it begins with the same ones."""


class ChangeStream:
    """Reads a slot through one connection, which is made when it is needed and again when it breaks.

    A batch ends when nothing more has arrived, or when it is full; further messages stay with the server then. It ends
    with a transaction, unless that is larger than a batch may be. Positions reach the server through `advance` alone.
    """

    def __init__(self, slot: Slot, *, count_max: int, bytes_max: int) -> None:
        """Connect to nothing yet.

        Args:
            slot: The slot.
            count_max: Number of changes after which a batch ends with a transaction.
            bytes_max: Size at which a batch ends in any case.
        """
        self._slot = slot
        self._count_max = count_max
        self._bytes_max = bytes_max
        self._connection: ReplicationConnection | None = None
        self._reporting: asyncio.Task[None] | None = None
        self._connecting = asyncio.Lock()
        self._is_collecting = False
        # Descriptions of tables behind the newest batch.
        self._relations: Relations = {}
        self._received = self._flushed = 0
        self._idle_at = time.monotonic()
        self._kept: deque[_Kept] = deque()
        # Number of those that were returned, and are not to be returned again.
        self._returned = 0
        self._forget()

    def _forget(self) -> None:
        self._whole: list[_Open] = []
        self._whole_count = self._whole_size = 0
        # Position after the last whole transaction, or that of a keepalive between transactions.
        self._position = 0
        self._is_asked = False
        self._open: _Open | None = None

    # ---- batches

    async def poll(self, state: State) -> Polled | None:
        """Return the next changes."""
        await self.rewind()
        return await self.poll_ahead(state, state)

    async def poll_ahead(self, ahead: State, durable: State) -> Polled | None:
        """Return the changes after those that were returned before, or None.

        Args:
            ahead: State behind these.
            durable: State behind those that are committed.
        """
        if self._returned == len(self._kept):
            self._is_collecting = True
            try:
                collected = await self._collected(ahead, durable)
            finally:
                self._is_collecting = False
            if collected is None:
                return None
            self._kept.append(_Kept(collected, self._relations))
        kept = self._kept[self._returned]
        decoder = Decoder(kept.relations, self._slot.oids)
        number = len(self._kept) - self._returned
        try:
            # Decoding many changes takes a while, in which other connectors should go on.
            transactions = await asyncio.to_thread(_decoded, kept.batch, decoder)
        except MalformedChange as error:
            raise ConnectorError(f"the output of pgoutput cannot be understood: {error}") from error
        if number == 1:
            self._relations = decoder.relations
        self._returned += 1
        return Polled(transactions, kept.batch.position, kept.batch.part)

    async def rewind(self) -> None:
        """Return what is not committed once more."""
        if self._kept:
            # It could not be stored. Without a connection, an outage does not hold up the shutdown of PostgreSQL.
            await self._disconnect()
        self._returned = 0

    async def _collected(self, state: State, durable: State) -> _Collected | None:
        connection = await self._connected(state, durable)
        try:
            taken, until = 0, time.monotonic() + _WAIT_SECONDS
            while True:
                message = connection.next()
                if message is None:
                    if self._whole_count or self._is_idle(state):
                        return self._cut()
                    if (seconds := until - time.monotonic()) <= 0:
                        return None
                    await connection.readable(seconds)
                    continue
                if isinstance(message, Keepalive):
                    self._keepalive(message)
                elif (batch := self._data(message, state)) is not None:
                    return batch
                taken += 1
                if taken % _YIELD_MESSAGES == 0:
                    await asyncio.sleep(0)
        except (Unavailable, struct.error, IndexError) as error:
            await self._disconnect()
            if isinstance(error, Unavailable):
                raise
            raise ConnectorError(f"a message of pgoutput ends early: {error}") from error

    def _keepalive(self, message: Keepalive) -> None:
        self._received = max(self._received, message.lsn)
        if self._open is None:
            self._position = max(self._position, message.lsn)
            self._is_asked |= message.asks
        if message.asks and self._connection is not None:
            self._connection.send_status(self._received, self._flushed, asks=False)

    def _data(self, content: bytes, state: State) -> _Collected | None:
        kind = content[:1]
        if kind == b"B":
            self._open = _opened(Begin.of(content), state)
            return None
        if kind == b"C":
            return self._ended(end_of_commit(content))
        one = self._open
        if one is None:
            return None
        if kind == b"R":
            # Sent once in a connection: needed, whether or not the change after it is.
            one.messages.append(content)
            return None
        if (count := changes_count(content)) == 0:
            return None
        one.count += count
        if one.count <= one.skipped:
            one.first = one.count
            return None
        one.messages.append(content)
        one.size += len(content)
        if one.size >= self._bytes_max:
            return self._cut_within(one)
        if self._whole_count and self._whole_size + one.size >= self._bytes_max:
            return self._cut()
        return None

    def _ended(self, end_lsn: int) -> _Collected | None:
        one, self._open = self._open, None
        self._position = max(self._position, end_lsn)
        self._received = max(self._received, end_lsn)
        if one is None or not one.messages:
            return None
        self._whole.append(one)
        self._whole_count += one.count - one.first
        self._whole_size += one.size
        is_full = self._whole_count >= self._count_max or self._whole_size >= self._bytes_max
        return self._cut() if is_full else None

    def _cut(self) -> _Collected:
        batch = _Collected(self._whole, self._position, None)
        self._whole, self._whole_count, self._whole_size, self._position = [], 0, 0, 0
        self._is_asked = False
        self._idle_at = time.monotonic()
        return batch

    def _cut_within(self, one: _Open) -> _Collected:
        """End a batch within a transaction that is larger than a batch may be."""
        part = Part(print_lsn(one.begin.commit_lsn), one.count)
        batch = _Collected([*self._whole, one], self._position, part)
        self._whole, self._whole_count, self._whole_size, self._position = [], 0, 0, 0
        self._open = _Open(one.begin, one.count, one.count, count=one.count)
        return batch

    def _is_idle(self, state: State) -> bool:
        """Return True if the log has moved on without changes of these tables, and the server should forget it."""
        if self._open is not None or self._position <= max(self._flushed, parse_lsn(state.lsn)):
            return False
        return self._is_asked or time.monotonic() - self._idle_at >= _IDLE_ADVANCE_SECONDS

    # ---- positions

    async def advance(self, state: State, lsn: int, *, count: int = 1, waits: bool = False) -> None:
        """Report a position as durable."""
        for _ in range(min(count, len(self._kept))):
            self._kept.popleft()
            self._returned = max(0, self._returned - 1)
        if self._open is not None and state.covers(self._open.begin.xid, self._open.begin.commit_lsn + 1):
            # Its first changes were given up, and so are the others.
            self._open.skipped = _ALL
        self._flushed = max(self._flushed, lsn)
        if self._kept and self._connection is None:
            # The next one begins behind what is kept, and the poll that needs it reports the position.
            if waits:
                await self._advance_slot(lsn)
            return
        connection = await self._connected(state, state)
        try:
            connection.send_status(self._received, self._flushed, asks=False)
        except Unavailable:
            if not self._is_collecting:
                # Otherwise the poll that reads from it notices, and makes another one.
                await self._disconnect()
            raise
        if waits:
            await self._confirmed(lsn)

    async def _advance_slot(self, lsn: int) -> None:
        for _ in range(_START_ATTEMPTS):
            # The server needs a moment to notice that the last connection was closed.
            with contextlib.suppress(ConnectorError):
                await self._slot.advance(lsn)
                return
            await asyncio.sleep(_PAUSE_SECONDS)
        await self._slot.advance(lsn)

    async def _confirmed(self, lsn: int) -> None:
        for _ in range(_CONFIRMED_ATTEMPTS):
            if await self._slot.confirmed_lsn() >= lsn:
                return
            await asyncio.sleep(_PAUSE_SECONDS)
        raise Unavailable(f"PostgreSQL has not advanced the slot to {print_lsn(lsn)} in time")

    # ---- the connection

    async def _connected(self, state: State, durable: State) -> ReplicationConnection:
        """Return the connection; a new one reads on after a state, behind which nothing is read yet."""
        async with self._connecting:
            if self._connection is None:
                self._forget()
                self._relations = {}
                # A commit that was not made is made up for.
                self._flushed = max(self._flushed, parse_lsn(durable.lsn))
                self._flushed = max(self._flushed, await self._slot.checked_lsn(self._flushed))
                interval = min(_STATUS_SECONDS_MAX, await self._slot.sender_timeout_seconds() / 4)
                self._connection = await self._started(parse_lsn(state.lsn))
                self._connection.send_status(self._flushed, self._flushed, asks=False)
                self._reporting = asyncio.create_task(self._report(self._connection, interval))
            return self._connection

    async def _started(self, lsn: int) -> ReplicationConnection:
        for _ in range(_START_ATTEMPTS):
            # The server needs a moment to notice that the last connection was closed.
            with contextlib.suppress(SlotInUse):
                return await self._slot.stream(lsn)
            await asyncio.sleep(_PAUSE_SECONDS)
        return await self._slot.stream(lsn)

    async def _report(self, connection: ReplicationConnection, interval: float) -> None:
        """Report positions again and again: the server ends connections that are silent (wal_sender_timeout)."""
        # A connection that breaks is noticed by the next read.
        with contextlib.suppress(Unavailable):
            while True:
                await asyncio.sleep(interval)
                connection.send_status(self._received, self._flushed, asks=True)

    async def _disconnect(self) -> None:
        self._forget()
        connection, self._connection = self._connection, None
        if self._reporting is not None:
            self._reporting.cancel()
            self._reporting = None
        if connection is not None:
            await connection.close()

    async def close(self) -> None:
        """Disconnect."""
        await self._disconnect()


def _opened(begin: Begin, state: State) -> _Open | None:
    """Return a transaction that begins; one that is stored already has all changes skipped."""
    skipped = 0
    if state.covers(begin.xid, begin.commit_lsn + 1):
        skipped = _ALL
    elif state.part is not None and parse_lsn(state.part.lsn) == begin.commit_lsn:
        skipped = state.part.changes_count
    return _Open(begin, 0, skipped)


def _decoded(batch: _Collected, decoder: Decoder) -> list[Transaction]:
    found = []
    for part in batch.parts:
        changes = [change for message in part.messages for change in decoder.changes(message)]
        begin = part.begin
        if changes:
            found.append(Transaction(begin.xid, begin.commit_lsn, changes, begin.commit_lsn, part.first))
    return found
