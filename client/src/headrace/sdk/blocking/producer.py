"""Sending to one topic."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Self

from headrace.sdk.arrow_tables import ArrowTable, Codec
from headrace.sdk.blocking.waiting import computed, finished
from headrace.sdk.calls import Name
from headrace.sdk.errors import BufferFull, DeadlineExceeded, native
from headrace.sdk.options import ProducerOptions
from headrace.sdk.pushing import (
    Headers,
    ProducerCounters,
    fail,
    native_producer,
    outgoing_table,
    pushed_many,
    pushed_rows,
)
from headrace.sdk.results import Deliveries
from headrace.sdk.telemetry import Hooks
from headrace_core import Deliveries as NativeDeliveries
from headrace_core import SessionConfig


class ProducerCalls:
    """A producer, but for sending one message, and for its end."""

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
        self._is_open = False
        self._ensure_open(open_timeout)

    def _ensure_open(self, timeout: float | None = None) -> Self:
        if not self._is_open:
            finished(native(self._native.opened), timeout)
            self._is_open = True
        return self

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
        self._ensure_open()
        if self._hooks is not None:
            headers = self._hooks.headers(*self._topic, headers)
        waiting = payloads if isinstance(payloads, list) else list(payloads)
        parts: list[NativeDeliveries] = []
        start = 0
        began = time.monotonic()
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
            self._await_room(timeout, began)

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
        self._ensure_open()
        outgoing = outgoing_table(
            table,
            codec=codec,
            columns={"payload": payload, "key": key, "headers": headers, "id": message_id, "partition": partition},
            added=None if self._hooks is None else self._hooks.headers(*self._topic, None),
            stores_key=self._stores_key,
        )
        parts: list[NativeDeliveries] = []
        began = time.monotonic()
        while (rows := computed(outgoing.rows)) is not None:
            start = 0
            while True:
                taken, deliveries = pushed_rows(self._native, rows, start)
                start += taken
                parts.append(deliveries)
                if start == len(rows):
                    break
                self._await_room(timeout, began)
        return Deliveries(parts)

    def _await_room(self, timeout: float | None = None, began: float | None = None) -> None:
        try:
            finished(native(self._native.room), timeout, since=began)
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
