"""Cross-origin requests (CORS): answers to preflight requests, and headers of the actual answers."""

from __future__ import annotations

from collections.abc import Sequence

from aiohttp import hdrs, web

from headrace_gateway.http.config import CorsConfig


class Cors:
    """CORS policy."""

    def __init__(self, config: CorsConfig) -> None:
        self._config = config
        self._origins = _listed(config.allowed_origins)
        self._methods = _header(config.allowed_methods)
        self._headers = _header(config.allowed_headers)
        self._exposed = _header(config.exposed_headers)

    def preflight(self, request: web.Request) -> web.Response | None:
        """Return the answer to a preflight request; None for any other request."""
        if (
            not self._config.enabled
            or request.method != hdrs.METH_OPTIONS
            or hdrs.ORIGIN not in request.headers
            or hdrs.ACCESS_CONTROL_REQUEST_METHOD not in request.headers
        ):
            return None
        response = web.Response(status=204)
        if self._methods:
            response.headers[hdrs.ACCESS_CONTROL_ALLOW_METHODS] = self._methods
        if self._headers:
            response.headers[hdrs.ACCESS_CONTROL_ALLOW_HEADERS] = self._headers
        if self._config.allow_private_network and "Access-Control-Request-Private-Network" in request.headers:
            response.headers["Access-Control-Allow-Private-Network"] = "true"
        return response

    def mark(self, request: web.Request, response: web.StreamResponse) -> None:
        """Add the headers by which the browser decides whether the page may read the answer."""
        if not self._config.enabled:
            return
        if self._origins is None:
            response.headers[hdrs.ACCESS_CONTROL_ALLOW_ORIGIN] = "*"
        else:
            response.headers.add(hdrs.VARY, hdrs.ORIGIN)
            origin = request.headers.get(hdrs.ORIGIN)
            if origin not in self._origins:
                return
            response.headers[hdrs.ACCESS_CONTROL_ALLOW_ORIGIN] = origin
        if self._config.allow_credentials:
            response.headers[hdrs.ACCESS_CONTROL_ALLOW_CREDENTIALS] = "true"
        if self._exposed:
            response.headers[hdrs.ACCESS_CONTROL_EXPOSE_HEADERS] = self._exposed


def _listed(names: Sequence[str]) -> frozenset[str] | None:
    """Return the names; None if any is allowed."""
    return None if names[:1] == ("*",) else frozenset(name for name in names if name)


def _header(names: Sequence[str]) -> str:
    listed = _listed(names)
    return "*" if listed is None else ", ".join(name for name in names if name)
