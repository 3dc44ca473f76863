"""Waits of an event loop, with the names of `headrace.sdk.blocking.waiting`. A limit of time is the caller's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from headrace.aio.bridge import bridge
from headrace.sdk.results import value_of
from headrace.sdk.stages import Steps
from headrace_core import Pending

Arguments = ParamSpec("Arguments")
Value = TypeVar("Value")


async def finished(pending: Pending) -> Any:
    """Wait for an operation and return its result.

    Raises:
        HeadraceError: It has failed.
    """
    await bridge().ended(pending)
    return value_of(pending)


async def wait_within(pending: Pending, seconds: float | None) -> None:
    """Wait for the end of an operation; no longer than some seconds, if they are given."""
    try:
        async with asyncio.timeout(seconds):
            await bridge().ended(pending)
    except TimeoutError:
        pass


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


async def computed(
    function: Callable[Arguments, Value], *arguments: Arguments.args, **options: Arguments.kwargs
) -> Value:
    """Call a function that takes a while, on a thread."""
    return await asyncio.to_thread(function, *arguments, **options)
