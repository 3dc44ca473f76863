"""Which trace the work of the task at hand is a part of: the commands that it sends, and calls to other processes."""

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


def traceparent() -> str | None:
    """What a call to another process carries, as the W3C's recommendation has it; none if it is not to be recorded."""
    recorded = REQUEST.get()
    if recorded is None:
        return None
    return f"00-{recorded.context.trace_id:032x}-{recorded.context.span_id:016x}-01"


def context_of_command() -> TraceContext | None:
    """What the next command of the request is a part of; none if it is not to be recorded."""
    recorded = REQUEST.get()
    if recorded is None or recorded.commands_left == 0:
        return None
    recorded.commands_left -= 1
    return recorded.context
