"""What clients asked and were answered, with the times between which it must have happened."""

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
    """When the call was sent, in seconds of the test's monotonic clock."""
    returned: float = math.inf
    """When its answer was there; infinite when nobody knows whether it happened, which it may do at any time."""
    value: str = ""
    """Of a write: no other writes the same."""
    succeeded: bool = True
    """Of `lock` and `unlock` with an answer: whether it found the lock as it wanted it."""
    seen: State | None = None
    """Of a read with an answer."""

    @property
    def is_open(self) -> bool:
        """Whether nobody knows if it happened."""
        return math.isinf(self.returned)


def apply(state: State, operation: Operation) -> State | None:
    """The state after an operation, or nothing if its answer was impossible in this state."""
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
