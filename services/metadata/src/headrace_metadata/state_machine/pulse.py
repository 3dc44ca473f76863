"""Time passes: whatever is over by the timestamp of an operation ends."""

from __future__ import annotations

from headrace_metadata.state_machine import groups_time, nodes, transactions
from headrace_metadata.state_machine.operation import Operation
from headrace_metadata.state_machine.state import State
from headrace_proto.metadata.v1 import Reply


def pulse(state: State, operation: Operation) -> Reply:
    """End what is over by now."""
    groups_time.pulse(state, operation)
    nodes.pulse(state, operation)
    transactions.pulse(state, operation)
    return Reply()


def is_pulse_due(state: State, now_micros: int) -> bool:
    """Say whether a pulse at this time would end or forget anything."""
    return (
        groups_time.is_pulse_due(state, now_micros)
        or nodes.is_pulse_due(state, now_micros)
        or transactions.is_pulse_due(state, now_micros)
    )
