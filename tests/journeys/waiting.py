"""What one gateway has done the other learns a moment later: waiting for that, and for nothing else."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from tests.compatibility import frames
from tests.compatibility.codes import Code, Status
from tests.journeys.doors import BinaryDoor, Refused
from tests.journeys.place import Place

Result = TypeVar("Result")

SOON_SECONDS = 20.0
"""It takes milliseconds; this much on a machine that has other things to do."""
_PAUSE_SECONDS = 0.005


def soon(call: Callable[[], Result], *still: Status) -> Result:
    """What a call gives as soon as it is not refused with one of these statuses any more."""
    deadline = time.monotonic() + SOON_SECONDS
    while True:
        try:
            return call()
        except Refused as refused:
            if refused.status not in still or time.monotonic() > deadline:
                raise
        time.sleep(_PAUSE_SECONDS)


def refused_soon(call: Callable[[], object], *statuses: Status) -> None:
    """A call is refused with one of these statuses, if not at once then soon."""
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


def known_at(place: Place, stream: str) -> None:
    """Wait until every gateway knows a stream with its topic `t`."""
    for gateway in place.gateways[1:]:
        with BinaryDoor(gateway, place.root) as door:
            path = frames.ident(stream) + frames.ident("t")
            until(f"{stream} is known", lambda door=door, path=path: door.connection.ok(Code.GET_TOPIC, path))


def until(what: str, condition: Callable[[], object]) -> None:
    """Wait until something is true."""
    deadline = time.monotonic() + SOON_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"it did not come to this: {what}"
        time.sleep(_PAUSE_SECONDS)
