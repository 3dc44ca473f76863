"""Errors of calls to the metadata service.

    MetadataClientError
    ├── AuthorityError              the file with the authority cannot be read or used
    ├── UnauthenticatedError        the replicas refuse the caller's credentials
    ├── MetadataUnreachableError    no replica has answered a read in time
    ├── CommandNotTakenError        no replica has accepted the command in time: it is not applied
    └── OutcomeUnknownError         the command may or may not be applied
        └── SessionEndedError       and the replicas have removed the session

``code`` is the status for the client; ``retryable`` is True if a retry may succeed.
"""

from __future__ import annotations

from typing import ClassVar

from headrace_proto.errors import Status


class MetadataClientError(Exception):
    """Base of all errors of this package."""

    code: ClassVar[Status] = Status.ERROR
    retryable: ClassVar[bool] = False


class AuthorityError(MetadataClientError):
    """The file with the authority cannot be read or used."""


class UnauthenticatedError(MetadataClientError):
    """The replicas refuse the caller's credentials: its secret or the name of its cluster differs."""


class MetadataUnreachableError(MetadataClientError):
    """No replica has answered a read in time."""

    code = Status.DISCONNECTED
    retryable = True


class CommandNotTakenError(MetadataClientError):
    """No replica has accepted the command in time. It is not applied, and will not be."""

    code = Status.DISCONNECTED
    retryable = True


class OutcomeUnknownError(MetadataClientError):
    """The command may or may not be applied: no replica has reported its outcome in time."""

    code = Status.OUTCOME_UNKNOWN


class SessionEndedError(OutcomeUnknownError):
    """The command may or may not be applied, and the replicas have removed the session with its outcome."""
