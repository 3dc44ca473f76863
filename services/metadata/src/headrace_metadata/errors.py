"""What can go wrong outside the rules of the state machine.

    MetadataError
    ├── AppendFailedError           the device is full
    ├── ListenError                 the service cannot be offered where the settings say
    ├── NotPrimaryError             another replica takes commands at present
    ├── ReplicaBusyError            too much is in flight
    ├── OutcomeUnknownError         nobody can say whether the command was taken
    ├── SessionEndedError           the session is gone, and with it what is known of its last request
    ├── StaleRequestError           a later request of the session was applied before
    ├── RequestReusedError          the number of the request belongs to another command
    ├── InvalidRequestError         the request does not name its place in a session
    ├── UnsupportedCommandError     a newer release has committed what this one does not know
    └── ReplicaStoppedError         the replica takes no commands (any more)

``code`` is the status that a client is answered with; ``retryable`` says whether the unchanged command may
succeed when it is proposed again.
"""

from __future__ import annotations

from typing import ClassVar

from headrace_proto.errors import Status


class MetadataError(Exception):
    """Base of all errors of this package."""

    code: ClassVar[Status] = Status.ERROR
    retryable: ClassVar[bool] = False


class AppendFailedError(MetadataError):
    """The journal takes no more, for example because the device is full. The command was not taken."""

    code = Status.CANNOT_APPEND_TO_FILE
    retryable = True


class ListenError(MetadataError):
    """The service cannot be offered where the settings say."""


class NotPrimaryError(MetadataError):
    """Another replica takes commands at present. This one has not taken it.

    Attributes:
        primary: Index of the replica to ask; none if nobody knows.
    """

    code = Status.DISCONNECTED
    retryable = True

    def __init__(self, primary: int | None) -> None:
        super().__init__("no primary is known" if primary is None else f"the primary is replica {primary}")
        self.primary = primary


class ReplicaBusyError(MetadataError):
    """Too much is in flight. The command was not taken."""

    code = Status.DISCONNECTED
    retryable = True


class OutcomeUnknownError(MetadataError):
    """The command was taken, and then the primary changed: it may or may not be applied."""

    code = Status.DISCONNECTED


class SessionEndedError(MetadataError):
    """The session was closed, or forgotten for others, or its caller has opened a newer one.

    The command was not taken now. If it was sent before, nobody can say any more whether it was taken then.
    """


class StaleRequestError(MetadataError):
    """A request of the session with a higher number was applied before. This one was not taken, and will not be."""


class RequestReusedError(MetadataError):
    """The number was given to another command before. This one was not taken."""


class InvalidRequestError(MetadataError):
    """The request does not say where it belongs in a session. It was not taken."""

    code = Status.INVALID_FORMAT


class UnsupportedCommandError(MetadataError):
    """A command was committed that this release does not know. Skipping it would make this replica differ."""

    def __init__(self, op: int) -> None:
        super().__init__(f"op {op} holds an unknown command; start the release that wrote it, or a newer one")


class ReplicaStoppedError(MetadataError):
    """The replica was closed, or it stopped at a failure, which is then the cause."""

    code = Status.DISCONNECTED
