"""Cancellation of a coroutine at a chosen place."""

from __future__ import annotations

import asyncio
import types
from collections.abc import Awaitable, Coroutine, Generator
from typing import Any, Final

from headrace_connectors.conformance.rules import Violation

_WAITS_MAX: Final = 30


async def cancelled_at_wait(what: str, work: Coroutine[Any, Any, Any], wait: int) -> bool:
    """Run a coroutine that is cancelled when it waits for the given time, from 1.

    Args:
        what: Name of it, for messages.
        work: The coroutine.
        wait: Number of the wait.

    Returns:
        True if it was cancelled; False if it has ended before.

    Raises:
        Violation: It ignored the cancellation.
        Exception: It failed.
    """
    interruption = _Interruption(wait)
    task = asyncio.create_task(interruption.run(work))
    await asyncio.wait([task])
    if task.cancelled():
        return True
    task.result()
    if interruption.is_done:
        raise Violation(f"{what} ignores its cancellation: it went on, and returned")
    return False


def waits() -> range:
    """Return the numbers of the waits at which something is cancelled."""
    return range(1, _WAITS_MAX + 1)


class _Interruption:
    """Cancels the task that it runs in when a coroutine waits for the given time."""

    def __init__(self, wait: int) -> None:
        self._wait = wait
        self.is_done = False

    async def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return await self._driven(work)

    @types.coroutine
    def _driven(self, work: Awaitable[Any]) -> Generator[Any, Any, Any]:
        iterator = work.__await__()
        failure: BaseException | None = None
        count = 0
        while True:
            try:
                waited_for = next(iterator) if failure is None else iterator.throw(failure)
            except StopIteration as end:
                return end.value
            count += 1
            task = asyncio.current_task()
            if count == self._wait and task is not None:
                self.is_done = True
                task.cancel()
            try:
                yield waited_for
            except BaseException as error:  # noqa: BLE001 - it is the coroutine's
                failure = error
            else:
                failure = None
