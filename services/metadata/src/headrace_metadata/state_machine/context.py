"""Parameters of command functions besides the state, and their refusals."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandContext:
    """The place of a command in the order of all commands.

    Attributes:
        op: Position in that order, from 1. Serves as the incarnation of everything that the command creates.
        timestamp_micros: Microseconds since the Unix epoch; increases strictly with ``op``. The only source of time.
        actor_user_id: Requesting user.
    """

    op: int
    timestamp_micros: int
    actor_user_id: int


class Refused(Exception):
    """A rule forbids the command. Raised before anything was changed."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status
