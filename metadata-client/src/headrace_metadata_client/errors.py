"""Why a call to the metadata service came to nothing.

    MetadataClientError
    ├── AuthorityError              the file with the authority cannot be read or used
    ├── StrangerError               the replicas do not accept the caller
    ├── MetadataUnreachableError    nobody has answered a question in time
    ├── CommandNotTakenError        nobody has taken the command in time: it is not applied
    └── OutcomeUnknownError         the command may or may not be applied
        └── SessionEndedError       and the replicas have forgotten the session

``code`` is the status that a client is answered with; ``retryable`` says whether the same may succeed later.
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


class StrangerError(MetadataClientError):
    """The replicas do not accept the caller: its secret or the name of its cluster is another one."""


class MetadataUnreachableError(MetadataClientError):
    """No replica has answered a question in time."""

    code = Status.DISCONNECTED
    retryable = True


class CommandNotTakenError(MetadataClientError):
    """No replica has taken the command in time. It is not applied, and will not be."""

    code = Status.DISCONNECTED
    retryable = True


class OutcomeUnknownError(MetadataClientError):
    """The command may or may not be applied, and no replica has said in time."""

    code = Status.DISCONNECTED


class SessionEndedError(OutcomeUnknownError):
    """The command may or may not be applied, and the replicas have forgotten the session that would tell."""
