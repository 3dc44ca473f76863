"""Results of messages that were sent, for asyncio."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from headrace.aio.bridge import bridge
from headrace.aio.waiting import finished
from headrace.sdk.errors import native
from headrace.sdk.results import Deliveries as BlockingDeliveries
from headrace_core import AwaitableDelivery as Delivery
from headrace_core import Delivered, Pending, wait_for_deliveries
from headrace_core import Deliveries as NativeDeliveries

__all__ = ["Deliveries", "Delivery"]


async def _delivered(message: Pending) -> Delivered:
    """Wait for the place of a message."""
    delivered: Delivered = await finished(message)
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
