"""Work that a stop cuts short, at once or after a grace."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable
from typing import TypeVar

Value = TypeVar("Value")


class GraceOver(Exception):
    """Work has not ended in its time."""


async def with_grace(work: Awaitable[Value], stop: asyncio.Event, seconds: float) -> Value:
    """Wait for work; when a stop is requested, for this time only.

    Raises:
        GraceOver: It has not ended in this time, and was cancelled.
    """
    task = asyncio.ensure_future(work)
    stopping = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({task, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done() and seconds > 0:
            await asyncio.wait({task}, timeout=seconds)
        if not task.done():
            task.cancel()
            await asyncio.wait({task})
        if task.cancelled():
            raise GraceOver
        return task.result()
    finally:
        stopping.cancel()
        if not task.done():
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await task


async def until_stop(work: Awaitable[Value], stop: asyncio.Event) -> Value | None:
    """Wait for work; cancel it when a stop is requested, and return None then."""
    try:
        return await with_grace(work, stop, 0.0)
    except GraceOver:
        return None
