"""Classes of failures: which are tried again, and which need a correction.

Failures of the SDK and of plugins have one of four classes. docs/connectors-delivery.md has the same table.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from headrace.sdk.errors import (
    BufferFull,
    ClientClosed,
    ConnectionFailed,
    DeadlineExceeded,
    HeadraceError,
    InvalidArgument,
    LoginRefused,
    NotDelivered,
    NotFound,
    OutcomeUnknown,
    PermissionDenied,
)
from headrace_connectors.contract import ConnectorError, InvalidRecord, Unavailable


class FailureClass(StrEnum):
    """Class of a failure: who is affected, and for how long."""

    TRANSIENT = "transient"
    """The next attempt may succeed: tried again with growing pauses."""
    RECORD = "record"
    """One record is the reason, now and later: it is invalid. It holds up its source, or is dropped or put aside."""
    DESTINATION = "destination"
    """One topic is refused until something is corrected: its circuit breaker opens, and the connector is degraded."""
    CONNECTOR = "connector"
    """The connector cannot go on: it ends with the state `error`."""


class Refused(ConnectorError):
    """Records are not admitted, and may not be dropped."""

    code = "not_admitted"


class Undelivered(Unavailable):
    """Records of at least one destination were not stored."""

    code = "undelivered"


class RefusedByServer(Undelivered):
    """The server refuses records until something is corrected. They are tried again, and the status says so."""

    code = "refused_by_server"


class LoginFailed(ConnectorError):
    """The server does not accept the login of the connectors."""

    code = "login_refused"


_TRANSIENT: Final = (
    ConnectionFailed,
    DeadlineExceeded,
    OutcomeUnknown,
    NotDelivered,
    BufferFull,
    ClientClosed,
    # A topic that was deleted is created anew, or another party is to create it.
    NotFound,
)
# Failures that hit every destination at once, or a record alone: they say nothing about the destination.
_NOT_OF_DESTINATION: Final = (ConnectionFailed, ClientClosed, LoginRefused, OutcomeUnknown, InvalidArgument)


def class_of(error: BaseException) -> FailureClass:
    """Return the class of a failure of the SDK, of the runtime, or of a plugin."""
    match error:
        case RefusedByServer() | Refused():
            return FailureClass.DESTINATION
        case Unavailable():
            return FailureClass.TRANSIENT
        case InvalidRecord() | InvalidArgument():
            return FailureClass.RECORD
        case HeadraceError() if error.retryable or isinstance(error, _TRANSIENT):
            return FailureClass.TRANSIENT
        case LoginRefused():
            return FailureClass.CONNECTOR
        case HeadraceError():
            return FailureClass.DESTINATION
        case _:
            return FailureClass.CONNECTOR


def is_of_destination(error: HeadraceError) -> bool:
    """Return True if a failure counts for the circuit breaker of its destination."""
    return not isinstance(error, _NOT_OF_DESTINATION)


def holds_up(error: BaseException) -> bool:
    """Return True if a source that keeps its records waits for a correction: of a record, a routing, or a right."""
    return isinstance(error, ConnectorError) and class_of(error) in (FailureClass.RECORD, FailureClass.DESTINATION)


def is_lasting(error: BaseException) -> bool:
    """Return True if attempts fail until something is corrected, so that the connector is degraded at once."""
    return isinstance(error, ConnectorError) and class_of(error) is not FailureClass.TRANSIENT


def translated(error: HeadraceError, doing: str) -> ConnectorError:
    """Return the failure of a connector for one of the SDK.

    Args:
        error: The failure.
        doing: The place or the work, for its text, such as `shop/orders`.
    """
    match class_of(error):
        case FailureClass.TRANSIENT:
            return Undelivered(f"{doing}: {error}")
        case FailureClass.CONNECTOR:
            return LoginFailed(f"{doing}: {error}; correct username and password, or token, of [server]")
    return RefusedByServer(f"{doing}: {error}; {_advice(error)}")


def _advice(error: HeadraceError) -> str:
    if isinstance(error, PermissionDenied):
        return "permit it to the user that [server] names"
    if isinstance(error, InvalidArgument):
        return "correct the record where it comes from, or add a transform that does"
    return "correct what the server refuses; it is tried again from time to time"
