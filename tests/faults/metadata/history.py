"""History of client operations, each with the interval in which it must have taken effect."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

Kind = Literal["write", "lock", "unlock", "read"]


@dataclass(frozen=True, slots=True)
class State:
    """One key: a stream, whose name is a register, and whose only topic is a lock."""

    value: str
    locked: bool


@dataclass(frozen=True, slots=True)
class Operation:
    """One call of one client on one key."""

    kind: Kind
    invoked: float
    """Time of the call, in seconds of the test's monotonic clock."""
    returned: float = math.inf
    """Time of the response; infinite if the outcome is unknown, in which case the operation may take effect at any
    later time.
    """
    value: str = ""
    """Value of a write, unique among all writes."""
    succeeded: bool = True
    """Result of an answered `lock` or `unlock`: true if the lock was in the required state."""
    seen: State | None = None
    """Result of an answered read."""

    @property
    def is_open(self) -> bool:
        """Return whether the outcome is unknown."""
        return math.isinf(self.returned)


def apply(state: State, operation: Operation) -> State | None:
    """Return the state after an operation, or `None` if its response was impossible in this state."""
    match operation.kind:
        case "read":
            return state if operation.seen == state else None
        case "write":
            return State(operation.value, state.locked)
        case "lock" | "unlock":
            wanted = operation.kind == "lock"
            if operation.is_open:
                return State(state.value, wanted)
            if operation.succeeded != (state.locked != wanted):
                return None
            return State(state.value, wanted)
