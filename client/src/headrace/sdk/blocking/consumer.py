"""Reading a topic."""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Self

from headrace.sdk.blocking.waiting import finished, run_steps, wait_within
from headrace.sdk.calls import Name, check_name
from headrace.sdk.dead_letters import DeadLetters
from headrace.sdk.errors import ClientClosed, HeadraceError, InvalidArgument, native
from headrace.sdk.options import ConsumerOptions, PartitionCallback
from headrace.sdk.progress import Progress
from headrace.sdk.starts import Start, StartLike, start_of
from headrace.sdk.telemetry import Hooks
from headrace_core import Batch, BatchMessages, Delivered, Message, Pending, SessionConfig
from headrace_core import Consumer as NativeConsumer

if TYPE_CHECKING:
    import pyarrow

_LOG: Final = logging.getLogger("headrace")

Callbacks = Mapping[str, PartitionCallback | None]


def native_consumer(
    config: SessionConfig,
    stream: Name,
    topic: Name,
    *,
    group: Name | None,
    name: Name | None,
    partitions: Sequence[int] | None,
    start: Start,
    options: ConsumerOptions,
) -> NativeConsumer:
    """Return the native consumer of a topic.

    Raises:
        InvalidArgument: A name or an option is invalid, or two exclude each other.
    """
    for what, given in (("stream", stream), ("topic", topic)):
        check_name(what, given)
    for what, optional in (("group", group), ("name", name)):
        if optional is not None:
            check_name(what, optional)
    if partitions is not None:
        _check_partitions(partitions)
    try:
        return NativeConsumer(
            config,
            stream,
            topic,
            group=group,
            name=name,
            partitions=None if partitions is None else list(partitions),
            start=(start.kind, start.value),
            batch_messages=options.batch_messages,
            prefetch_bytes=options.prefetch_bytes,
            heartbeat=options.heartbeat,
        )
    except (ValueError, OverflowError, TypeError) as error:
        raise InvalidArgument(str(error)) from None


def _check_partitions(partitions: Sequence[object]) -> None:
    for id_ in partitions:
        if not isinstance(id_, int) or not 0 <= id_ < 2**32:
            raise InvalidArgument(f"partitions: {id_!r} is no id of a partition; they are 0 to 4294967295")
    if not partitions or len(set(partitions)) < len(partitions):
        raise InvalidArgument(f"partitions: {list(partitions)} is no list of different ids; None means all partitions")


