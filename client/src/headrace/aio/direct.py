"""The producer without a topic for asyncio."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from headrace.aio.awaited.direct import DirectCalls
from headrace.aio.opening import Opening
from headrace.sdk.direct import bound_only


class DirectProducer(DirectCalls, Opening):
    """Sends messages to any topic at once, and waits until the server has them. As `headrace.DirectProducer`.

    Several tasks may use it. A cancelled call abandons its answer: the messages may be stored.

    Examples:
        >>> async def orders():
        ...     async with connect(url) as client, client.direct_producer() as producer:
        ...         return await producer.send_to("shop", "orders", [b"1", b"2"], partition=0)
        >>> asyncio.run(orders())
        [(Delivered(partition_id=0, offset=0), 2)]
    """

    if not TYPE_CHECKING:
        # Type checkers find these calls by themselves.

        async def send(self, *_arguments: object, **_options: object) -> NoReturn:
            """Refuse the call."""
            bound_only("send")

        async def send_many(self, *_arguments: object, **_options: object) -> NoReturn:
            """Refuse the call."""
            bound_only("send_many")
