"""The consumer for asyncio."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncIterator, Callable, Generator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from headrace.aio.bridge import bridge
from headrace.aio.direct import run_steps
from headrace.sdk.calls import Name
from headrace.sdk.consumer import native_consumer
from headrace.sdk.dead_letters import DeadLetters
from headrace.sdk.errors import ClientClosed, DeadlineExceeded, HeadraceError, InvalidArgument, native
from headrace.sdk.options import ConsumerOptions
from headrace.sdk.progress import Progress
from headrace.sdk.starts import Start, StartLike, start_of
from headrace.sdk.telemetry import Hooks
from headrace_core import Batch, BatchMessages, Delivered, Message, Pending, SessionConfig

if TYPE_CHECKING:
    import pyarrow

_LOG: Final = logging.getLogger("headrace")

PartitionCallback = Callable[[Sequence[int]], object]
"""Called with ids of partitions; a coroutine is awaited."""


class Consumer:
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
        hooks: Hooks | None = None,
    ) -> None:
        """Begin to read; `Client.consumer` is the usual way."""
        self._native = native_consumer(
            config, stream, topic, group=group, name=name, partitions=partitions, start=start, options=options
        )
        self._stream, self._topic, self._group = stream, topic, group
        self._callbacks = callbacks
        source = (stream, topic, name if group is None else group)
        self._progress = Progress(self._native, options, source, hooks)
        self._dead_letters = DeadLetters(config, stream, topic, options)
        self._open: tuple[Batch, BatchMessages] | None = None
        self._is_polled = False
        """True if the open batch was handed out as a whole."""
        self._unfinished: tuple[str, Any] | None = None
        """Event whose reaction was cancelled."""
        self._is_closed = False
        self._is_open = start.kind != "end"
        """True if the places at which reading begins are fixed."""
        self.gaps = self._progress.gaps
        """Messages that were removed before this consumer could read them."""

    # ---- reading

    async def __aiter__(self) -> AsyncIterator[Message]:
        """Iterate over messages, and wait for more, without end."""
        messages: BatchMessages | None = None
        while True:
            messages = await self._messages_after(messages)
            for message in messages:
                yield message

    async def _messages_after(self, before: BatchMessages | None) -> BatchMessages:
        """Return messages to hand out, one after the other, once those before have ended."""
        if self._open is not None and self._open[1] is before:
            processed, self._open = self._open[0], None
            self._progress.note_batch(processed)
        if self._is_polled:
            await self._finish_open()
        while self._open is None:
            batch = await self._next_batch(None)
            if batch is not None:
                self._open = (batch, iter(batch))
        return self._open[1]

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

    async def poll(self, timeout: float | None = None) -> Batch | None:  # noqa: ASYNC109 - as of `headrace.Consumer`
        """Return the next batch; the one before counts as processed. As `headrace.Consumer.poll`."""
        await self._finish_open()
        batch = await self._next_batch(timeout)
        if batch is not None:
            self._open, self._is_polled = (batch, iter(batch)), True
            self._progress.handed_out[batch.partition_id] = batch.next_offset
        return batch

    async def poll_arrow(
        self,
        timeout: float | None = None,  # noqa: ASYNC109 - as of `headrace.Consumer`
        columns: Sequence[str] | None = None,
    ) -> pyarrow.RecordBatch | None:
        """Return the next batch as an Arrow record batch. As `headrace.Consumer.poll_arrow`."""
        from headrace.tables.arrow import DEFAULT_COLUMNS, record_batch  # noqa: PLC0415 - imported where it is used

        batch = await self.poll(timeout)
        if batch is None:
            return None
        names = DEFAULT_COLUMNS if columns is None else columns
        return record_batch(batch, names, stream=str(self._stream), topic=str(self._topic))

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
        messages.end()
        self._progress.note(partition, next_offset)
        if next_offset < batch.next_offset:
            await bridge().finished(native(self._native.seek, partition, "offset", next_offset))

    async def _next_batch(self, timeout: float | None) -> Batch | None:  # noqa: ASYNC109 - as of `poll`
        loop = asyncio.get_running_loop()
        until = None if timeout is None else loop.time() + timeout
        if not self._is_open:
            await self._open_places()
        while True:
            self._progress.store_if_due()
            if self._unfinished is None:
                self._check_open()
            kind, content = self._unfinished or self._progress.take()
            if kind == "batch":
                self._progress.begin_batch(content)
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

    def _note_open(self) -> None:
        if self._open is not None and not self._is_polled:
            self._progress.note_open(self._open)

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

    # ---- offsets

    async def commit(self, message: Message | None = None) -> None:
        """Store the offset of a message, or of everything that was handed out so far. As `headrace.Consumer.commit`."""
        self._check_open()
        self._note_open()
        for partition, pending in self._progress.begin_commit(message):
            try:
                await bridge().finished(pending)
            except BaseException:
                self._progress.failed(partition, pending)
                raise

    async def _settle(self, begun: list[tuple[int, Pending]]) -> None:
        for partition, pending in begun:
            try:
                await bridge().finished(pending)
            except HeadraceError as error:
                self._progress.failed(partition, pending)
                _LOG.warning("the offset of partition %d could not be stored: %s", partition, str(error))

    async def dead_letter(self, message: Message, reason: str | BaseException, *, attempts: int = 1) -> Delivered:
        """Store a message that cannot be processed in the dead-letter topic. As `headrace.Consumer.dead_letter`."""
        self._check_open()
        place = await run_steps(self._dead_letters.send(message, reason, attempts))
        self._note_open()
        if not self._is_polled:
            # A batch that was handed out as a whole counts when the next one is asked for.
            self._progress.note_last(message)
        return place

    @property
    def assignment(self) -> frozenset[int]:
        """Ids of the partitions that this consumer reads, as of the last message or batch."""
        return frozenset(self._progress.assignment)

    async def position(self, partition: int) -> int | None:
        """Offset of the next message of a partition that will be handed out; None if it is not known yet."""
        self._check_open()
        self._note_open()
        handed_out = self._progress.handed_out.get(partition)
        if handed_out is not None:
            return handed_out
        found = await bridge().finished(native(self._native.position, partition))
        return None if found is None else found[0]

    async def lag(self) -> dict[int, int]:
        """Number of messages behind the position, by partition, as far as positions are known."""
        self._check_open()
        self._note_open()
        lags = {}
        for partition in sorted(self._progress.assignment):
            lag = self._progress.lag(partition, await bridge().finished(native(self._native.position, partition)))
            if lag is not None:
                lags[partition] = lag
        return lags

    async def seek(self, partition: int, start: StartLike) -> None:
        """Continue at another place of a partition. As `headrace.Consumer.seek`."""
        self._check_open()
        place = start_of(start)
        if self._open is not None and self._open[0].partition_id == partition:
            self._open[1].end()
            self._open, self._is_polled = None, False
        self._progress.forget([partition])
        if not await bridge().finished(native(self._native.seek, partition, place.kind, place.value)):
            raise InvalidArgument(
                f"partition: {partition} is none of those that are read: {sorted(self._progress.assignment)}"
            )

    def pause(self, *partitions: int) -> None:
        """Read no more of these partitions; without any, of all. What was read ahead is still handed out.

        They stay paused when the connection is lost. A pause ends with `resume`, or when another member of the group
        gets the partition.
        """
        native(self._native.pause, list(partitions or self._progress.assignment))

    def resume(self, *partitions: int) -> None:
        """Read these partitions again; without any, all."""
        native(self._native.resume, list(partitions))

    # ---- the end

    async def close(self, timeout: float | None = 10.0) -> None:  # noqa: ASYNC109 - as of `headrace.Consumer.close`
        """Store what was processed, if that is automatic, and leave the group. As `headrace.Consumer.close`."""
        if self._is_closed:
            return
        self._is_closed = True
        self._note_open()
        self._dead_letters.close()
        begun = self._progress.begin_store(self._progress.processed) if self._progress.is_automatic else []
        # It is under way even if this wait for it is cancelled.
        left = native(self._native.leave)
        try:
            async with asyncio.timeout(timeout):
                await self._settle(begun)
                await bridge().finished(left)
        except TimeoutError:
            raise DeadlineExceeded(f"not finished within {timeout} s", retryable=False) from None

    async def _open_places(self) -> Self:
        if not self._is_open:
            await bridge().finished(native(self._native.opened))
            self._is_open = True
        return self

    def __repr__(self) -> str:
        """Name the topic and the group."""
        return f"Consumer(stream={self._stream!r}, topic={self._topic!r}, group={self._group!r})"

    def __await__(self) -> Generator[Any, None, Self]:
        return self._open_places().__await__()

    async def __aenter__(self) -> Self:
        return await self._open_places()

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
