"""Errors outside the rules of the state machine.

    MetadataError
    ├── AppendFailedError           the device is full
    ├── NotPrimaryError             another replica is the primary
    ├── ReplicaBusyError            too many commands are in flight
    ├── OutcomeUnknownError         the command may or may not have been applied
    ├── SessionEndedError           the session has ended, and the result of its last request is lost
    ├── StaleRequestError           a later request of the session was applied before
    ├── RequestReusedError          the number of the request belongs to another command
    ├── InvalidRequestError         the request does not name its place in a session
    ├── UnsupportedCommandError     a newer release has committed a command unknown to this one
    └── ReplicaStoppedError         the replica takes no commands (any more)

``code`` is the status for the client; ``retryable`` is true if the unchanged command may succeed when it is proposed
again.
"""

from __future__ import annotations

from typing import ClassVar

from headrace_proto.errors import Status


class MetadataError(Exception):
    """Base of all errors of this package."""

    code: ClassVar[Status] = Status.ERROR
    retryable: ClassVar[bool] = False


class AppendFailedError(MetadataError):
    """The journal cannot be written, for example because the device is full. The command was not taken."""

    code = Status.CANNOT_APPEND_TO_FILE
    retryable = True


class NotPrimaryError(MetadataError):
    """Another replica is the primary. This one has not taken the command.

    Attributes:
        primary: Index of the primary; None if unknown.
    """

    code = Status.DISCONNECTED
    retryable = True

    def __init__(self, primary: int | None) -> None:
        super().__init__("no primary is known" if primary is None else f"the primary is replica {primary}")
        self.primary = primary


class ReplicaBusyError(MetadataError):
    """Too many commands are in flight. The command was not taken."""

    code = Status.DISCONNECTED
    retryable = True


class OutcomeUnknownError(MetadataError):
    """The command was taken, and then the primary changed: it may or may not be applied."""

    code = Status.DISCONNECTED


class SessionEndedError(MetadataError):
    """The session was closed, evicted in favour of others, or replaced by a newer one of the same caller.

    The command was not taken now. If it was sent before, the result of that attempt is unknown.
    """


class StaleRequestError(MetadataError):
    """A request of the session with a higher number was applied before. This one was not taken, and will not be."""


class RequestReusedError(MetadataError):
    """The request number was used for another command before. This one was not taken."""


class InvalidRequestError(MetadataError):
    """The request does not name its place in a session. The command was not taken."""

    code = Status.INVALID_FORMAT


class UnsupportedCommandError(MetadataError):
    """A committed command is unknown to this release. Skipping it would make this replica diverge."""

    def __init__(self, op: int) -> None:
        super().__init__(f"op {op} is an unknown command; start the release that wrote it, or a newer one")


class ReplicaStoppedError(MetadataError):
    """The replica was closed, or stopped at a failure, which is then the cause."""

    code = Status.DISCONNECTED
