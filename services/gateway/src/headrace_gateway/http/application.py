"""Processing of a request before and after its handler, common to all routes."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Awaitable, Callable, Hashable
from functools import cached_property
from typing import Any, Final

import msgspec
from aiohttp import HttpVersion11, hdrs, web
from aiohttp.http_exceptions import HttpProcessingError

import headrace_core as core
from headrace_chassis.correlation import REQUEST_ID, request_id_of
from headrace_chassis.places import place_of
from headrace_chassis.starts import Starts
from headrace_core import CodecError
from headrace_gateway.access.proxies import HEADER
from headrace_gateway.access.tokens import Bearer, EndedToken, InvalidToken
from headrace_gateway.http.admission.cors import Cors
from headrace_gateway.http.admission.hosts import Hosts
from headrace_gateway.http.admission.rate_limits import RateLimits
from headrace_gateway.http.answers import PIECE_BYTES, send
from headrace_gateway.http.bodies import reader_of
from headrace_gateway.http.call import SOURCE, Call, HttpServices, refusal_of
from headrace_gateway.http.description import openapi
from headrace_gateway.http.description.page import page_of
from headrace_gateway.http.handlers import ROUTES
from headrace_gateway.http.handlers.sessions import LOGOUT
from headrace_gateway.http.models.system import MetricsQuery
from headrace_gateway.http.routes import JSON, NOTHING, Nothing, Raw, Route, Routes
from headrace_gateway.http.sessions.waits import VERIFY, WaitEnded
from headrace_gateway.json_api.errors import PROBLEM_TYPE, Limited, Missing, Refused, Rejected, answer_of
from headrace_gateway.json_api.memory import BUDGET, Budget, Exhausted, Held
from headrace_gateway.ports import NoAnswer
from headrace_gateway.push import server as push_server
from headrace_gateway.push.connections.upgrade import Upgraded
from headrace_gateway.push.server import Push
from headrace_node.connections.caller import CALLER, Caller
from headrace_node.connections.sessions import SessionLost
from headrace_proto.errors import Status

_log = logging.getLogger(__name__)
_access_log = logging.getLogger("headrace_gateway.http.access")

Next = Callable[[web.Request], Awaitable[web.StreamResponse]]

_UNKNOWN: Final = "unknown"
_REQUEST_ID: Final = web.RequestKey("request_id", str)
_BEARER: Final = web.RequestKey("bearer", Bearer)
_HELD: Final = web.RequestKey("held", Held)
_BODY_BYTES: Final = web.RequestKey("body_bytes", int)
_SUPERVISED: Final = web.RequestKey("supervised", bool)
# The library and its version are not disclosed.
_ALWAYS: Final = {"X-Content-Type-Options": "nosniff", "Server": "headrace"}


class Application:
    """The routes and their common processing.

    Attributes:
        on_request: Called with each request as soon as its head was received.
        on_login: Called with each request of a user, and the user; also with a WebSocket, and its address, which has
            limits of its own.
        memory: Memory budget of all requests.
    """

    def __init__(self, services: HttpServices, push: Push | None = None) -> None:
        self._services = services
        self._push = push
        self._metrics_path = services.config.metrics.endpoint if services.config.metrics.enabled else None
        self.on_request: Callable[[web.Request], None] = _nothing
        self.on_login: Callable[[web.Request, Hashable], None] = _nothing
        self.memory = Budget(max(services.config.max_bodies_size.bytes, services.config.max_request_size.bytes))
        self._cors = Cors(services.config.cors)
        is_loopback = services.config.address.ip.is_loopback
        self._hosts = Hosts(tuple(map(str.lower, services.config.allowed_hosts)), is_loopback=is_loopback)
        limits = services.config.rate_limit
        self._rate_limits = RateLimits(per_second=limits.requests_per_second, burst=limits.burst, now=time.monotonic)
        self._starts = Starts()
        self.routes = [*ROUTES, *self._own_routes()]
        # A literal path takes precedence over a matching path with parameters.
        self._methods: dict[str, set[str]] = {}
        for route in self.routes:
            if not route.path_names:
                self._methods.setdefault(route.path, set()).add(route.method)
        for path in services.console.paths:
            self._methods[path] = {hdrs.METH_GET}
        # A push connection authenticates later.
        self._public = {
            push_server.PATH,
            *(route.path for route in self.routes if route.is_public),
            *services.console.paths,
        }

    @cached_property
    def document(self) -> dict[str, Any]:
        """Return the OpenAPI description. Created on first use because it would double the startup time."""
        return openapi.document(self.routes)

    @cached_property
    def _document_json(self) -> bytes:
        return msgspec.json.encode(self.document)

    @cached_property
    def _page(self) -> str:
        return page_of(self.document)

    def build(self) -> web.Application:
        """Return the application for a runner."""

        @web.middleware
        async def front(request: web.Request, handler: Next) -> web.StreamResponse:
            return await self._front(request, handler)

        size_max = self._services.config.max_request_size.bytes
        application = web.Application(middlewares=[front], client_max_size=size_max)
        for route in self.routes:
            application.router.add_route(route.method, route.path, self._served(route), expect_handler=_expected)
        for path in self._services.console.paths:
            application.router.add_route(hdrs.METH_GET, path, self._services.console.serve)
        if self._push is not None:
            application.router.add_route("GET", push_server.PATH, self._upgraded(self._push))
        return application

    def _upgraded(self, push: Push) -> Next:
        async def serve(request: web.Request) -> web.StreamResponse:
            upgraded = await push.answer(request)
            self._prepare(request, upgraded)
            self.on_login(request, ("address", place_of(request[SOURCE])))
            given = BUDGET.set(self.memory)
            try:
                return await push.serve(request, upgraded, request[SOURCE])
            finally:
                BUDGET.reset(given)

        return serve

    def _own_routes(self) -> list[Route]:
        routes, config = Routes(), self._services.config.metrics
        if config.enabled:

            @routes.add(
                "GET",
                config.endpoint,
                tag="system",
                query=MetricsQuery,
                answer=Raw("text/plain", {"type": "string"}),
                errors=(403,),
                is_public=not config.login_required,
            )
            async def get_metrics(call: Call[MetricsQuery, Nothing]) -> web.Response:
                """Metrics for Prometheus.

                Metrics that name streams, topics and consumer groups require a token of a user who may read the server:
                a login token, or here also an access token. With `detail=partitions` also by partition.
                """
                if call.bearer is not None:
                    await call.ask(core.encode_get_clients())
                body, content_type = await self._services.metrics.text(
                    call.request.headers.get(hdrs.ACCEPT, ""),
                    with_names=call.bearer is not None or call.request.get(_SUPERVISED, False),
                    with_partitions=call.query.detail == "partitions",
                )
                return web.Response(body=body, headers={hdrs.CONTENT_TYPE: content_type})

        @routes.add("GET", "/openapi.json", tag="system", answer=Raw(JSON, {"type": "object"}), is_public=True)
        async def get_openapi(call: Call[Nothing, Nothing]) -> web.Response:  # noqa: ARG001 - the same for everybody
            """This description, for programs."""
            body = await asyncio.to_thread(lambda: self._document_json)
            return web.Response(body=body, content_type=JSON)

        @routes.add("GET", "/docs", tag="system", answer=Raw("text/html", {"type": "string"}), is_public=True)
        async def get_docs(call: Call[Nothing, Nothing]) -> web.Response:  # noqa: ARG001 - the same for everybody
            """This description, for people."""
            policy = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'"
            return web.Response(
                text=await asyncio.to_thread(lambda: self._page),
                content_type="text/html",
                charset="utf-8",
                headers={"Content-Security-Policy": policy},
            )

        return routes.all

    async def _front(self, request: web.Request, handler: Next) -> web.StreamResponse:
        forwarded = request.headers.getall(HEADER, ())
        request[SOURCE] = self._services.proxies.source_of(request.remote or "", forwarded)
        request[_REQUEST_ID] = request_id = request_id_of(request.headers.get("X-Request-Id", ""))
        marked = REQUEST_ID.set(request_id)
        caller = CALLER.set(_caller_of(request))
        try:
            return await self._observed(request, handler, request_id)
        finally:
            # The next request of the connection runs in the same task.
            REQUEST_ID.reset(marked)
            CALLER.reset(caller)

    async def _observed(self, request: web.Request, handler: Next, request_id: str) -> web.StreamResponse:
        tracing = self._services.tracing
        if tracing is None:
            return await self._answer(request, handler, request_id)
        carrier = {name.lower(): value for name, value in request.headers.items()}
        attributes = {
            "http.request.method": request.method,
            "http.route": _route_of(request),
            "headrace.request_id": request_id,
        }
        with tracing.request(f"{request.method} {_route_of(request)}", carrier, attributes) as span:
            response = await self._answer(request, handler, request_id)
            span.set_attribute("http.response.status_code", response.status)
        return response

    async def _answer(self, request: web.Request, handler: Next, request_id: str) -> web.StreamResponse:
        started = time.perf_counter()
        self.on_request(request)
        self._services.metrics.received()
        is_known = self._hosts.allow(request.headers.get(hdrs.HOST))
        response: web.StreamResponse | None = self._cors.preflight(request) if is_known else None
        try:
            if response is None:
                try:
                    if not is_known:
                        raise Rejected(421, "The host name of the request is not allowed; see http.allowed_hosts.")
                    await self._authenticate(request)
                    methods = self._methods.get(request.path)
                    if methods is not None and request.method not in methods:
                        raise web.HTTPMethodNotAllowed(request.method, methods)
                    response = await handler(request)
                    self._hold(request, response)
                except Exception as error:  # noqa: BLE001 - whatever it is, somebody waits for an answer
                    response = self._failed(request, error, request_id)
                    await self._record_refusal(request, error)
            if not response.prepared:
                self._prepare(request, response)
            self._note(request, response, request_id, time.perf_counter() - started)
            if not isinstance(response, Upgraded):
                await send(request, response)
        finally:
            if _HELD in request:
                request[_HELD].resize(0)
        return response

    def _hold(self, request: web.Request, response: web.StreamResponse) -> None:
        """Hold the answer, and no longer what it was made of, until the client has taken it.

        Raises:
            Exhausted: There is no memory; never after a change, whose outcome the client has to learn.
        """
        body = response.body if isinstance(response, web.Response) else None
        size_bytes = len(body) if isinstance(body, bytes) else 0
        if _HELD not in request:
            # The files of the console are in memory once, and only a piece is copied.
            request[_HELD] = self.memory.held_by(None)
            size_bytes = min(size_bytes, PIECE_BYTES)
        body_bytes = request.get(_BODY_BYTES, 0)
        request[_HELD].hold_answer(size_bytes, besides_bytes=body_bytes, is_due=request.method != hdrs.METH_GET)

    def _prepare(self, request: web.Request, response: web.StreamResponse) -> None:
        self._cors.mark(request, response)
        response.headers["X-Request-Id"] = request[_REQUEST_ID]
        response.headers.update(_ALWAYS)
        if hdrs.CACHE_CONTROL not in response.headers:
            response.headers[hdrs.CACHE_CONTROL] = "no-store"

    async def _authenticate(self, request: web.Request) -> None:
        address = place_of(request[SOURCE])
        authorization = request.headers.get(hdrs.AUTHORIZATION, "")
        is_metrics = request.path == self._metrics_path
        if is_metrics and self._services.supervision.may_read_metrics(authorization):
            request[_SUPERVISED] = True
            return
        if request.path in self._public and not (is_metrics and authorization):
            self._limit(("address", address))
            return
        scheme, _, token = authorization.partition(" ")
        try:
            if scheme.lower() != "bearer":
                raise InvalidToken("there is none")
            token = token.strip()
            if is_metrics and token.isascii() and "." not in token:
                token = await self._login_token_for(token, address)
            bearer = await self._services.tokens.identify(token)
        except InvalidToken as error:
            self._limit(("address", address))
            if isinstance(error, EndedToken) and (request.method, request.path) == LOGOUT:
                return
            raise Refused(Status.UNAUTHENTICATED) from error
        self._limit(("user", bearer.user_id))
        self.on_login(request, bearer.user_id)
        request[_BEARER] = bearer
        request[VERIFY] = self._verification(bearer)

    async def _login_token_for(self, access_token: str, address: str) -> str:
        """Return a login token for an access token: collectors of metrics cannot exchange one for the other.

        Raises:
            InvalidToken: There is no such access token, or its owner may not log in.
        """
        presented = await self._services.logins.presented(access_token, address)
        if presented.status != Status.OK or presented.token is None:
            raise InvalidToken("there is no such access token")
        return self._services.tokens.issue(presented.token.user_id, None, presented.token).text

    def _verification(self, bearer: Bearer) -> Callable[[], None]:
        def verify() -> None:
            if not self._services.tokens.is_good(bearer):
                raise InvalidToken("it is over")

        return verify

    def _limit(self, caller: tuple[str, str | int]) -> None:
        wait_seconds = self._rate_limits.take(caller)
        if wait_seconds > 0:
            raise Limited(wait_seconds)

    def _failed(self, request: web.Request, error: Exception, request_id: str) -> web.Response:
        match error:
            case CodecError():
                error = refusal_of(error)
            case InvalidToken():
                error = Refused(Status.UNAUTHENTICATED)
            case SessionLost() | WaitEnded() | NoAnswer():
                error = Refused(Status.DISCONNECTED)
            case Exhausted():
                error = Rejected(503, "Other requests and answers use the memory; see http.max_bodies_size.")
            case web.HTTPRequestEntityTooLarge():
                error = Rejected(413, "The body exceeds the limit of this server.")
            case web.RequestPayloadError() | HttpProcessingError() | ConnectionError():
                error = Rejected(400, "The body does not match its headers, or is truncated.")
            case web.HTTPException() | Refused() | Missing() | Rejected() | Limited():
                pass
            case _:
                # Log the raw path: a decoded path could contain line breaks and forge a log line.
                _log.error("request %s failed: %s %r", request_id, request.method, _path(request), exc_info=error)
        if isinstance(error, Refused):
            self._services.metrics.refused(error.status)
        as_problem = PROBLEM_TYPE in request.headers.get(hdrs.ACCEPT, "")
        return answer_of(error, as_problem=as_problem, request_id=request_id)

    async def _record_refusal(self, request: web.Request, error: Exception) -> None:
        audit = self._services.logins.audit
        if audit is not None and isinstance(error, Refused) and error.status == Status.UNAUTHORIZED:
            bearer = request.get(_BEARER)
            user_id = bearer.user_id if bearer is not None else None
            await audit.refused(f"{request.method} {_route_of(request)}", error.status, user_id=user_id)

    def _note(self, request: web.Request, response: web.StreamResponse, request_id: str, seconds: float) -> None:
        route = _route_of(request)
        method = request.method if route != _UNKNOWN else "any"
        self._services.metrics.answered(method, route, response.status, seconds)
        if self._services.config.access_log:
            bearer = request.get(_BEARER)
            _access_log.info(
                "%s %s %d",
                request.method,
                _shown(_path(request)),
                response.status,
                extra={
                    "request_id": request_id,
                    "address": request[SOURCE],
                    "user_id": bearer.user_id if bearer is not None else None,
                    "seconds": round(seconds, 6),
                },
            )

    def _served(self, route: Route) -> Next:
        read_body = reader_of(route)

        async def serve(request: web.Request) -> web.StreamResponse:
            _check_text(request)
            bearer = request.get(_BEARER)
            await self._starts.take(bearer.user_id if bearer is not None else place_of(request[SOURCE]))
            # Released when the answer was taken, by `_answer`.
            held = request[_HELD] = self.memory.held_by(bearer.user_id if bearer is not None else None)
            # Read the body first: a body that is too large is refused regardless of the query.
            body = await read_body(request, held)
            request[_BODY_BYTES] = held.size_bytes
            call: Call[Any, Any] = Call(
                services=self._services,
                request=request,
                bearer=bearer,
                prepare=lambda response: self._prepare(request, response),
                held=held,
                body=body,
                query=_query(route, request),
            )
            answer = await route.handler(call)
            response = answer if isinstance(answer, web.StreamResponse) else _response(route, answer)
            return _with_etag(request, response) if route.has_etag else response

        return serve


def early_refusal(error: Exception) -> web.Response:
    """Return the answer to a request that the library refuses before it reaches `Application`."""
    request_id = request_id_of("")
    response = answer_of(error, as_problem=False, request_id=request_id)
    response.headers["X-Request-Id"] = request_id
    response.headers.update(_ALWAYS)
    return response


async def _expected(request: web.Request) -> web.StreamResponse | None:
    """Handle the header `Expect`: answer 100-continue, refuse any other expectation."""
    if request.version != HttpVersion11:
        return None
    expected = request.headers.get(hdrs.EXPECT, "")
    if expected.lower() != "100-continue":
        return early_refusal(Rejected(417, f"The only supported expectation is 100-continue, not {expected[:64]!r}."))
    await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    # The head of the final answer has not been sent yet.
    request.writer.output_size = 0
    return None


def _route_of(request: web.Request) -> str:
    """Return the route pattern of the path, a label of low cardinality."""
    resource = request.match_info.route.resource
    return resource.canonical if resource is not None else _UNKNOWN


def _caller_of(request: web.Request) -> Caller:
    host = request[SOURCE]
    transport = "push" if request.path == push_server.PATH else "http"
    peer = request.transport.get_extra_info("peername") if request.transport is not None else None
    port = peer[1] if isinstance(peer, tuple) and peer[0] == host else 0
    return Caller.at(host, port, transport)


def _path(request: web.Request) -> str:
    """Return the raw path without the query."""
    return request.raw_path.partition("?")[0]


def _shown(path: str) -> str:
    """Return a path escaped for the log."""
    return path if path.isascii() and path.isprintable() else ascii(path)


def _nothing(request: web.Request, user: Hashable = None) -> None:
    """Ignore the request and its user."""


def _check_text(request: web.Request) -> None:
    """Refuse a URL with bytes that are not UTF-8, which are surrogates in its texts: nothing could encode these."""
    if _is_utf8(request.raw_path):
        return
    for field, text in (*request.match_info.items(), *request.query.items()):
        if _is_utf8(field) and not _is_utf8(text):
            raise Refused(Status.INVALID_IDENTIFIER, f"{field} is not UTF-8 text.", field=field)
    raise Rejected(400, "Invalid URL: it is not UTF-8 text.")


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _query(route: Route, request: web.Request) -> Any:
    if route.query is Nothing:
        return NOTHING
    try:
        return msgspec.convert(dict(request.query), route.query, strict=False)
    except msgspec.ValidationError as error:
        raise Rejected(400, f"Invalid URL: {error}.") from error


def _response(route: Route, answer: Any) -> web.Response:
    if answer is None:
        return web.Response(status=route.success)
    return web.Response(status=route.success, body=msgspec.json.encode(answer), content_type=JSON)


def _with_etag(request: web.Request, response: web.StreamResponse) -> web.StreamResponse:
    """Answer a conditional request for an unchanged answer with 304.

    The ETag is a hash of the content because counters change with every message.
    """
    if not isinstance(response, web.Response) or not isinstance(response.body, bytes) or response.status != 200:
        return response
    tag = hashlib.blake2b(response.body, digest_size=12).hexdigest()
    known = request.if_none_match or ()
    if any(entry.value in {tag, "*"} for entry in known):
        unchanged = web.Response(status=304)
        if "Link" in response.headers:
            unchanged.headers["Link"] = response.headers["Link"]
        response = unchanged
    response.etag = tag
    response.headers[hdrs.CACHE_CONTROL] = "private, no-cache"
    return response
