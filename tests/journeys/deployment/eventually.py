"""Waiting for changes to reach the other gateways."""

from __future__ import annotations

import time
from collections.abc import Callable

from tests.compatibility.protocol.codes import Status
from tests.journeys.deployment.api_clients import Refused

SOON_SECONDS = 60.0
"""Timeout for a loaded machine; a change normally arrives within milliseconds."""
_PAUSE_SECONDS = 0.005


def refused_soon(call: Callable[[], object], *statuses: Status) -> None:
    """Wait until a call is refused with one of these statuses."""
    deadline = time.monotonic() + SOON_SECONDS
    while True:
        try:
            call()
        except Refused as refused:
            if refused.status not in statuses:
                raise
            return
        assert time.monotonic() < deadline, f"it is not refused with {statuses}"
        time.sleep(_PAUSE_SECONDS)


def until(what: str, condition: Callable[[], object]) -> None:
    """Wait until something is true."""
    deadline = time.monotonic() + SOON_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"it did not come to this: {what}"
        time.sleep(_PAUSE_SECONDS)
