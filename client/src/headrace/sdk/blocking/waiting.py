"""Waits of the blocking clients; `headrace.aio.waiting` has the same for asyncio."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from headrace.sdk.errors import DeadlineExceeded, native
from headrace.sdk.results import value_of
from headrace.sdk.stages import Steps
from headrace_core import Pending

Arguments = ParamSpec("Arguments")
Value = TypeVar("Value")


def finished(pending: Pending, timeout: float | None = None, *, since: float | None = None) -> Any:
    """Wait for an operation and return its result.

    Args:
        pending: The operation.
        timeout: Seconds to wait; None: as long as it takes.
        since: Time of `time.monotonic` from which on they count; None: from now on.

    Raises:
        DeadlineExceeded: It has not ended in time.
        HeadraceError: It has failed.
    """
    left = timeout if timeout is None or since is None else max(0.0, since + timeout - time.monotonic())
    if not native(pending.wait, left):
        raise DeadlineExceeded(f"not finished within {timeout} s", retryable=False)
    return value_of(pending)


def wait_within(pending: Pending, seconds: float | None) -> None:
    """Wait for the end of an operation; no longer than some seconds, if they are given."""
    native(pending.wait, seconds)


def run_steps(steps: Steps[Value]) -> Value:
    """Wait for each step, and return the result."""
    try:
        while True:
            step = next(steps)
            if isinstance(step, float):
                time.sleep(step)
            else:
                native(step.wait)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return] # the value of these steps


def computed(function: Callable[Arguments, Value], *arguments: Arguments.args, **options: Arguments.kwargs) -> Value:
    """Call a function that takes a while."""
    return function(*arguments, **options)
