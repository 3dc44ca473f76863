"""The producer for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self

from headrace.aio.bridge import bridge
from headrace.sdk.arrow_tables import ArrowTable, Codec
from headrace.sdk.calls import Name
from headrace.sdk.errors import native
from headrace.sdk.options import ProducerOptions
from headrace.sdk.producer import (
    Headers,
    ProducerCounters,
    direct_only,
    fail,
    native_producer,
    outgoing_table,
    pushed,
    pushed_many,
    pushed_rows,
)
from headrace.sdk.results import Deliveries as BlockingDeliveries
from headrace.sdk.telemetry import Hooks
from headrace_core import AwaitableDelivery as Delivery
from headrace_core import AwaitableSender, Delivered, Pending, SessionConfig, wait_for_deliveries
from headrace_core import Deliveries as NativeDeliveries

__all__ = ["Deliveries", "Delivery", "Producer"]


async def _delivered(message: Pending) -> Delivered:
    """Wait for the place of a message."""
    delivered: Delivered = await bridge().finished(message)
    return delivered


wait_for_deliveries(_delivered)


class Deliveries:
    """The result of messages that were sent together: await it for the runs of their places.

    Examples:
        >>> async def orders():
        ...     async with connect(url) as client, client.producer("shop", "orders") as producer:
        ...         return await (await producer.send_many([b"1", b"2"], partition=0))
        >>> asyncio.run(orders())
        [(Delivered(partition_id=0, offset=0), 2)]
    """

    __slots__ = ("_parts",)

    def __init__(self, parts: list[NativeDeliveries]) -> None:
        self._parts = parts

    def __len__(self) -> int:
        return sum(map(len, self._parts))

    def __repr__(self) -> str:
        """Show the number of messages, like `headrace.Deliveries`."""
        return repr(BlockingDeliveries(self._parts))

    def done(self) -> bool:
        """Return whether all results are there."""
        return all(native(part.done) for part in self._parts)

    async def _result(self) -> list[tuple[Delivered, int]]:
        for part in self._parts:
            await bridge().ended(native(part.pending))
        return BlockingDeliveries(self._parts).result(0)

    def __await__(self) -> Generator[Any, None, list[tuple[Delivered, int]]]:
        return self._result().__await__()


class Producer:
    """Sends messages to one topic, in batches, without waiting for each.

    Use it with ``async with``: its end waits until everything is delivered, and raises the first failure whose
    result was not asked for. Without ``async with`` it opens at its first call, or when it is awaited; close it then.

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

    def __init__(
        self, config: SessionConfig, stream: Name, topic: Name, options: ProducerOptions, hooks: Hooks | None = None
    ) -> None:
        """Describe the producer; `Client.producer` is the usual way."""
        self._options = options
        self._stores_key = options.store_key
        self._topic = (stream, topic)
        self._hooks = hooks
        self._is_open = False
        self._native = native_producer(config, stream, topic, options, hooks)
        self._hand_over = AwaitableSender(self._native, options.store_key).send

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
        if not self._is_open:
            await self._open()
        if self._hooks is not None:
            headers = self._hooks.headers(*self._topic, headers)
        while True:
            delivery = pushed(self._native, payload, partition, key, headers, message_id, self._stores_key)
            if delivery is not None:
                return Delivery(delivery)
            await bridge().finished(native(self._native.room))

    async def send_many(
        self,
        payloads: Iterable[bytes],
        *,
        key: bytes | str | None = None,
        partition: int | None = None,
        headers: Headers | None = None,
    ) -> Deliveries:
        """Send messages that share key, partition and headers: much faster than one at a time."""
        if not self._is_open:
            await self._open()
        if self._hooks is not None:
            headers = self._hooks.headers(*self._topic, headers)
        waiting = payloads if isinstance(payloads, list) else list(payloads)
        parts: list[NativeDeliveries] = []
        start = 0
        while True:
            taken, deliveries = pushed_many(
                self._native,
                waiting,
                start,
                partition=partition,
                key=key,
                headers=headers,
                stores_key=self._options.store_key,
            )
            start += taken
            parts.append(deliveries)
            if start == len(waiting):
                return Deliveries(parts)
            await bridge().finished(native(self._native.room))

    async def write_arrow(
        self,
        table: ArrowTable,
        *,
        codec: Codec | None = None,
        payload: str | None = None,
        key: str | None = None,
        headers: str | None = None,
        message_id: str | None = None,
        partition: str | None = None,
    ) -> Deliveries:
        """Send the rows of a table. Arguments and errors as of `headrace.Producer.write_arrow`.

        The table is read and encoded on a thread, because it may wait: that of a scan reads from the server.

        Examples:
            >>> import pyarrow
            >>> async def orders():
            ...     async with connect(url) as client, client.producer("shop", "orders") as producer:
            ...         table = pyarrow.table({"payload": ["tea", "milk"], "partition": [0, 0]})
            ...         return await (await producer.write_arrow(table))
            >>> asyncio.run(orders())
            [(Delivered(partition_id=0, offset=0), 2)]
        """
        if not self._is_open:
            await self._open()
        outgoing = outgoing_table(
            table,
            codec=codec,
            columns={"payload": payload, "key": key, "headers": headers, "id": message_id, "partition": partition},
            added=None if self._hooks is None else self._hooks.headers(*self._topic, None),
            stores_key=self._stores_key,
        )
        parts: list[NativeDeliveries] = []
        while (rows := await asyncio.to_thread(outgoing.rows)) is not None:
            start = 0
            while True:
                taken, delivered = pushed_rows(self._native, rows, start)
                start += taken
                parts.append(delivered)
                if start == len(rows):
                    break
                await bridge().finished(native(self._native.room))
        return Deliveries(parts)

    async def flush(self) -> None:
        """Send everything at once, and wait until it is delivered.

        Raises:
            NotDelivered: A message was not stored, and its result was not asked for.
            OutcomeUnknown: Likewise, it may be stored.
        """
        await bridge().finished(native(self._native.flush))
        fail(self._native)

    @property
    def counters(self) -> ProducerCounters:
        """Counters, for metrics."""
        return ProducerCounters(*native(self._native.counters))

    @property
    def partitions_count(self) -> int:
        """Number of partitions of the topic."""
        return native(lambda: self._native.partitions_count)

    async def close(self) -> None:
        """Send what is buffered, wait for it, and end. Errors as of `flush`."""
        await bridge().finished(native(self._native.close))
        fail(self._native)

    def abort(self) -> None:
        """Give up what is buffered, and end. What was sent already may be stored."""
        native(self._native.abort)

    async def _open(self) -> Self:
        await bridge().finished(native(self._native.opened))
        self._is_open = True
        return self

    def __repr__(self) -> str:
        """Name the topic."""
        stream, topic = self._topic
        return f"Producer(stream={stream!r}, topic={topic!r})"

    def __await__(self) -> Generator[Any, None, Self]:
        return self._open().__await__()

    async def __aenter__(self) -> Self:
        return await self._open()

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
