"""The clock of what the client does in time by itself; `headrace.testing.VirtualTime` replaces it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

_CLOCKS: Final[list[Callable[[], float]]] = [time.monotonic]


def monotonic() -> float:
    """Return the present time in seconds, as `time.monotonic`."""
    return _CLOCKS[-1]()


def replace_clock(clock: Callable[[], float] | None) -> None:
    """Use another clock; None: the usual one again."""
    del _CLOCKS[1:]
    if clock is not None:
        _CLOCKS.append(clock)
