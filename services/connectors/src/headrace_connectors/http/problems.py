"""Refusals as problem documents (RFC 9457), and the checks of every request."""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Awaitable, Callable
from typing import Any, Final

from aiohttp import web

from headrace_connectors.contract import ConnectorError
from headrace_connectors.guesses import TOO_MANY_GUESSES, Guesses
from headrace_connectors.pipeline_file.models import HttpSettings
from headrace_proto.cluster_token import is_one_of
from headrace_settings import Problem, SettingsError

_OPEN: Final = ("/live", "/health", "/openapi.json")
_METRICS: Final = "/metrics"
_STATUSES: Final = {
    "not_found": 404,
    "not_changeable": 403,
    "changed_meanwhile": 412,
    "too_large": 413,
    "not_stored": 503,
    "unavailable": 503,
}
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def authentication(settings: HttpSettings) -> Any:
    """Return a middleware that requires the token; without one, that programs of this machine call, and no web page."""
    known = () if settings.token is None else (f"Bearer {settings.token.reveal()}",)
    guesses = Guesses()
    of_metrics = () if settings.metrics_token is None else (f"Bearer {settings.metrics_token.reveal()}",)

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path in _OPEN:
            return await handler(request)
        given = request.headers.get("Authorization", "")
        is_right = is_one_of(given, known)
        if known and request.path == _METRICS and not is_right and is_one_of(given, of_metrics):
            # Holders of this token may guess at the other one: it is neither counted nor known.
            return await handler(request)
        if known:
            seconds = guesses.refused_for_seconds(request.remote, is_given=bool(given), is_right=is_right)
            if seconds > 0:
                refusal = problem(429, "too_many_guesses", TOO_MANY_GUESSES)
                refusal.headers["Retry-After"] = str(math.ceil(seconds))
                return refusal
        if known and not is_right:
            return problem(401, "unauthorized", "the header Authorization has not the token of `http.token`")
        if not known and ("Origin" in request.headers or not _is_local(request.host)):
            # A page that a browser shows could call it otherwise, by a form or a name that resolves to loopback.
            return problem(
                403, "foreign_page", "without `http.token`, web pages and host names cannot call: set a token"
            )
        return await handler(request)

    return check


def _is_local(host: str) -> bool:
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() and not host.endswith("]") else host
    if name == "localhost":
        return True
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


@web.middleware
async def problems(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer refusals as problem documents."""
    try:
        return await handler(request)
    except ConnectorError as error:
        return problem(_STATUSES.get(error.code, 409), error.code, str(error))
    except SettingsError as error:
        return invalid(error)
    except web.HTTPException as error:
        refusal = problem(error.status, "http", error.text or error.reason)
        if "Allow" in error.headers:
            refusal.headers["Allow"] = error.headers["Allow"]
        return refusal


def problem(status: int, code: str, detail: str, **more: Any) -> web.Response:
    """Return a problem document."""
    body = {"status": status, "code": code, "detail": detail, **more}
    return web.json_response(body, status=status, content_type="application/problem+json")


def invalid(error: SettingsError) -> web.Response:
    """Return a problem document with each mistake of a configuration: its setting, and what to write instead."""
    found = [
        {"setting": one.setting, "message": one.message, "allowed": one.allowed, "nearest": one.nearest}
        for one in error.problems
    ]
    text = "; ".join(map(_text, error.problems))
    return problem(422, "invalid_configuration", f"nothing was changed: {text}", problems=found)


def _text(problem: Problem) -> str:
    nearest = f" (did you mean {problem.nearest}?)" if problem.nearest else ""
    allowed = f" (allowed: {problem.allowed})" if problem.allowed else ""
    return f"{problem.setting}: {problem.message}{nearest}{allowed}"
