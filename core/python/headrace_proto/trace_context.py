"""Trace context of the current task, for its commands and for calls to other processes."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final, NamedTuple

_COMMANDS_MAX: Final = 100


class TraceContext(NamedTuple):
    """A parent span."""

    trace_id: int
    """128 bits."""
    span_id: int
    """64 bits."""


@dataclass(slots=True)
class Recorded:
    """A sampled request; of a long-running request, such as a stream of events, only the beginning is traced."""

    context: TraceContext
    commands_left: int = _COMMANDS_MAX


REQUEST: Final[ContextVar[Recorded | None]] = ContextVar("recorded request", default=None)
"""The current request; None if not sampled."""


def traceparent() -> str | None:
    """Return the W3C `traceparent` header for a call to another process; None if the request is not sampled."""
    recorded = REQUEST.get()
    if recorded is None:
        return None
    return f"00-{recorded.context.trace_id:032x}-{recorded.context.span_id:016x}-01"


def context_of_command() -> TraceContext | None:
    """Return the trace context for the next command of the request; None if the command is not traced."""
    recorded = REQUEST.get()
    if recorded is None or recorded.commands_left == 0:
        return None
    recorded.commands_left -= 1
    return recorded.context
