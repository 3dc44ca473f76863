"""Refused requests: one exception for each reason, and the answers made of them.

Every refusal is a problem document (RFC 9457). A client that accepts ``application/problem+json`` gets the most precise
status. Other clients get the statuses that existing clients expect, and the members that these read in the same
document: ``id``, ``code``, ``reason`` and ``field``.
"""

from __future__ import annotations

import math
from typing import Final

import msgspec
from aiohttp import web

from headrace_chassis.refusals import Kind, kind_of
from headrace_proto.errors import Status, find

PROBLEM_TYPE: Final = "application/problem+json"

# Any other code is answered with 400.
_COMPATIBLE: Final = {
    Kind.UNAUTHENTICATED: 401,
    Kind.FORBIDDEN: 403,
    Kind.NOT_FOUND: 404,
    Kind.UNAVAILABLE: 503,
    Kind.FAILED: 500,
}
# Codes of refused logins, which existing clients expect as 400.
_REFUSED_LOGINS: Final = frozenset(
    {Status.INVALID_CREDENTIALS, Status.PERSONAL_ACCESS_TOKEN_EXPIRED, Status.USER_INACTIVE}
)
_PRECISE: Final = {
    Kind.UNAUTHENTICATED: 401,
    Kind.FORBIDDEN: 403,
    Kind.NOT_FOUND: 404,
    Kind.EXISTS: 409,
    Kind.EXHAUSTED: 409,
    Kind.UNAVAILABLE: 503,
    Kind.FAILED: 500,
    Kind.INVALID: 400,
}
_FIELDS: Final = {
    Status.STREAM_ID_NOT_FOUND: "stream_id",
    Status.INVALID_STREAM_ID: "stream_id",
    Status.TOPIC_ID_NOT_FOUND: "topic_id",
    Status.INVALID_TOPIC_ID: "topic_id",
    Status.PARTITION_NOT_FOUND: "partition_id",
    Status.SEGMENT_NOT_FOUND: "segment_id",
    Status.CLIENT_NOT_FOUND: "client_id",
    Status.STREAM_NAME_ALREADY_EXISTS: "name",
    Status.INVALID_STREAM_NAME: "name",
    Status.TOPIC_NAME_ALREADY_EXISTS: "name",
    Status.INVALID_TOPIC_NAME: "name",
    Status.CONSUMER_GROUP_NAME_ALREADY_EXISTS: "name",
    Status.PERSONAL_ACCESS_TOKEN_ALREADY_EXISTS: "name",
    Status.INVALID_OFFSET: "offset",
    Status.INVALID_CONSUMER_GROUP_ID: "consumer_group_id",
    Status.USER_ALREADY_EXISTS: "username",
}
_TITLES: Final = {
    400: "The request was refused",
    408: "The request took too long",
    401: "Not logged in",
    403: "The user lacks the permission",
    404: "The resource does not exist",
    405: "The method is not defined here",
    409: "The state of the server does not permit the request",
    412: "The state is not the one that the request is meant for",
    413: "The request is too large",
    415: "The type of the body is not supported",
    421: "The host name of the request is not allowed",
    422: "The body does not have the expected form",
    429: "Too many requests",
    500: "The server failed",
    502: "Another process does not answer",
    503: "The server cannot do that now",
}


# Names of refusals without a code of the binary protocol: names of their HTTP status.
_NAMES: Final = {
    400: "bad_request",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    408: "request_timeout",
    412: "precondition_failed",
    413: "content_too_large",
    415: "unsupported_media_type",
    417: "expectation_failed",
    421: "misdirected_request",
    422: "unprocessable_content",
    429: "too_many_requests",
    502: "bad_gateway",
    503: "service_unavailable",
}


class ErrorBody(msgspec.Struct, kw_only=True):
    """A refusal in the form of RFC 9457, with the members that clients of the API's first release read."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    request_id: str
    """Request id, also in the server's log."""
    id: int
    """Stable code, the same as in the binary protocol; the HTTP status if the request was refused before that."""
    code: str
    """Name of the code."""
    reason: str
    """The same as `detail`."""
    field: str | None
    """Field that caused the refusal, if known."""


class ErrorEvent(msgspec.Struct, kw_only=True):
    """A refusal in an event stream."""

    id: int
    code: str
    reason: str
    field: str | None


class Problem(msgspec.Struct, kw_only=True):
    """A refusal in the form of RFC 9457."""

    type: str
    title: str
    status: int
    detail: str
    code: int | None = None
    """Stable code, the same as in the binary protocol; null if the request was refused before that."""
    name: str | None = None
    """Name of the code."""
    field: str | None = None
    """Field that caused the refusal, if known."""
    request_id: str
    """Request id, also in the server's log."""


