"""The rules of the metadata service, free of I/O: ``StateMachine``, and a module per family of commands."""

from headrace_metadata.state_machine.expiry import is_pulse_due, renewals
from headrace_metadata.state_machine.groups.timeouts import is_partition_awaited
from headrace_metadata.state_machine.machine import Applied, StateMachine, UnknownCommandError
from headrace_metadata.state_machine.placement.nodes import silent_at_micros
from headrace_metadata.state_machine.users.tokens import has_expired

__all__ = [
    "Applied",
    "StateMachine",
    "UnknownCommandError",
    "has_expired",
    "is_partition_awaited",
    "is_pulse_due",
    "renewals",
    "silent_at_micros",
]
