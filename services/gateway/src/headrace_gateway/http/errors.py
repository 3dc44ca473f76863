"""How requests are refused: one exception for each reason, and the answers that are made of them.

A client that accepts ``application/problem+json`` is told in that form, with the status that fits best. Others are
told in the form of the interface's first release, which existing clients know.
"""

from __future__ import annotations

import math
from typing import Final

import msgspec
from aiohttp import web

from headrace_proto.errors import Status, find
from headrace_shards.refusals import Kind, kind_of

PROBLEM_TYPE: Final = "application/problem+json"

# What is not here is 400.
_COMPATIBLE: Final = {
    Kind.UNAUTHENTICATED: 401,
    Kind.FORBIDDEN: 403,
    Kind.NOT_FOUND: 404,
    Kind.UNAVAILABLE: 503,
    Kind.FAILED: 500,
}
# Of logins, which existing clients expect to be bad requests.
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
    400: "The request is refused",
    401: "Nobody is logged in",
    403: "This user may not do that",
    404: "There is no such thing",
    405: "The method is not defined here",
    409: "The state of the server is in the way",
    413: "The request is too large",
    415: "The body is not of a type that is taken here",
    422: "The body is not of the form that is taken here",
    429: "Too many requests",
    500: "The server has failed",
    503: "The server cannot do that now",
}


class ErrorBody(msgspec.Struct, kw_only=True):
    """A refusal."""

    id: int
    """The stable code, the same as in the binary protocol."""
    code: str
    """Its name."""
    reason: str
    """For people."""
    field: str | None
    """What it is about, if that is known."""


class Problem(msgspec.Struct, kw_only=True):
    """A refusal in the form of RFC 9457."""

    type: str
    title: str
    status: int
    detail: str
    code: int | None = None
    """The stable code, the same as in the binary protocol; null where the request did not get that far."""
    name: str | None = None
    """Its name."""
    field: str | None = None
    """What it is about, if that is known."""
    request_id: str
    """Also in the server's log."""


class Refused(Exception):
    """A request that was understood and is refused with a code of the binary protocol."""

    def __init__(self, status: int, reason: str | None = None, *, field: str | None = None) -> None:
        super().__init__(status, reason)
        self.status = status
        self.reason = reason
        self.field = field


class Missing(Exception):
    """What was asked for does not exist."""


class Rejected(Exception):
    """A request that is not understood: the answer is a plain text."""

    def __init__(self, http_status: int, text: str) -> None:
        super().__init__(text)
        self.http_status = http_status
        self.text = text


class Limited(Exception):
    """A request of a caller who asks for too much."""

    def __init__(self, retry_after_seconds: float, *, status: int | None = None) -> None:
        super().__init__(retry_after_seconds, status)
        self.retry_after_seconds = retry_after_seconds
        self.status = status


def code_name(status: int) -> str:
    """The name of a code as the interface writes it: ``stream_id_not_found``."""
    return Status(status).name.lower() if find(status) is not None else "error"


def compatible_http_status(status: int) -> int:
    """The status that existing clients expect for a code."""
    return 400 if status in _REFUSED_LOGINS else _COMPATIBLE.get(kind_of(status), 400)


def precise_http_status(status: int) -> int:
    """The status that says most about a code."""
    return _PRECISE[kind_of(status)]


def answer_of(error: Exception, *, as_problem: bool, request_id: str) -> web.Response:
    """The answer to a request that ended with one of these exceptions, or with any other."""
    match error:
        case Refused():
            response = _refused(error, as_problem=as_problem, request_id=request_id)
        case Missing() if as_problem:
            response = _problem(404, "Resource not found", request_id)
        case Missing():
            response = _body(404, ErrorBody(id=404, code="not_found", reason="Resource not found", field=None))
        case Rejected():
            response = _plain(error.http_status, error.text, as_problem=as_problem, request_id=request_id)
        case Limited():
            if error.status is not None:
                refused = Refused(error.status)
                response = _refused(refused, as_problem=as_problem, request_id=request_id, http_status=429)
            else:
                response = _plain(429, "Too many requests.", as_problem=as_problem, request_id=request_id)
            response.headers["Retry-After"] = str(max(1, math.ceil(error.retry_after_seconds)))
        case web.HTTPException():
            # Of unknown paths and methods, with headers that tell more.
            text = _TITLES.get(error.status, error.reason)
            response = _plain(error.status, text if as_problem else "", as_problem=as_problem, request_id=request_id)
            if "Allow" in error.headers:
                response.headers["Allow"] = error.headers["Allow"]
        case _:
            response = _refused(Refused(Status.ERROR), as_problem=as_problem, request_id=request_id, http_status=500)
    if response.status == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    return response


def error_body(error: Refused) -> ErrorBody:
    """What a refusal says."""
    info = find(error.status)
    reason = error.reason or (info.description if info is not None else f"status {error.status}")
    field = error.field or _FIELDS.get(Status(error.status) if info is not None else Status.ERROR)
    return ErrorBody(id=error.status, code=code_name(error.status), reason=reason, field=field)


def _refused(error: Refused, *, as_problem: bool, request_id: str, http_status: int | None = None) -> web.Response:
    body = error_body(error)
    if as_problem:
        precise = http_status or precise_http_status(error.status)
        return _problem(precise, body.reason, request_id, code=error.status, field=body.field)
    return _body(http_status or compatible_http_status(error.status), body)


def _plain(http_status: int, text: str, *, as_problem: bool, request_id: str) -> web.Response:
    if as_problem:
        return _problem(http_status, text, request_id)
    return web.Response(status=http_status, text=text)


def _problem(
    http_status: int, detail: str, request_id: str, *, code: int | None = None, field: str | None = None
) -> web.Response:
    problem = Problem(
        type="about:blank",
        title=_TITLES.get(http_status, "The request failed"),
        status=http_status,
        detail=detail,
        code=code,
        name=code_name(code) if code is not None else None,
        field=field,
        request_id=request_id,
    )
    return web.Response(status=http_status, body=msgspec.json.encode(problem), content_type=PROBLEM_TYPE)


def _body(http_status: int, body: ErrorBody) -> web.Response:
    return web.Response(status=http_status, body=msgspec.json.encode(body), content_type="application/json")
