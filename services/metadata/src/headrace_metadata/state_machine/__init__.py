"""The rules of the metadata service, free of I/O: ``StateMachine``, and a module per family of commands."""

from headrace_metadata.state_machine.groups_time import is_partition_awaited
from headrace_metadata.state_machine.machine import Applied, StateMachine, UnknownCommandError
from headrace_metadata.state_machine.nodes import silent_at_micros
from headrace_metadata.state_machine.pulse import is_pulse_due
from headrace_metadata.state_machine.tokens import has_expired

__all__ = [
    "Applied",
    "StateMachine",
    "UnknownCommandError",
    "has_expired",
    "is_partition_awaited",
    "is_pulse_due",
    "silent_at_micros",
]
