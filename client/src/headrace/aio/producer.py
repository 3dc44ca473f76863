"""The producer for asyncio."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

from headrace.aio.awaited.producer import ProducerCalls
from headrace.aio.deliveries import Deliveries, Delivery
from headrace.aio.opening import Opening
from headrace.sdk.pushing import Headers, direct_only, pushed
from headrace_core import AwaitableSender

__all__ = ["Deliveries", "Delivery", "Producer"]


class Producer(ProducerCalls, Opening):
    """Sends messages to one topic, in batches, without waiting for each.

    Use it with ``async with``: its end waits until everything is delivered, and raises the first failure whose
    result was not asked for. Without ``async with`` it opens at its first call, or when it is awaited; close it then.
    `write_arrow` reads and encodes the table on a thread, because it may wait: that of a scan reads from the server.

    Examples:
        >>> async def orders():
        ...     async with connect(url) as client:
        ...         async with client.producer("shop", "orders") as producer:
        ...             for number in range(3):
        ...                 await producer.send(f"order {number}".encode(), key="customer-7")
        ...         return producer.counters.batches_failed
        >>> asyncio.run(orders())
        0
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        """Describe the producer; `Client.producer` is the usual way. Arguments as of `ProducerCalls`."""
        super().__init__(*arguments, **options)
        # No property: each message passes it.
        self._hand_over = AwaitableSender(self._native, self._stores_key).send

    async def send(
        self,
        payload: bytes,
        *,
        key: bytes | str | None = None,
        partition: int | None = None,
        headers: Headers | None = None,
        message_id: int = 0,
    ) -> Delivery:
        """Send a message; waits only while the buffer is full. Arguments and errors as of `headrace.Producer.send`.

        Returns:
            The delivery, which can be awaited.
        """
        if self._hooks is None:
            handed_over = self._hand_over(payload, key, partition, headers, message_id)
            if handed_over is not None:
                return handed_over
        await self._ensure_open()
        if self._hooks is not None:
            headers = self._hooks.headers(*self._topic, headers)
        while True:
            delivery = pushed(self._native, payload, partition, key, headers, message_id, self._stores_key)
            if delivery is not None:
                return Delivery(delivery)
            await self._await_room()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            await self.close()
        else:
            self.abort()
            await asyncio.sleep(0)

    if not TYPE_CHECKING:
        # Type checkers find this call by themselves.

        async def send_to(self, *_arguments: object, **_options: object) -> NoReturn:
            """Refuse the call."""
            direct_only(*self._topic)


ClientProducer = Producer
"""The producer that a client hands out."""
