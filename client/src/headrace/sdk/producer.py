"""The blocking producer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import NamedTuple, Self

from headrace.sdk.calls import Name
from headrace.sdk.errors import BufferFull, DeadlineExceeded, InvalidArgument, translated
from headrace.sdk.options import ProducerOptions, key_bytes
from headrace.sdk.results import Deliveries, Delivery, finished
from headrace_core import Deliveries as NativeDeliveries
from headrace_core import Producer as NativeProducer
from headrace_core import SessionConfig, SessionError

HeaderValue = str | bytes | bool | int | float
Headers = Mapping[str, HeaderValue]
"""User headers: names and values of 1 to 255 bytes."""


class ProducerCounters(NamedTuple):
    """Counters of a producer."""

    buffered_bytes: int
    """Size of the messages that are not delivered yet."""
    batches_delivered: int
    batches_failed: int
    batches_sent: int
    """Batches that were sent, repetitions included."""


def native_producer(config: SessionConfig, stream: Name, topic: Name, options: ProducerOptions) -> NativeProducer:
    """Return the native producer of a topic.

    Raises:
        InvalidArgument: A name or an option is invalid.
    """
    try:
        return NativeProducer(
            config,
            stream,
            topic,
            batch_messages=options.batch_messages,
            batch_bytes=options.batch_bytes,
            linger=options.linger,
            window=options.in_flight,
            buffer_bytes=options.buffer_bytes,
            delivery_timeout=options.delivery_timeout,
            repeat_uncertain=options.resend_uncertain,
        )
    except (ValueError, OverflowError) as error:
        raise InvalidArgument(str(error)) from None


def pushed(
    native: NativeProducer,
    payload: bytes,
    *,
    partition: int | None,
    key: bytes | str | None,
    headers: Headers | None,
    message_id: int,
    stores_key: bool,
) -> Delivery | None:
    """Hand a message to the native producer; None if there is no room for it."""
    if partition is not None and key is not None and not stores_key:
        raise InvalidArgument("key: the partition is given, and the key is not stored, so that it has no effect")
    try:
        delivery = native.push(
            payload,
            partition=partition,
            key=key_bytes(key),
            headers=dict(headers) if headers else None,
            id=message_id,
            stores_key=stores_key,
        )
    except SessionError as error:
        raise translated(error) from None
    except (OverflowError, TypeError, ValueError) as error:
        raise InvalidArgument(str(error)) from None
    return None if delivery is None else Delivery(delivery)


def pushed_many(
    native: NativeProducer,
    payloads: list[bytes],
    start: int,
    *,
    partition: int | None,
    key: bytes | str | None,
    headers: Headers | None,
    stores_key: bool,
) -> tuple[int, NativeDeliveries]:
    """Hand messages from `start` on to the native producer; returns the number that it had room for."""
    try:
        return native.push_many(
            payloads,
            start,
            partition=partition,
            key=key_bytes(key),
            headers=dict(headers) if headers else None,
            stores_key=stores_key,
        )
    except SessionError as error:
        raise translated(error) from None
    except (OverflowError, TypeError, ValueError) as error:
        raise InvalidArgument(str(error)) from None


def fail(native: NativeProducer) -> None:
    """Raise the first failure of a message whose result was not asked for."""
    try:
        native.take_failure()
    except SessionError as error:
        raise translated(error) from None


class Producer:
    """Sends messages to one topic, in batches, without waiting for each. It may be used by many threads.

    Use it in a ``with`` block: its end waits until everything is delivered, and raises the first failure
    whose result was not asked for.
    """

    def __init__(
        self,
        config: SessionConfig,
        stream: Name,
        topic: Name,
        options: ProducerOptions,
        *,
        open_timeout: float | None = None,
    ) -> None:
        """Open the producer; `Client.producer` is the usual way."""
        self._options = options
        self._native = native_producer(config, stream, topic, options)
        finished(self._native.opened(), open_timeout)

    def send(
        self,
        payload: bytes,
        *,
        key: bytes | str | None = None,
        partition: int | None = None,
        headers: Headers | None = None,
        message_id: int = 0,
        timeout: float | None = None,
    ) -> Delivery:
        """Send a message; waits only while the buffer is full.

        Args:
            payload: The content.
            key: Messages with the same key go to the same partition, in their order.
            partition: Id of the partition, in place of the one that the key selects.
            headers: User headers.
            message_id: Number of 128 bits; 0: the server draws one.
            timeout: Seconds to wait for room in the buffer; None: as long as it takes; 0: not at all.

        Returns:
            The delivery, whose `result` is partition and offset.

        Raises:
            BufferFull: There is no room, in time.
            InvalidArgument: The message cannot be sent.
            ClientClosed: The producer is closed.
        """
        while True:
            delivery = pushed(
                self._native,
                payload,
                partition=partition,
                key=key,
                headers=headers,
                message_id=message_id,
                stores_key=self._options.store_key,
            )
            if delivery is not None:
                return delivery
            self._await_room(timeout)

    def send_many(
        self,
        payloads: Iterable[bytes],
        *,
        key: bytes | str | None = None,
        partition: int | None = None,
        headers: Headers | None = None,
        timeout: float | None = None,
    ) -> Deliveries:
        """Send messages that share key, partition and headers: much faster than one at a time.

        Without key and partition, batches of them take turns over the partitions. On `BufferFull`, those before are
        sent all the same.
        """
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
            self._await_room(timeout)

    def _await_room(self, timeout: float | None) -> None:
        try:
            finished(self._native.room(), timeout)
        except DeadlineExceeded:
            raise BufferFull(
                f"{self.counters.buffered_bytes:,} bytes wait to be delivered (buffer_bytes is "
                f"{self._options.buffer_bytes:,})"
            ) from None

    def flush(self, timeout: float | None = None) -> None:
        """Send everything at once, and wait until it is delivered.

        Raises:
            DeadlineExceeded: Not in time; it is still being sent.
            NotDelivered: A message was not stored, and its result was not asked for.
            OutcomeUnknown: Likewise, it may be stored.
        """
        finished(self._native.flush(), timeout)
        fail(self._native)

    @property
    def counters(self) -> ProducerCounters:
        """Counters, for metrics."""
        return ProducerCounters(*self._native.counters())

    @property
    def partitions_count(self) -> int:
        """Number of partitions of the topic."""
        return self._native.partitions_count

    def close(self, timeout: float | None = None) -> None:
        """Send what is buffered, wait for it, and end. Errors as of `flush`."""
        finished(self._native.close(), timeout)
        fail(self._native)

    def abort(self) -> None:
        """Give up what is buffered, and end. What was sent already may be stored."""
        self._native.abort()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()
