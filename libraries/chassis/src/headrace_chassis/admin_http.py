"""Health and metrics of a service over HTTP, for supervisors and collectors.

`/live` is 200 while the process runs, `/health` when clients should come, and both contain a one-word status, open to
all. `/metrics` requires the cluster's token for metrics, if there is one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, cast

from aiohttp import web
from aiohttp.typedefs import Middleware
from prometheus_client import CollectorRegistry, generate_latest

from headrace_chassis.errors import ListenError
from headrace_chassis.http_connections import Connections, Library
from headrace_chassis.lifecycle import Health
from headrace_proto.cluster_token import is_one_of
from headrace_settings import Address

_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_REFUSALS: Final = frozenset({401, 403, 404, 405})
"""Statuses of answers to callers who are not known, or ask for nothing that is there: they do not keep a connection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of a listener, which hold before anything of a caller is known."""

    connections: int = 256
    """Maximum number of open connections; a further one is closed at once."""
    first_request_seconds: float = 10.0
    """Time within which the head of the first request has to arrive."""
    body_seconds: float = 60.0
    """Time within which the body of a request has to arrive; later ones are answered 408."""
    idle_seconds: float = 75.0
    """Time without a whole head of a further request after which a connection is closed."""
    stop_seconds: float = 1.0
    """Time that requests get at the end."""


@asynccontextmanager
async def serving(
    address: Address | None,
    *,
    health: Callable[[], Health],
    metrics: CollectorRegistry,
    authorizations: Sequence[str] = (),
    limits: Limits | None = None,
) -> AsyncIterator[Address | None]:
    """Serve for the duration of an ``async with`` block; yield the address actually bound.

    Args:
        address: Address to listen on; None: do not serve.
        health: Returns the health of the service.
        metrics: Registry of the metrics, whose collectors may be called from any thread.
        authorizations: Accepted values of the header ``Authorization`` for metrics; empty: no authentication.
        limits: Limits of the listener; None: the usual ones.

    Raises:
        ListenError: The address cannot be bound.
    """
    if address is None:
        yield None
        return
    application = web.Application()
    application.add_routes(pages(health=health, metrics=metrics, authorizations=authorizations))
    async with listening(application, address, limits=limits) as bound:
        yield bound


def pages(
    *, health: Callable[[], Health], metrics: CollectorRegistry, authorizations: Sequence[str] = ()
) -> list[web.RouteDef]:
    """Return the pages, for an application that has others, too. Arguments as of `serving`."""
    found = _Pages(health, metrics, authorizations)
    return [web.get("/live", found.live), web.get("/health", found.health), web.get("/metrics", found.metrics)]


@asynccontextmanager
async def listening(
    application: web.Application,
    address: Address,
    *,
    advice: str = "",
    limits: Limits | None = None,
    cancels_handlers: bool = False,
) -> AsyncIterator[Address]:
    """Serve an application for the duration of an ``async with`` block; yield the address actually bound.

    Args:
        application: The application.
        address: Address to listen on.
        advice: End of the error message.
        limits: Limits of the listener; None: the usual ones.
        cancels_handlers: Cancel the handler of a request whose caller has gone.

    Raises:
        ListenError: The address cannot be bound.
    """
    limits = Limits() if limits is None else limits

    @web.middleware
    async def note(request: web.Request, handler: _Handler) -> web.StreamResponse:
        connections.has_asked(request.transport)
        try:
            answer = await handler(request)
        except web.HTTPException as refusal:
            _close_after(refusal)
            raise
        _close_after(answer)
        return answer

    application.middlewares.insert(0, note)
    application.middlewares.append(_body_in_time(limits.body_seconds))
    runner = web.AppRunner(
        application,
        access_log=None,
        shutdown_timeout=limits.stop_seconds,
        keepalive_timeout=limits.idle_seconds,
        handler_cancellation=cancels_handlers,
    )
    await runner.setup()
    connections = Connections(
        cast("Library", runner.server),
        count_max=limits.connections,
        first_request_seconds=limits.first_request_seconds,
        limit=f"connections of {address}",
    )
    try:
        try:
            server = await asyncio.get_running_loop().create_server(connections, str(address.ip), address.port)
        except OSError as error:
            raise ListenError(f"HTTP cannot be served on {address}: {error.strerror}{advice}") from error
        try:
            yield address.with_port(server.sockets[0].getsockname()[1])
        finally:
            server.close()
    finally:
        await runner.cleanup()


def _close_after(answer: web.StreamResponse) -> None:
    if answer.status in _REFUSALS and not answer.prepared:
        answer.force_close()


def _body_in_time(seconds: float) -> Middleware:
    """Return a middleware that ends the body of a request that does not arrive in time.

    Only the arrival is limited: a handler may wait for something else as long as it needs to.
    """

    @web.middleware
    async def limited(request: web.Request, handler: _Handler) -> web.StreamResponse:
        body = request.content
        if body.is_eof():
            return await handler(request)
        text = "the body did not arrive in time"

        def end() -> None:
            if not body.is_eof():
                # Other exceptions would be logged with a traceback when the library reads what is left of the body.
                body.set_exception(TimeoutError(text))

        timer = asyncio.get_running_loop().call_later(seconds, end)
        try:
            return await handler(request)
        except TimeoutError:
            if body.exception() is None:
                raise
            raise web.HTTPRequestTimeout(text=text) from None
        finally:
            timer.cancel()

    return limited


class _Pages:
    def __init__(self, health: Callable[[], Health], metrics: CollectorRegistry, authorizations: Sequence[str]) -> None:
        self._health = health
        self._metrics = metrics
        self._authorizations = authorizations

    async def live(self, _request: web.Request) -> web.Response:
        return web.json_response({"status": self._health().status})

    async def health(self, _request: web.Request) -> web.Response:
        health = self._health()
        return web.json_response({"status": health.status}, status=200 if health.is_ready else 503)

    async def metrics(self, request: web.Request) -> web.Response:
        if not self._is_known(request):
            return web.Response(status=401, headers={"WWW-Authenticate": "Bearer"})
        # Rendered in a thread: the collectors query native threads, and the text is long.
        body = await asyncio.to_thread(generate_latest, self._metrics)
        return web.Response(body=body, headers={"Content-Type": _METRICS_TYPE})

    def _is_known(self, request: web.Request) -> bool:
        if not self._authorizations:
            return True
        presented = request.headers.getall("Authorization", [])
        return len(presented) == 1 and is_one_of(presented[0], self._authorizations)
