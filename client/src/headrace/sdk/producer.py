"""The blocking producer."""

from __future__ import annotations

import time
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self

from headrace.sdk.blocking.producer import ProducerCalls
from headrace.sdk.pushing import Headers, direct_only, pushed
from headrace.sdk.results import Delivery
from headrace_core import Sender


class Producer(ProducerCalls):
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
        began = time.monotonic()
        while True:
            delivery = pushed(self._native, payload, partition, key, headers, message_id, self._stores_key)
            if delivery is not None:
                return delivery
            self._await_room(timeout, began)

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
