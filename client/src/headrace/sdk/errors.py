"""The exceptions of the SDK: one small tree, each with `code` and `retryable`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar

from headrace_core import SessionError

Arguments = ParamSpec("Arguments")
Value = TypeVar("Value")


class HeadraceError(Exception):
    """Base of all exceptions of the SDK.

    Examples:
        >>> try:
        ...     client.delete_topic("shop", "missing")
        ... except HeadraceError as error:
        ...     type(error).__name__, error.code, error.retryable
        ('NotFound', 2010, False)
    """

    code: int | None = None
    """Status of the server's answer, if it answered (`headrace_proto.errors.Status`)."""
    retryable: bool = False
    """True if the same call may succeed later, and has certainly had no effect yet."""

    def __init__(self, text: str, *, code: int | None = None, retryable: bool | None = None) -> None:
        super().__init__(text)
        self.code = code
        if retryable is not None:
            self.retryable = retryable

    def as_dict(self) -> dict[str, str | int | bool | None]:
        """Return kind, text, `code` and `retryable`, for JSON and for structured logs.

        Examples:
            >>> import json
            >>> json.dumps(InvalidArgument("count: it is negative").as_dict())
            '{"type": "InvalidArgument", "message": "count: it is negative", "code": null, "retryable": false}'
        """
        return {"type": type(self).__name__, "message": str(self), "code": self.code, "retryable": self.retryable}


class RequestRefused(HeadraceError):
    """The server refused the request; it had no effect."""


class NotFound(RequestRefused):
    """A stream, topic, partition, group, user or token does not exist."""


class AlreadyExists(RequestRefused):
    """The name is taken."""


class PermissionDenied(RequestRefused):
    """The user lacks the permission."""


class LoginRefused(HeadraceError):
    """Username, password, token or ticket are not accepted."""


class ConnectionFailed(HeadraceError):
    """No server could be reached, or the connection broke before the request was sent. It had no effect."""

    retryable = True


class DeadlineExceeded(HeadraceError, TimeoutError):
    """The time of the call has passed before the request was sent, and it had no effect.

    Also the time of a wait for something that goes on; `retryable` is false then.
    """

    retryable = True


class OutcomeUnknown(HeadraceError):
    """The connection broke, or the time of the call passed, before the answer: the request may have had its effect.

    It may also have it later, if it is on its way to a server that hangs.
    """


class NotDelivered(HeadraceError):
    """A message was not stored: it could not be sent in time, or only out of order."""

    retryable = True


class BufferFull(HeadraceError):
    """The producer's buffer is full, and the call was not to wait."""

    retryable = True


class ClientClosed(HeadraceError):
    """The client, producer or consumer is closed."""


class InvalidArgument(HeadraceError, ValueError):
    """A value cannot be sent: the text says which one and what is allowed."""


_PERMISSION: Final = 41
_LOGIN: Final = frozenset({40, 42, 47, 53, 54, 20000})
_BY_KIND: Final = {
    "not_sent": ConnectionFailed,
    "unreachable": ConnectionFailed,
    "late": DeadlineExceeded,
    "uncertain": OutcomeUnknown,
    "malformed": OutcomeUnknown,
    "login_refused": LoginRefused,
    "undelivered": NotDelivered,
    "overtaken": NotDelivered,
    "buffer_full": BufferFull,
    "closed": ClientClosed,
    "invalid": InvalidArgument,
}


def translated(error: SessionError) -> HeadraceError:
    """Return the exception of the tree for a failure of the native module."""
    text, code = str(error), error.code
    if error.kind != "refused":
        return _BY_KIND[error.kind](text, code=code)
    name = error.name or ""
    if code == _PERMISSION:
        kind: type[HeadraceError] = PermissionDenied
    elif code in _LOGIN:
        kind = LoginRefused
    elif name.endswith("NotFound"):
        kind = NotFound
    elif name.endswith("AlreadyExists"):
        kind = AlreadyExists
    else:
        kind = RequestRefused
    return kind(text, code=code, retryable=_is_retryable(code))


def _is_retryable(code: int | None) -> bool:
    from headrace_proto.errors import find  # noqa: PLC0415 - needed for failures only

    found = find(code or 0)
    return found is not None and found.retryable


def native(call: Callable[Arguments, Value], *args: Arguments.args, **kwargs: Arguments.kwargs) -> Value:
    """Call the native module.

    Raises:
        HeadraceError: In place of the native module's own failure.
    """
    try:
        return call(*args, **kwargs)
    except SessionError as error:
        raise translated(error) from None