class ConsumerCalls(ABC):
    """A consumer, but for iterating, callbacks and its end."""

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
        callbacks: Callbacks,
        options: ConsumerOptions,
        hooks: Hooks | None = None,
        open_timeout: float | None = None,
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
        """Event whose reaction was interrupted."""
        self._is_closed = False
        self._is_open = start.kind != "end"
        """True if the places at which reading begins are fixed."""
        self.gaps = self._progress.gaps
        """Messages that were removed before this consumer could read them."""
        # Messages that are sent from now on are read.
        self._ensure_open(open_timeout)

    # ---- reading

    def _messages_after(self, before: BatchMessages | None) -> BatchMessages:
        """Return messages to hand out, one after the other, once those before have ended."""
        if self._open is not None and self._open[1] is before:
            processed, self._open = self._open[0], None
            self._progress.note_batch(processed)
        if self._is_polled:
            self._finish_open()
        while self._open is None:
            batch = self._next_batch(None)
            if batch is not None:
                self._open = (batch, iter(batch))
        return self._open[1]

    def poll(self, timeout: float | None = None) -> Batch | None:
        """Return the next batch; the one before counts as processed.

        After an iteration over messages that did not come to the end of its batch, it continues at the next message.

        Args:
            timeout: Seconds to wait for messages; None: as long as it takes; 0: not at all.

        Returns:
            Messages of one partition; None if there are none in time. Also None while the server refuses to let the
            consumer read for the moment, for example because too many partitions are waited for; a refusal of half a
            minute is logged as a warning.

        Raises:
            ClientClosed: The consumer is closed.
            HeadraceError: It has ended with a failure, for example because its topic was deleted.

        Examples:
            >>> with client.producer("shop", "orders") as producer:
            ...     deliveries = producer.send_many([b"1", b"2"], partition=0)
            >>> with client.consumer("shop", "orders") as consumer:
            ...     consumer.poll(timeout=10).payloads()
            [b'1', b'2']
        """
        self._finish_open()
        batch = self._next_batch(timeout)
        if batch is not None:
            self._open, self._is_polled = (batch, iter(batch)), True
            self._progress.handed_out[batch.partition_id] = batch.next_offset
        return batch

    def poll_arrow(
        self, timeout: float | None = None, columns: Sequence[str] | None = None
    ) -> pyarrow.RecordBatch | None:
        """Return the next batch as an Arrow record batch: see `headrace.tables.record_batch`. Otherwise as `poll`."""
        from headrace.tables.arrow import DEFAULT_COLUMNS, record_batch  # noqa: PLC0415 - imported where it is used

        batch = self.poll(timeout)
        if batch is None:
            return None
        names = DEFAULT_COLUMNS if columns is None else columns
        return record_batch(batch, names, stream=str(self._stream), topic=str(self._topic))

    def _finish_open(self) -> None:
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
            finished(native(self._native.seek, partition, "offset", next_offset))

    def _next_batch(self, timeout: float | None) -> Batch | None:
        until = None if timeout is None else time.monotonic() + timeout
        self._ensure_open()
        while True:
            self._progress.store_if_due()
            self._check_open()
            kind, content = self._unfinished or self._progress.take()
            if kind == "batch":
                self._progress.begin_batch(content)
                return content  # type: ignore[no-any-return] # as the native module documents it
            if kind != "nothing":
                # The next read reacts to it again if something ends this wait.
                self._unfinished = (kind, content)
                try:
                    self._react(kind, content)
                except Exception:
                    self._unfinished = None
                    raise
                self._unfinished = None
                continue
            left = None if until is None else until - time.monotonic()
            if left is not None and left <= 0:
                return None
            pauses = [pause for pause in (left, self._progress.seconds_left()) if pause is not None]
            wait_within(content, min(pauses) if pauses else None)

    def _ensure_open(self, timeout: float | None = None) -> Self:
        if not self._is_open:
            finished(native(self._native.opened), timeout)
            self._is_open = True
        return self

    @abstractmethod
    def _react(self, kind: str, content: Any) -> None:
        """Call back for an event; a revoked partition is stored first, if that is automatic."""

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClientClosed("the consumer is closed")

    def _note_open(self) -> None:
        if self._open is not None and not self._is_polled:
            self._progress.note_open(self._open)

    # ---- offsets

    def commit(self, message: Message | None = None, *, timeout: float | None = None) -> None:
        """Store the offset of a message, or of everything that was handed out so far, and wait for it.

        Args:
            message: The last processed message of its partition; None: everything that was handed out.
            timeout: Seconds to wait; None: as long as it takes.

        Raises:
            DeadlineExceeded: It is not stored in time, or not known to be.
            HeadraceError: It is not stored, for example because the partition belongs to another member now.

        Examples:
            >>> with client.producer("shop", "orders") as producer:
            ...     deliveries = producer.send_many([b"1", b"2"], partition=0)
            >>> with client.consumer("shop", "orders", name="audit", commit="manual") as consumer:
            ...     batch = consumer.poll(timeout=10)
            ...     consumer.commit()
            >>> client.offset("shop", "orders", 0, consumer="audit").stored_offset
            1
        """
        self._check_open()
        self._note_open()
        began = time.monotonic()
        for partition, pending in self._progress.begin_commit(message):
            try:
                finished(pending, timeout, since=began)
            except BaseException:
                self._progress.failed(partition, pending)
                raise

    def _settle(
        self, begun: list[tuple[int, Pending]], timeout: float | None = None, began: float | None = None
    ) -> None:
        for partition, pending in begun:
            try:
                finished(pending, timeout, since=began)
            except HeadraceError as error:
                self._progress.failed(partition, pending)
                _LOG.warning("the offset of partition %d could not be stored: %s", partition, str(error))

    def dead_letter(self, message: Message, reason: str | BaseException, *, attempts: int = 1) -> Delivered:
        """Store a message that cannot be processed in the dead-letter topic; then it counts as processed.

        The letter has the payload, key and headers of the message, and headers that say why it is there:
        `x-dead-letter-reason`, `-exception`, `-attempts`, `-time`, `-stream`, `-topic`, `-partition` and `-offset`. Its
        topic is `dead_letter_topic` of `ConsumerOptions`. Headers that leave no room for those are left out, and
        `x-dead-letter-headers` says so. If the call fails, the message does not count as processed.

        Args:
            message: The message, as this consumer has handed it out.
            reason: Why it cannot be processed: a text, or the exception. Cut to 255 bytes.
            attempts: Number of attempts to process it.

        Returns:
            Partition and offset of the letter.

        Raises:
            NotFound: There is no dead-letter topic, and `create_dead_letter_topic` is false.
            PermissionDenied: The user may not create the topic, or not send to it.
            OutcomeUnknown: The letter may be stored.
            HeadraceError: It is not stored.

        Examples:
            >>> with client.producer("shop", "orders") as producer:
            ...     deliveries = producer.send_many([b"no JSON"], partition=0)
            >>> with client.consumer("shop", "orders", group="billing") as consumer:
            ...     for message in consumer:
            ...         place = consumer.dead_letter(message, "no JSON")
            ...         break
            >>> (letter,) = client.read("shop", "orders-dead")
            >>> letter.payload, letter.headers["x-dead-letter-reason"], letter.headers["x-dead-letter-offset"]
            (b'no JSON', 'no JSON', '0')
        """
        self._check_open()
        place = run_steps(self._dead_letters.send(message, reason, attempts))
        self._note_open()
        if not self._is_polled:
            # A batch that was handed out as a whole counts when the next one is asked for.
            self._progress.note_last(message)
        return place

    @property
    def assignment(self) -> frozenset[int]:
        """Ids of the partitions that this consumer reads, as of the last message or batch."""
        return frozenset(self._progress.assignment)

    def position(self, partition: int) -> int | None:
        """Offset of the next message of a partition that will be handed out; None if it is not known yet."""
        self._check_open()
        self._note_open()
        handed_out = self._progress.handed_out.get(partition)
        if handed_out is not None:
            return handed_out
        found = finished(native(self._native.position, partition))
        return None if found is None else found[0]

    def lag(self) -> dict[int, int]:
        """Number of messages behind the position, by partition, as far as positions are known."""
        self._check_open()
        self._note_open()
        lags = {}
        for partition in sorted(self._progress.assignment):
            lag = self._progress.lag(partition, finished(native(self._native.position, partition)))
            if lag is not None:
                lags[partition] = lag
        return lags

    def seek(self, partition: int, start: StartLike) -> None:
        """Continue at another place of a partition. Typically called in `on_assigned`.

        Raises:
            InvalidArgument: The consumer does not read the partition, or this is no place.

        Examples:
            >>> with client.producer("shop", "orders") as producer:
            ...     deliveries = producer.send_many([b"1", b"2"], partition=0)
            >>> with client.consumer("shop", "orders") as consumer:
            ...     first = consumer.poll(timeout=10).payloads()
            ...     consumer.seek(0, "first")
            ...     first == consumer.poll(timeout=10).payloads()
            True
        """
        self._check_open()
        place = start_of(start)
        if self._open is not None and self._open[0].partition_id == partition:
            self._open[1].end()
            self._open, self._is_polled = None, False
        self._progress.forget([partition])
        if not finished(native(self._native.seek, partition, place.kind, place.value)):
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

    def _begin_close(self) -> list[tuple[int, Pending]]:
        self._is_closed = True
        self._note_open()
        self._dead_letters.close()
        return self._progress.begin_store(self._progress.processed) if self._progress.is_automatic else []

    def __repr__(self) -> str:
        """Name the topic and the group."""
        return f"Consumer(stream={self._stream!r}, topic={self._topic!r}, group={self._group!r})"
