"""Health and metrics of a service over HTTP, for supervisors and collectors.

`/live` is 200 while the process runs, `/health` when clients should come, and both contain a one-word status, open to
all. `/metrics` requires the cluster's token for metrics, if there is one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final, cast

from aiohttp import web
from prometheus_client import CollectorRegistry, generate_latest

from headrace_chassis.errors import ListenError
from headrace_chassis.http_connections import Connections, Library
from headrace_chassis.lifecycle import Health
from headrace_proto.cluster_token import is_one_of
from headrace_settings import Address

_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_STOP_SECONDS: Final = 1.0
_CONNECTIONS_MAX: Final = 256
_FIRST_REQUEST_SECONDS: Final = 10.0
_IDLE_SECONDS: Final = 75.0


@asynccontextmanager
async def serving(
    address: Address | None,
    *,
    health: Callable[[], Health],
    metrics: CollectorRegistry,
    authorizations: Sequence[str] = (),
) -> AsyncIterator[Address | None]:
    """Serve for the duration of an ``async with`` block; yield the address actually bound.

    Args:
        address: Address to listen on; None: do not serve.
        health: Returns the health of the service.
        metrics: Registry of the metrics, whose collectors may be called from any thread.
        authorizations: Accepted values of the header ``Authorization`` for metrics; empty: no authentication.

    Raises:
        ListenError: The address cannot be bound.
    """
    if address is None:
        yield None
        return
    application = web.Application()
    application.add_routes(pages(health=health, metrics=metrics, authorizations=authorizations))
    async with listening(application, address) as bound:
        yield bound


def pages(
    *, health: Callable[[], Health], metrics: CollectorRegistry, authorizations: Sequence[str] = ()
) -> list[web.RouteDef]:
    """Return the pages, for an application that has others, too. Arguments as of `serving`."""
    found = _Pages(health, metrics, authorizations)
    return [web.get("/live", found.live), web.get("/health", found.health), web.get("/metrics", found.metrics)]


@asynccontextmanager
async def listening(application: web.Application, address: Address, *, advice: str = "") -> AsyncIterator[Address]:
    """Serve an application for the duration of an ``async with`` block; yield the address actually bound.

    Args:
        application: The application.
        address: Address to listen on.
        advice: End of the error message.

    Raises:
        ListenError: The address cannot be bound.
    """

    @web.middleware
    async def note(request: web.Request, handler: _Handler) -> web.StreamResponse:
        connections.has_asked(request.transport)
        return await handler(request)

    application.middlewares.insert(0, note)
    runner = web.AppRunner(
        application, access_log=None, shutdown_timeout=_STOP_SECONDS, keepalive_timeout=_IDLE_SECONDS
    )
    await runner.setup()
    connections = Connections(
        cast("Library", runner.server),
        count_max=_CONNECTIONS_MAX,
        first_request_seconds=_FIRST_REQUEST_SECONDS,
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
