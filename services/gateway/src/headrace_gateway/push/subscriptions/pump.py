"""Delivery of messages from partitions to one client: cursors take turns.

At most one read is buffered for a client, and nothing is read without credit.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from typing import Any, Final

from headrace_chassis.refusals import Kind, kind_of
from headrace_gateway.json_api.errors import Refused, reason_of
from headrace_gateway.push import forms, frames
from headrace_gateway.push.connections.socket import Close, Socket
from headrace_gateway.push.feeds.batches import Batch
from headrace_gateway.push.metrics import PushMetrics
from headrace_gateway.push.subscriptions.cursors import Cursor, State
from headrace_node.connections.sessions import SessionLost
from headrace_proto.errors import Status

_log = logging.getLogger(__name__)

# Delay before a failed read of a partition is retried.
_RETRY_SECONDS: Final = 0.1
# Number of frames sent before the event loop gets a turn.
_AT_ONCE_MAX: Final = 4


class Pump:
    """Pump of one connection."""

    def __init__(self, socket: Socket, metrics: PushMetrics, *, is_binary: bool) -> None:
        self._socket = socket
        self._metrics = metrics
        self._is_binary = is_binary
        self._queue: deque[Cursor] = deque()
        self._running: asyncio.Task[None] | None = None
        self._is_busy = False
        self._retries: set[asyncio.TimerHandle] = set()

    def enqueue(self, cursor: Cursor) -> None:
        """Queue a cursor for its turn."""
        self._queue.append(cursor)
        if self._running is None and not self._is_busy and not self._serve_at_once():
            self._running = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Stop sending."""
        for retry in self._retries:
            retry.cancel()
        running, self._running = self._running, None
        if running is not None:
            running.cancel()
            await asyncio.wait({running})

    def _serve_at_once(self) -> bool:
        """Send cached batches while the client accepts data; return whether all were sent. Cheaper than a task."""
        self._is_busy = True
        try:
            for _ in range(_AT_ONCE_MAX):
                if not self._queue:
                    return True
                cursor = self._queue[0]
                batch = cursor.feed.found(cursor.offset) if cursor.is_ready and self._socket.takes_at_once else None
                if batch is None:
                    return False
                self._queue.popleft()
                cursor.state = State.BUSY
                frame = self._frame(cursor, batch)
                if frame is not None:
                    self._socket.write(frame, is_binary=self._is_binary)
                if cursor.rest():
                    self._metrics.stalled()
            return not self._queue
        except Exception:  # noqa: BLE001 - those that are woken after this one must not suffer
            _log.exception("a subscription failed")
            self._socket.end(Close.FAILED, "the server failed")
            return True
        finally:
            self._is_busy = False

    async def _run(self) -> None:
        try:
            while self._queue and not self._socket.is_ending:
                cursor = self._queue.popleft()
                if cursor.state is State.QUEUED:
                    cursor.state = State.BUSY
                    if await self._advance(cursor) and cursor.rest():
                        self._metrics.stalled()
        except Exception:  # noqa: BLE001 - whatever it is, it must not end in silence
            _log.exception("a subscription failed")
            self._socket.end(Close.FAILED, "the server failed")
        finally:
            self._running = None

    async def _advance(self, cursor: Cursor) -> bool:
        """Send the next batch; return whether the cursor may continue at once."""
        feed = cursor.feed
        if feed.ended:
            await self._end(cursor, feed.ended)
        elif cursor.epoch != feed.epoch:
            cursor.reset(feed.first_offset, feed.epoch)
            await self._send(cursor, "reset", epoch=str(cursor.epoch), offset=cursor.offset)
        elif not cursor.is_current:
            if cursor.follow_cuts():
                await self._send(cursor, "reset", epoch=str(cursor.epoch), offset=cursor.offset)
        elif cursor.offset < feed.first_offset:
            await self._gap(cursor, feed.first_offset)
        elif cursor.has_messages and cursor.subscription.credit:
            return await self._read(cursor)
        return True

    async def _read(self, cursor: Cursor) -> bool:
        try:
            batch = await cursor.feed.read(cursor.offset, cursor.last)
        except Refused as error:
            if kind_of(error.status) is Kind.UNAVAILABLE:
                return self._later(cursor)
            await self._end(cursor, error.status)
            return True
        except SessionLost:
            return self._later(cursor)
        # The state may have changed during the read.
        if cursor.state is not State.BUSY or not cursor.is_current or not cursor.subscription.credit:
            return True
        if batch is None:
            return self._later(cursor)
        if batch.first > cursor.offset:
            await self._gap(cursor, batch.first)
            return True
        frame = self._frame(cursor, batch)
        # Do not hold the batch while waiting for the client.
        del batch
        if frame is not None:
            await (self._socket.send_binary(frame) if self._is_binary else self._socket.send_text(frame))
        return True

    def _frame(self, cursor: Cursor, batch: Batch) -> bytes | None:
        """Return the frame for a batch; None if there is nothing to send yet."""
        selection = cursor.subscription.select(cursor, batch, time.monotonic())
        if selection is None:
            return None
        self._metrics.sent(len(selection.indexes), selection.size_bytes)
        encode = frames.binary_messages if self._is_binary else frames.json_messages
        return encode(cursor.subscription.number, cursor.feed.place, cursor.epoch, selection)

    def _later(self, cursor: Cursor) -> bool:
        """Retry soon: the known state of the partition is outdated, or the partition cannot be read now."""
        if cursor.state is State.BUSY:
            cursor.state = State.WAITING
            cursor.feed.wait(cursor, for_messages=True)
            loop = asyncio.get_running_loop()

            def retry() -> None:
                self._retries.discard(handle)
                cursor.woken()

            handle = loop.call_later(_RETRY_SECONDS, retry)
            self._retries.add(handle)
        return False

    async def _gap(self, cursor: Cursor, to: int) -> None:
        start = cursor.offset
        cursor.reset(to, cursor.epoch)
        await self._send(cursor, "gap", **{"from": start, "to": to})

    async def _end(self, cursor: Cursor, status: int) -> None:
        if status == Status.UNAUTHENTICATED:
            self._socket.end(Close.NOT_LOGGED_IN, "the user no longer exists")
            return
        if cursor.state is State.BUSY:
            cursor.subscription.remove(cursor)
            await self._send(cursor, "end", code=status, reason=reason_of(Refused(status)))

    async def _send(self, cursor: Cursor, kind: str, **fields: Any) -> None:
        place = cursor.feed.place
        message = forms.encode(
            kind,
            subscription=cursor.subscription.number,
            stream_id=place.stream_id,
            topic_id=place.topic_id,
            partition_id=place.partition_id,
            **fields,
        )
        await self._socket.send_text(message)
