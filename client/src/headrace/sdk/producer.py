"""The blocking producer."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn, Self

from headrace.sdk.arrow_tables import ArrowTable, Codec, OutgoingTable
from headrace.sdk.calls import Name, check_name
from headrace.sdk.errors import BufferFull, DeadlineExceeded, InvalidArgument, native, translated
from headrace.sdk.options import KEY_HEADER, ProducerOptions, key_bytes
from headrace.sdk.results import Deliveries, Delivery, finished
from headrace.sdk.telemetry import Hooks
from headrace_core import Deliveries as NativeDeliveries
from headrace_core import Producer as NativeProducer
from headrace_core import Sender, SessionConfig, SessionError, TableRows

HeaderValue = str | bytes | bool | int | float
Headers = Mapping[str, HeaderValue]
"""User headers: names and values of 1 to 255 bytes."""


KEY_WITHOUT_EFFECT: Final = "key: the partition is given, and the key is not stored, so that it has no effect"


class ProducerCounters(NamedTuple):
    """Counters of a producer."""

    buffered_bytes: int
    """Size of the messages that are not delivered yet."""
    batches_delivered: int
    batches_failed: int
    batches_sent: int
    """Batches that were sent, repetitions included."""


def native_producer(
    config: SessionConfig, stream: Name, topic: Name, options: ProducerOptions, hooks: Hooks | None = None
) -> NativeProducer:
    """Return the native producer of a topic.

    Raises:
        InvalidArgument: A name or an option is invalid.
    """
    check_name("stream", stream)
    check_name("topic", topic)
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
            reports=None if hooks is None else hooks.reports,
            number=0 if hooks is None else hooks.register(stream, topic),
        )
    except (OverflowError, TypeError, ValueError) as error:
        raise InvalidArgument(str(error)) from None


def pushed(
    producer: NativeProducer,
    payload: bytes,
    partition: int | None,
    key: bytes | str | None,
    headers: Headers | None,
    message_id: int,
    stores_key: bool,
) -> Delivery | None:
    """Hand a message to the native producer; None if there is no room for it."""
    if key is not None:
        if partition is not None and not stores_key:
            raise InvalidArgument(KEY_WITHOUT_EFFECT)
        key = key_bytes(key)
    try:
        return producer.push(
            payload, partition, key, header_dict(headers) if headers else None, message_id or None, stores_key
        )
    except SessionError as error:
        raise translated(error) from None
    except (OverflowError, TypeError, ValueError) as error:
        raise refused(error, [payload], partition, message_id) from None


def pushed_many(
    producer: NativeProducer,
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
        return producer.push_many(
            payloads,
            start,
            partition=partition,
            key=key_bytes(key),
            headers=header_dict(headers),
            stores_key=stores_key,
        )
    except SessionError as error:
        raise translated(error) from None
    except (OverflowError, TypeError, ValueError) as error:
        raise refused(error, payloads, partition, 0) from None


def outgoing_table(
    table: ArrowTable,
    *,
    codec: Codec | None,
    columns: dict[str, str | None],
    added: Headers | None,
    stores_key: bool,
) -> OutgoingTable:
    """Find the columns of a table, and check their types. Arguments and errors as of `Producer.write_arrow`."""
    return OutgoingTable(table, codec=codec, columns=columns, added=header_dict(added), stores_key=stores_key)


def pushed_rows(producer: NativeProducer, rows: TableRows, start: int) -> tuple[int, NativeDeliveries]:
    """Hand rows from `start` on to the native producer; returns the number that it had room for."""
    try:
        return producer.push_rows(rows, start)
    except SessionError as error:
        raise translated(error) from None


def header_dict(headers: Headers | None) -> dict[str, HeaderValue] | None:
    """Return headers for the native module.

    Raises:
        InvalidArgument: One of them is that of the key.
    """
    if not headers:
        return None
    if KEY_HEADER in headers:
        raise InvalidArgument(f"headers[{KEY_HEADER!r}]: this header holds the key of a message; give it as `key`")
    return dict(headers)


def refused(error: Exception, payloads: Sequence[object], partition: object, message_id: object) -> InvalidArgument:
    """Say which argument the native module could not convert."""
    if isinstance(error, InvalidArgument):
        return error
    for payload in payloads:
        if not isinstance(payload, bytes):
            return InvalidArgument(f"payload: a {type(payload).__name__} is not bytes")
    if partition is not None and not (isinstance(partition, int) and 0 <= partition < 2**32):
        return InvalidArgument(f"partition: {partition!r} is no id of a partition; they are 0 to 4294967295")
    if not (isinstance(message_id, int) and 0 <= message_id < 2**128):
        return InvalidArgument(f"message_id: {message_id!r} is not a number of 128 bits without a sign")
    return InvalidArgument(str(error))


def direct_only(stream: Name, topic: Name) -> NoReturn:
    """Refuse a call that names a topic."""
    raise InvalidArgument(
        f"send_to: this producer sends to topic {topic!r} in stream {stream!r} alone; use send, or "
        "client.direct_producer() for other topics"
    )


def fail(producer: NativeProducer) -> None:
    """Raise the first failure of a message whose result was not asked for."""
    native(producer.take_failure)


class Producer:
    """Sends messages to one topic, in batches, without waiting for each. It may be used by many threads.

    Use it in a ``with`` block: its end waits until everything is delivered, and raises the first failure
    whose result was not asked for.

    Examples:
        >>> with client.producer("shop", "orders") as producer:
        ...     for number in range(3):
        ...         delivery = producer.send(f"order {number}".encode(), key="customer-7")
        >>> producer.counters.batches_failed
        0
    """

    def __init__(
        self,
        config: SessionConfig,
        stream: Name,
        topic: Name,
        options: ProducerOptions,
        *,
        hooks: Hooks | None = None,
        open_timeout: float | None = None,
    ) -> None:
        """Open the producer; `Client.producer` is the usual way."""
        self._options = options
        self._stores_key = options.store_key
        self._topic = (stream, topic)
        self._hooks = hooks
        self._native = native_producer(config, stream, topic, options, hooks)
        finished(native(self._native.opened), open_timeout)

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

        Examples:
            >>> with client.producer("shop", "orders") as producer:
            ...     delivery = producer.send(b"one book", partition=1, headers={"weight": 0.4, "gift": True})
            ...     delivery.result(timeout=10)
            Delivered(partition_id=1, offset=0)
        """
        if self._hooks is not None:
            headers = self._hooks.headers(*self._topic, headers)
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            delivery = pushed(self._native, payload, partition, key, headers, message_id, self._stores_key)
            if delivery is not None:
                return delivery
            self._await_room(until)

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

        Without key and partition, batches of them take turns over the partitions.

        Args:
            payloads: The contents.
            key: As of `send`, for all of them.
            partition: As of `send`, for all of them.
            headers: As of `send`, for all of them.
            timeout: Seconds to wait for room in the buffer, in all; None: as long as it takes; 0: not at all.

        Raises:
            BufferFull: There is no room, in time. Messages for which there was room are sent all the same.
            InvalidArgument: A message cannot be sent. Those before it may be sent all the same.
            ClientClosed: The producer is closed.

        Examples:
            >>> with client.producer("shop", "orders") as producer:
            ...     deliveries = producer.send_many([b"1", b"2", b"3"], partition=0)
            >>> deliveries.result()
            [(Delivered(partition_id=0, offset=0), 3)]
        """
        if self._hooks is not None:
            headers = self._hooks.headers(*self._topic, headers)
        waiting = payloads if isinstance(payloads, list) else list(payloads)
        parts: list[NativeDeliveries] = []
        start = 0
        until = None if timeout is None else time.monotonic() + timeout
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
            self._await_room(until)

    def write_arrow(
        self,
        table: ArrowTable,
        *,
        codec: Codec | None = None,
        payload: str | None = None,
        key: str | None = None,
        headers: str | None = None,
        message_id: str | None = None,
        partition: str | None = None,
        timeout: float | None = None,
    ) -> Deliveries:
        """Send the rows of a table: of pyarrow, Polars, DuckDB, or anything else with Arrow's C interface.

        Rows are read, checked and encoded without Python, some at a time. Without a codec, each row is a message, and
        `payload`, `key`, `headers`, `message_id` and `partition` name columns for its parts. A part that is not named
        is taken from the column `value` or `payload`, `key`, `headers`, `id` or `partition` if there is one, so that a
        table of `Client.scan` can be sent as it is. What the server writes (`stream`, `topic`, `offset`, `timestamp`,
        `origin_timestamp`) is left out; another column is refused, because it would be lost.

        Args:
            table: The table. One with `__arrow_c_stream__` is read while it is sent.
            codec: `"json"`: the payload of each row is a JSON object of all columns but those of `headers`,
                `message_id` and `partition`. `"arrow"`: each message is an Arrow IPC stream of many rows, with all
                columns. With a codec, only columns that are named here have a part of their own.
            payload: Column of payloads: binary or string.
            key: Column of keys, binary or string, as of `send`; null: none.
            headers: Column of user headers: lists of structs of name and value, or maps. Values that are strings
                become texts, others bytes.
            message_id: Column of ids, binary of 16 bytes or integers; null: the server draws one.
            partition: Column of ids of partitions, integers; null: as the key selects, or in turns.
            timeout: Seconds to wait for room in the buffer, in all; None: as long as it takes; 0: not at all.

        Raises:
            InvalidArgument: It is no table; a column is missing, or has a type that is not taken; or a row cannot be a
                message. Rows before it may be sent all the same.
            BufferFull: There is no room, in time. Rows for which there was room are sent all the same.
            ClientClosed: The producer is closed.

        Examples:
            >>> import pyarrow
            >>> orders = pyarrow.table({"customer": ["anna", "ben"], "price": [3, 4], "to": [0, 0]})
            >>> with client.producer("shop", "orders") as producer:
            ...     deliveries = producer.write_arrow(orders, codec="json", key="customer", partition="to")
            >>> [message.payload for message in client.read("shop", "orders", partition=0, count=2)]
            [b'{"customer":"anna","price":3}', b'{"customer":"ben","price":4}']
        """
        outgoing = outgoing_table(
            table,
            codec=codec,
            columns={"payload": payload, "key": key, "headers": headers, "id": message_id, "partition": partition},
            added=None if self._hooks is None else self._hooks.headers(*self._topic, None),
            stores_key=self._stores_key,
        )
        parts: list[NativeDeliveries] = []
        until = None if timeout is None else time.monotonic() + timeout
        while (rows := outgoing.rows()) is not None:
            start = 0
            while True:
                taken, deliveries = pushed_rows(self._native, rows, start)
                start += taken
                parts.append(deliveries)
                if start == len(rows):
                    break
                self._await_room(until)
        return Deliveries(parts)

    def _await_room(self, until: float | None) -> None:
        try:
            finished(native(self._native.room), None if until is None else max(0.0, until - time.monotonic()))
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
        finished(native(self._native.flush), timeout)
        fail(self._native)

    @property
    def counters(self) -> ProducerCounters:
        """Counters, for metrics."""
        return ProducerCounters(*native(self._native.counters))

    @property
    def partitions_count(self) -> int:
        """Number of partitions of the topic."""
        return native(lambda: self._native.partitions_count)

    def close(self, timeout: float | None = None) -> None:
        """Send what is buffered, wait for it, and end. Errors as of `flush`."""
        finished(native(self._native.close), timeout)
        fail(self._native)

    def abort(self) -> None:
        """Give up what is buffered, and end. What was sent already may be stored."""
        native(self._native.abort)

    def __repr__(self) -> str:
        """Name the topic."""
        stream, topic = self._topic
        return f"Producer(stream={stream!r}, topic={topic!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()

    if not TYPE_CHECKING:
        # Type checkers find this call by themselves.

        def send_to(self, *_arguments: object, **_options: object) -> NoReturn:
            """Refuse the call."""
            direct_only(*self._topic)


class ClientProducer(Sender, Producer):
    """The producer that a client hands out: the native `send` comes first.

    It leaves to `Producer.send` what is out of the ordinary: a full buffer, hooks, values that cannot be sent.
    """

    _send_in_python = Producer.send

    def __init__(self, *arguments: Any, **options: Any) -> None:
        """Open the producer. Arguments as of `Producer`."""
        Producer.__init__(self, *arguments, **options)
        if self._hooks is None:
            self._send_by(self._native, self._stores_key)
