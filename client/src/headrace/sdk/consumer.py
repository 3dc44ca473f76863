"""The blocking consumer."""

from __future__ import annotations

import time
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self

from headrace.sdk.arrow_tables import Batches
from headrace.sdk.blocking.consumer import ConsumerCalls
from headrace.sdk.blocking.waiting import finished
from headrace.sdk.errors import native
from headrace_core import ConsumerMessages, Message


class Consumer(ConsumerCalls):
    """Reads one topic, as a member of a consumer group or alone. It belongs to one thread.

    Iterate over it for messages, or over `batches`. A message counts as processed when the next one is asked for.
    Use it in a ``with`` block: its end stores what was processed, and leaves the group.

    Examples:
        >>> with client.producer("shop", "orders") as producer:
        ...     deliveries = producer.send_many([b"1", b"2"], partition=0)
        >>> with client.consumer("shop", "orders", group="billing", start="first") as consumer:
        ...     for message in consumer:
        ...         print(message.partition_id, message.offset, message.payload)
        ...         if message.payload == b"2":
        ...             break
        0 0 b'1'
        0 1 b'2'
    """

    def __iter__(self) -> Iterator[Message]:
        """Iterate over messages, and wait for more, without end."""
        return ConsumerMessages(self)

    def batches(self, timeout: float | None = None) -> Batches:
        """Iterate over batches of messages of one partition each. The one before counts as processed.

        A batch is a record batch, and the iterator a stream of them, for every library that takes Arrow's C interface:
        pyarrow, Polars, DuckDB, nanoarrow. The columns are those of `poll_arrow`, unless the library asks for others.

        Args:
            timeout: Seconds to wait for messages before the iterator ends; None: wait for more, without end.

        Examples:
            >>> import pyarrow
            >>> with client.producer("shop", "orders") as producer:
            ...     deliveries = producer.send_many([b"1", b"2"], partition=0)
            >>> with client.consumer("shop", "orders") as consumer:
            ...     for batch in consumer.batches(timeout=1):
            ...         pyarrow.record_batch(batch).column("value").to_pylist()
            [b'1', b'2']
            >>> with client.consumer("shop", "orders") as consumer:
            ...     pyarrow.table(consumer.batches(timeout=1)).num_rows
            2
        """
        return Batches(lambda: self.poll(timeout), self._stream, self._topic)

    def _react(self, kind: str, content: Any) -> None:
        if not self._progress.note_event(kind, content):
            return
        if kind == "revoked" and self._progress.is_automatic:
            self._settle(self._progress.begin_store(self._progress.processed, content))
        # A call that Ctrl-C ends is not repeated.
        self._unfinished = None
        callback = self._callbacks.get(kind)
        try:
            if callback is not None:
                callback(content)
        finally:
            self._progress.end_event(kind, content)

    def close(self, timeout: float | None = 10.0) -> None:
        """Store what was processed, if that is automatic, and leave the group.

        Args:
            timeout: Seconds for both; None: as long as it takes. After them the server notices by itself that this
                member is gone.

        Raises:
            DeadlineExceeded: It has not ended in time. It ends when the server is there again.
        """
        if self._is_closed:
            return
        began = time.monotonic()
        self._settle(self._begin_close(), timeout, began)
        finished(native(self._native.leave), timeout, since=began)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
