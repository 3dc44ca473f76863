"""Background tasks for the duration of a block."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

Outcome = TypeVar("Outcome")


@asynccontextmanager
async def background(work: Coroutine[Any, Any, Outcome], name: str) -> AsyncIterator[asyncio.Task[Outcome]]:
    """Run a task for the duration of an ``async with`` block, at whose end it is cancelled."""
    task = asyncio.create_task(work, name=name)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait({task})