class Refused(Exception):
    """A valid request that is refused with a code of the binary protocol."""

    def __init__(self, status: int, reason: str | None = None, *, field: str | None = None) -> None:
        super().__init__(status, reason)
        self.status = status
        self.reason = reason
        self.field = field


class Missing(Exception):
    """The requested object does not exist."""


class Rejected(Exception):
    """An invalid request, for which the binary protocol has no code."""

    def __init__(self, http_status: int, text: str) -> None:
        super().__init__(text)
        self.http_status = http_status
        self.text = text


class Limited(Exception):
    """A request beyond a limit of its caller."""

    def __init__(self, retry_after_seconds: float, *, status: int | None = None) -> None:
        super().__init__(retry_after_seconds, status)
        self.retry_after_seconds = retry_after_seconds
        self.status = status


def code_name(status: int) -> str:
    """Return the name of a code in the notation of the API: ``stream_id_not_found``."""
    return Status(status).name.lower() if find(status) is not None else "error"


def compatible_http_status(status: int) -> int:
    """Return the HTTP status that existing clients expect for a code."""
    return 400 if status in _REFUSED_LOGINS else _COMPATIBLE.get(kind_of(status), 400)


def precise_http_status(status: int) -> int:
    """Return the most precise HTTP status for a code."""
    return _PRECISE[kind_of(status)]


def answer_of(error: Exception, *, as_problem: bool, request_id: str) -> web.Response:
    """Return the answer to a request that ended with one of these exceptions, or with any other."""
    form = _Form(as_problem=as_problem, request_id=request_id)
    match error:
        case Refused():
            response = form.refused(error)
        case Missing():
            response = form.rejected(404, "Resource not found")
        case Rejected():
            response = form.rejected(error.http_status, error.text)
        case Limited():
            if error.status is not None:
                response = form.refused(Refused(error.status), http_status=429)
            else:
                response = form.rejected(429, "Too many requests.")
            response.headers["Retry-After"] = str(max(1, math.ceil(error.retry_after_seconds)))
        case web.HTTPException():
            # Unknown paths and methods; the exception carries additional headers.
            response = form.rejected(error.status, _TITLES.get(error.status, error.reason))
            if "Allow" in error.headers:
                response.headers["Allow"] = error.headers["Allow"]
        case _:
            response = form.refused(Refused(Status.ERROR), http_status=500)
    if response.status == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    return response


def reason_of(error: Refused) -> str:
    """Return the message of a refusal."""
    info = find(error.status)
    return error.reason or (info.description if info is not None else f"status {error.status}")


def event_of(error: Refused) -> ErrorEvent:
    """Return a refusal as an event of an event stream."""
    return ErrorEvent(id=error.status, code=code_name(error.status), reason=reason_of(error), field=_field_of(error))


def _field_of(error: Refused) -> str | None:
    return error.field or _FIELDS.get(Status(error.status) if find(error.status) is not None else Status.ERROR)


class _Form:
    """Error format requested by the caller."""

    def __init__(self, *, as_problem: bool, request_id: str) -> None:
        self._as_problem = as_problem
        self._request_id = request_id

    def refused(self, error: Refused, *, http_status: int | None = None) -> web.Response:
        """Return an answer with a code of the binary protocol."""
        name, reason, field = code_name(error.status), reason_of(error), _field_of(error)
        if self._as_problem:
            precise = http_status or precise_http_status(error.status)
            return self._problem(precise, reason, code=error.status, name=name, field=field)
        compatible = http_status or compatible_http_status(error.status)
        return self._compatible(compatible, reason, code=error.status, name=name, field=field)

    def rejected(self, http_status: int, reason: str) -> web.Response:
        """Return an answer without a code."""
        if self._as_problem:
            return self._problem(http_status, reason)
        return self._compatible(http_status, reason, code=http_status, name=_NAMES.get(http_status, "error"))

    def _problem(
        self,
        http_status: int,
        detail: str,
        *,
        code: int | None = None,
        name: str | None = None,
        field: str | None = None,
    ) -> web.Response:
        problem = Problem(
            type="about:blank",
            title=_title_of(http_status),
            status=http_status,
            detail=detail,
            code=code,
            name=name,
            field=field,
            request_id=self._request_id,
        )
        return web.Response(status=http_status, body=msgspec.json.encode(problem), content_type=PROBLEM_TYPE)

    def _compatible(
        self, http_status: int, reason: str, *, code: int, name: str, field: str | None = None
    ) -> web.Response:
        body = ErrorBody(
            title=_title_of(http_status),
            status=http_status,
            detail=reason,
            request_id=self._request_id,
            id=code,
            code=name,
            reason=reason,
            field=field,
        )
        return web.Response(status=http_status, body=msgspec.json.encode(body), content_type=PROBLEM_TYPE)


def _title_of(http_status: int) -> str:
    return _TITLES.get(http_status, "The request failed")
