"""The consumer for asyncio."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self

from headrace.aio.bridge import bridge
from headrace.sdk.calls import Name
from headrace.sdk.consumer import native_consumer
from headrace.sdk.errors import ClientClosed, DeadlineExceeded, HeadraceError, InvalidArgument, native
from headrace.sdk.options import ConsumerOptions
from headrace.sdk.progress import Progress
from headrace.sdk.results import Gap
from headrace.sdk.starts import Start, StartLike, start_of
from headrace_core import Batch, BatchMessages, Message, Pending, SessionConfig

_LOG: Final = logging.getLogger("headrace")

PartitionCallback = Callable[[Sequence[int]], object]
"""Called with ids of partitions; a coroutine is awaited."""


class Consumer:
    """Reads one topic, as a member of a consumer group or alone. One task at a time reads from it.

    Iterate over it with ``async for``, or over `batches`. A message counts as processed when the next one is asked
    for. Use it with ``async with``: its end stores what was processed, and leaves the group. A cancelled read loses
    nothing.

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

    def __init__(
        self,
        config: SessionConfig,
        stream: Name,
        topic: Name,
        *,
        group: Name | None,
        name: Name | None,
        partitions: Sequence[int] | None,
        start: Start,
        callbacks: Mapping[str, PartitionCallback | None],
        options: ConsumerOptions,
    ) -> None:
        """Begin to read; `Client.consumer` is the usual way."""
        self._native = native_consumer(
            config, stream, topic, group=group, name=name, partitions=partitions, start=start, options=options
        )
        self._callbacks = callbacks
        self._progress = Progress(self._native, options)
        self._progress.stores = group is not None or name is not None
        self._assignment: set[int] = set()
        self._open: tuple[Batch, BatchMessages] | None = None
        self._is_polled = False
        """True if the open batch was handed out as a whole."""
        self._unfinished: tuple[str, Any] | None = None
        """Event whose reaction was cancelled."""
        self._is_closed = False
        self.gaps: list[Gap] = []
        """Messages that were removed before this consumer could read them."""

    # ---- reading

    async def __aiter__(self) -> AsyncIterator[Message]:
        """Iterate over messages, and wait for more, without end."""
        progress = self._progress
        while True:
            if self._is_polled:
                await self._finish_open()
            if self._open is None:
                batch = await self._next_batch(None)
                if batch is None:
                    return
                self._open = (batch, iter(batch))
            batch, messages = opened = self._open
            for message in messages:
                progress.handed_out[batch.partition_id] = messages.next_offset
                yield message
                if self._open is not opened:
                    # The position was changed meanwhile.
                    break
                progress.processed[batch.partition_id] = messages.next_offset
            else:
                self._open = None
                progress.note_batch(batch)

    async def batches(self) -> AsyncIterator[Batch]:
        """Iterate over batches of messages of one partition each, and wait for more, without end."""
        while (batch := await self.poll()) is not None:
            yield batch

    async def poll(self, timeout: float | None = None) -> Batch | None:  # noqa: ASYNC109 - as of `headrace.Consumer`
        """Return the next batch; the one before counts as processed. As `headrace.Consumer.poll`."""
        await self._finish_open()
        batch = await self._next_batch(timeout)
        if batch is not None:
            self._open, self._is_polled = (batch, iter(batch)), True
            self._progress.handed_out[batch.partition_id] = batch.next_offset
        return batch

    async def _finish_open(self) -> None:
        """Count what was handed out of the open batch as processed; the rest of it is read again."""
        if self._open is None:
            return
        (batch, messages), is_polled = self._open, self._is_polled
        self._open, self._is_polled = None, False
        if is_polled:
            self._progress.note_batch(batch)
            return
        partition, next_offset = batch.partition_id, messages.next_offset
        self._progress.note(partition, next_offset)
        if next_offset < batch.next_offset:
            await bridge().finished(native(self._native.seek, partition, "offset", next_offset))

    async def _next_batch(self, timeout: float | None) -> Batch | None:  # noqa: ASYNC109 - as of `poll`
        loop = asyncio.get_running_loop()
        until = None if timeout is None else loop.time() + timeout
        while True:
            self._progress.store_if_due()
            kind, content = self._unfinished or self._taken()
            if kind == "batch":
                return content  # type: ignore[no-any-return] # as the native module documents it
            if kind != "nothing":
                self._unfinished = (kind, content)
                try:
                    await self._react(kind, content)
                except Exception:
                    self._unfinished = None
                    raise
                self._unfinished = None
                continue
            left = None if until is None else until - loop.time()
            if left is not None and left <= 0:
                return None
            pauses = [pause for pause in (left, self._progress.seconds_left()) if pause is not None]
            await _ended_within(content, min(pauses) if pauses else None)

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClientClosed("the consumer is closed")

    def _taken(self) -> tuple[str, Any]:
        self._check_open()
        kind, content = native(self._native.take)
        if kind == "ended":
            raise ClientClosed("the consumer has ended")
        return kind, content

    async def _react(self, kind: str, content: Any) -> None:
        match kind:
            case "assigned":
                self._assignment.update(content)
            case "revoked":
                if self._progress.is_automatic:
                    await self._settle(self._progress.store(self._progress.processed, content))
            case "gap":
                self.gaps.append(Gap(*content))
                _LOG.warning("partition %d: messages from %d to %d were removed before they were read", *content)
                return
            case "reset":
                self._progress.forget([content])
                _LOG.warning("partition %d was purged or made anew: reading continues at its beginning", content)
                return
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
            self._forget(kind, content)
            raise
        self._forget(kind, content)

    def _forget(self, kind: str, content: Any) -> None:
        if kind in {"revoked", "lost"}:
            self._assignment.difference_update(content)
            self._progress.forget(content)

    # ---- offsets

    async def commit(self, message: Message | None = None) -> None:
        """Store the offset of a message, or of everything that was handed out so far. As `headrace.Consumer.commit`."""
        self._check_open()
        if message is None:
            begun = self._progress.store(self._progress.handed_out)
        else:
            begun = self._progress.store({message.partition_id: message.offset + 1})
        for place, (partition, pending) in enumerate(begun):
            try:
                await bridge().finished(pending)
            except BaseException:
                self._progress.failed(partition)
                self._progress.watch(begun[place + 1 :])
                raise

    async def _settle(self, begun: list[tuple[int, Pending]]) -> None:
        for partition, pending in begun:
            try:
                await bridge().finished(pending)
            except HeadraceError as error:
                self._progress.failed(partition)
                _LOG.warning("the offset of partition %d could not be stored: %s", partition, str(error))

    @property
    def assignment(self) -> frozenset[int]:
        """Ids of the partitions that this consumer reads, as of the last message or batch."""
        return frozenset(self._assignment)

    async def position(self, partition: int) -> int | None:
        """Offset of the next message of a partition that will be handed out; None if it is not known yet."""
        self._check_open()
        handed_out = self._progress.handed_out.get(partition)
        if handed_out is not None:
            return handed_out
        found = await bridge().finished(native(self._native.position, partition))
        return None if found is None else found[0]

    async def lag(self) -> dict[int, int]:
        """Number of messages behind the position, by partition, as far as positions are known."""
        self._check_open()
        lags = {}
        for partition in sorted(self._assignment):
            found = await bridge().finished(native(self._native.position, partition))
            position = self._progress.handed_out.get(partition, found[0] if found else None)
            if found is not None and position is not None:
                lags[partition] = max(0, found[1] - position)
        return lags

    async def seek(self, partition: int, start: StartLike) -> None:
        """Continue at another place of a partition. As `headrace.Consumer.seek`."""
        self._check_open()
        place = start_of(start)
        if self._open is not None and self._open[0].partition_id == partition:
            self._open, self._is_polled = None, False
        self._progress.forget([partition])
        if not await bridge().finished(native(self._native.seek, partition, place.kind, place.value)):
            raise InvalidArgument(f"partition: {partition} is none of those that are read: {sorted(self._assignment)}")

    def pause(self, *partitions: int) -> None:
        """Read no more of these partitions; without any, of all. What was read ahead is still handed out."""
        native(self._native.set_paused, list(partitions or self._assignment), True)  # noqa: FBT003 - native signature

    def resume(self, *partitions: int) -> None:
        """Read these partitions again; without any, all."""
        native(self._native.set_paused, list(partitions or self._assignment), False)  # noqa: FBT003 - native signature

    # ---- the end

    async def close(self, timeout: float | None = 10.0) -> None:  # noqa: ASYNC109 - as of `headrace.Consumer.close`
        """Store what was processed, if that is automatic, and leave the group. As `headrace.Consumer.close`."""
        if self._is_closed:
            return
        self._is_closed = True
        begun = self._progress.store(self._progress.processed) if self._progress.is_automatic else []
        # It is under way even if this wait for it is cancelled.
        left = native(self._native.leave)
        try:
            async with asyncio.timeout(timeout):
                await self._settle(begun)
                await bridge().finished(left)
        except TimeoutError:
            raise DeadlineExceeded(f"not finished within {timeout} s", retryable=False) from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


async def _ended_within(pending: Pending, seconds: float | None) -> None:
    try:
        async with asyncio.timeout(seconds):
            await bridge().ended(pending)
    except TimeoutError:
        pass
