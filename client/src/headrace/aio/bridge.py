"""Operations of the native module as futures of an event loop."""

from __future__ import annotations

import asyncio
import itertools
from typing import Final, Protocol
from weakref import WeakKeyDictionary, ref

from headrace.sdk.errors import native
from headrace_core import Completions


class Notifies(Protocol):
    """Something that ends once, and notifies a queue then."""

    def done(self) -> bool:
        """Return whether it has ended."""

    def notify(self, completions: Completions, number: int, /) -> None:
        """Put a number into the queue at the end."""


class Bridge:
    """Wakes the futures of one event loop. One descriptor serves all operations."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Watch the queue of the native module."""
        self._completions = Completions()
        self._futures: dict[int, asyncio.Future[None]] = {}
        self._numbers = itertools.count(1)
        # The loop refers to the bridge, and must be able to end: with it ends the descriptor.
        self._loop = ref(loop)
        loop.add_reader(self._completions.fileno(), self._drain)

    def _drain(self) -> None:
        for number in self._completions.take():
            future = self._futures.pop(number, None)
            if future is not None and not future.done():
                future.set_result(None)

    async def ended(self, operation: Notifies) -> None:
        """Wait until an operation has ended. Cancelling the wait leaves the operation alone."""
        loop = self._loop()
        if loop is None or native(operation.done):
            return
        number = next(self._numbers)
        future = self._futures[number] = loop.create_future()
        native(operation.notify, self._completions, number)
        try:
            await future
        finally:
            self._futures.pop(number, None)


_BRIDGES: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, Bridge]] = WeakKeyDictionary()


def bridge() -> Bridge:
    """Return the bridge of the running event loop."""
    loop = asyncio.get_running_loop()
    found = _BRIDGES.get(loop)
    if found is None:
        found = _BRIDGES[loop] = Bridge(loop)
    return found
