"""The producer without a topic for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Mapping
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeVar

from headrace.aio.bridge import bridge
from headrace.sdk.calls import Name
from headrace.sdk.direct import Destination, DirectSteps, Messages, Runs, bound_only
from headrace.sdk.errors import HeadraceError, native
from headrace.sdk.options import DirectProducerOptions
from headrace.sdk.producer import Headers
from headrace.sdk.stages import Stage, Steps
from headrace.sdk.telemetry import Hooks
from headrace_core import SessionConfig

Value = TypeVar("Value")


class DirectProducer:
    """Sends messages to any topic at once, and waits until the server has them. As `headrace.DirectProducer`.

    Several tasks may use it. A cancelled call abandons its answer: the messages may be stored.

    Examples:
        >>> async def orders():
        ...     async with connect(url) as client, client.direct_producer() as producer:
        ...         return await producer.send_to("shop", "orders", [b"1", b"2"], partition=0)
        >>> asyncio.run(orders())
        [(Delivered(partition_id=0, offset=0), 2)]
    """

    def __init__(self, config: SessionConfig, options: DirectProducerOptions, hooks: Hooks | None = None) -> None:
        """Begin to connect; `Client.direct_producer` is the usual way."""
        self._steps = DirectSteps(config, options, hooks)

    async def send_to(
        self,
        stream: Name,
        topic: Name,
        messages: Messages,
        *,
        key: bytes | str | None = None,
        partition: int | None = None,
        headers: Headers | None = None,
    ) -> Runs:
        """Send messages to a topic, and wait until the server has them. As `headrace.DirectProducer.send_to`."""
        return await run_steps(self._steps.send_to((stream, topic), messages, key, partition, headers))

    async def send_groups(self, groups: Mapping[Destination, Messages]) -> dict[Destination, Runs | HeadraceError]:
        """Send messages to several topics at a time. As `headrace.DirectProducer.send_groups`."""
        return await run_steps(self._steps.send_groups(groups))

    async def stage(
        self, stream: Name, topic: Name, messages: Messages, *, lifetime: timedelta | None = None
    ) -> list[Stage]:
        """Store messages of a topic in stages, until a commit. As `headrace.DirectProducer.stage`."""
        return await run_steps(self._steps.stage((stream, topic), messages, lifetime))

    async def stage_groups(
        self, groups: Mapping[Destination, Messages], *, lifetime: timedelta | None = None
    ) -> dict[Destination, list[Stage] | HeadraceError]:
        """Store messages of several topics in stages. As `headrace.DirectProducer.stage_groups`."""
        return await run_steps(self._steps.stage_groups(groups, lifetime))

    async def close(self) -> None:
        """Close the connection. Calls of other tasks that wait fail."""
        self._steps.native.close()

    async def _open(self) -> Self:
        await bridge().finished(native(self._steps.native.opened))
        return self

    def __await__(self) -> Generator[Any, None, Self]:
        return self._open().__await__()

    async def __aenter__(self) -> Self:
        return await self._open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    if not TYPE_CHECKING:
        # Type checkers find these calls by themselves.

        async def send(self, *_arguments: object, **_options: object) -> NoReturn:
            """Refuse the call."""
            bound_only("send")

        async def send_many(self, *_arguments: object, **_options: object) -> NoReturn:
            """Refuse the call."""
            bound_only("send_many")


async def run_steps(steps: Steps[Value]) -> Value:
    """Wait for each step, and return the result."""
    try:
        while True:
            step = next(steps)
            if isinstance(step, float):
                await asyncio.sleep(step)
            else:
                await bridge().ended(step)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return] # the value of these steps
