"""Expiry: a `Pulse` command ends everything whose deadline is before its timestamp, renewals begin deadlines anew."""

from __future__ import annotations

from headrace_metadata.state_machine.context import CommandContext
from headrace_metadata.state_machine.groups import timeouts
from headrace_metadata.state_machine.placement import nodes
from headrace_metadata.state_machine.state import State
from headrace_metadata.state_machine.transactions import transactions
from headrace_proto.metadata.v1 import Command, Reply


def pulse(state: State, context: CommandContext) -> Reply:
    """End everything that has expired."""
    timeouts.pulse(state, context)
    nodes.pulse(state, context)
    transactions.pulse(state, context)
    return Reply()


def is_pulse_due(state: State, now_micros: int) -> bool:
    """Return whether a `Pulse` command at this time would have an effect."""
    return (
        timeouts.is_pulse_due(state, now_micros)
        or nodes.is_pulse_due(state, now_micros)
        or transactions.is_pulse_due(state, now_micros)
    )


def renewals(state: State) -> list[Command]:
    """Return the commands by which every gateway with members, and every live node, counts as heard."""
    return [*timeouts.heartbeats(state), *nodes.renewals(state)]
