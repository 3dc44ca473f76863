"""Which trace the commands are a part of that the task at hand sends."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final, NamedTuple

_COMMANDS_MAX: Final = 100


class TraceContext(NamedTuple):
    """A span that others are a part of."""

    trace_id: int
    """Of 128 bits."""
    span_id: int
    """Of 64 bits."""


@dataclass(slots=True)
class Recorded:
    """A request that is recorded; one that goes on for days, such as a stream of events, at its beginning."""

    context: TraceContext
    commands_left: int = _COMMANDS_MAX


REQUEST: Final[ContextVar[Recorded | None]] = ContextVar("recorded request", default=None)
"""The request that is served; none if it is not recorded."""


def context_of_command() -> TraceContext | None:
    """What the next command of the request is a part of; none if it is not to be recorded."""
    recorded = REQUEST.get()
    if recorded is None or recorded.commands_left == 0:
        return None
    recorded.commands_left -= 1
    return recorded.context
