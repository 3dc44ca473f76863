"""Lifecycle of a service: starting, running, draining; and the tasks whose end ends it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final, Literal, NamedTuple, TypeVar

from headrace_chassis.background import background

State = Literal["starting", "running", "draining"]
_STATUSES: Final[dict[State, str]] = {"starting": "starting", "running": "ok", "draining": "stopping"}
Outcome = TypeVar("Outcome")


class Health(NamedTuple):
    """Health of a service, for supervisors."""

    status: str
    """One word."""
    is_ready: bool
    """True if clients should come."""


class Lifecycle:
    """State of a service, and its essential tasks: it cannot continue without any of them."""

    def __init__(self) -> None:
        self._state: State = "starting"
        self._tasks: set[asyncio.Task[Any]] = set()

    @property
    def state(self) -> State:
        """Current state."""
        return self._state

    def health(self) -> Health:
        """Return the state as health: ``starting``, ``ok`` or ``stopping``."""
        return Health(_STATUSES[self._state], is_ready=self._state == "running")

    @contextmanager
    def running(self) -> Iterator[None]:
        """Report the service as running for the duration of a ``with`` block, and as draining afterwards."""
        self._state = "running"
        try:
            yield
        finally:
            self.drain()

    def drain(self) -> None:
        """Report that the service is about to stop."""
        self._state = "draining"

    @asynccontextmanager
    async def essential(self, work: Coroutine[Any, Any, Outcome], name: str) -> AsyncIterator[asyncio.Task[Outcome]]:
        """Run an essential task for the duration of an ``async with`` block."""
        async with background(work, name) as task:
            self._tasks.add(task)
            try:
                yield task
            finally:
                self._tasks.discard(task)

    async def until(self, happened: Coroutine[Any, Any, object]) -> None:
        """Wait for an event of this process; raise the failure of an essential task.

        Args:
            happened: Returns at the event.
        """
        async with background(happened, "awaited-event") as waiting:
            await asyncio.wait({waiting, *self._tasks}, return_when=asyncio.FIRST_COMPLETED)
        self.check()

    def check(self) -> None:
        """Raise the failure of an essential task, if any."""
        for task in self._tasks:
            if task.done() and not task.cancelled():
                task.result()
