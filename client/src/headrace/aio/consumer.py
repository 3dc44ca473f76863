"""The consumer for asyncio."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator
from typing import Any

from headrace.aio.awaited.consumer import ConsumerCalls
from headrace.aio.opening import Opening
from headrace.aio.waiting import finished
from headrace.sdk.errors import DeadlineExceeded, native
from headrace_core import Batch, BatchMessages, Message


class Consumer(ConsumerCalls, Opening):
    """Reads one topic, as a member of a consumer group or alone. One task at a time reads from it.

    Iterate over it with ``async for``, or over `batches`. A message counts as processed when the next one is asked
    for. Use it with ``async with``: its end stores what was processed, and leaves the group. A cancelled read loses
    nothing. With ``start="end"``, entering or awaiting it fixes the places at which reading begins. Without
    ``async with``, close it.

    Examples:
        >>> async def first():
        ...     async with connect(url) as client:
        ...         async with client.producer("shop", "orders") as producer:
        ...             await producer.send(b"one book", key="customer-7")
        ...         async with client.consumer("shop", "orders", group="billing") as consumer:
        ...             async for message in consumer:
        ...                 return message.payload
        >>> asyncio.run(first())
        b'one book'
    """

    async def __aiter__(self) -> AsyncIterator[Message]:
        """Iterate over messages, and wait for more, without end."""
        messages: BatchMessages | None = None
        while True:
            messages = await self._messages_after(messages)
            for message in messages:
                yield message

    async def batches(self, timeout: float | None = None) -> AsyncIterator[Batch]:  # noqa: ASYNC109 - as of `poll`
        """Iterate over batches of messages of one partition each. As `headrace.Consumer.batches`.

        A batch is a record batch for every library that takes Arrow's C interface. The iterator is no stream of them,
        because these libraries wait for the next one; `Client.scan` makes one.

        Examples:
            >>> import pyarrow
            >>> async def values():
            ...     async with connect(url) as client:
            ...         async with client.producer("shop", "orders") as producer:
            ...             await producer.send_many([b"1", b"2"], partition=0)
            ...         async with client.consumer("shop", "orders") as consumer:
            ...             async for batch in consumer.batches(timeout=1):
            ...                 return pyarrow.record_batch(batch).column("value").to_pylist()
            >>> asyncio.run(values())
            [b'1', b'2']
        """
        while (batch := await self.poll(timeout)) is not None:
            yield batch

    async def _react(self, kind: str, content: Any) -> None:
        if not self._progress.note_event(kind, content):
            return
        if kind == "revoked" and self._progress.is_automatic:
            await self._settle(self._progress.begin_store(self._progress.processed, content))
        callback = self._callbacks.get(kind)
        try:
            if callback is not None:
                result = callback(content)
                if inspect.isawaitable(result):
                    await result
        except asyncio.CancelledError:
            # The next read reacts to it again.
            raise
        except BaseException:
            self._progress.end_event(kind, content)
            raise
        self._progress.end_event(kind, content)

    async def close(self, timeout: float | None = 10.0) -> None:  # noqa: ASYNC109 - as of `headrace.Consumer.close`
        """Store what was processed, if that is automatic, and leave the group. As `headrace.Consumer.close`."""
        if self._is_closed:
            return
        begun = self._begin_close()
        # It is under way even if this wait for it is cancelled.
        left = native(self._native.leave)
        try:
            async with asyncio.timeout(timeout):
                await self._settle(begun)
                await finished(left)
        except TimeoutError:
            raise DeadlineExceeded(f"not finished within {timeout} s", retryable=False) from None
