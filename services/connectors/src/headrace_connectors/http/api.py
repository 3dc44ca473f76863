"""HTTP interface of the connectors.

GET  /live, /health                        health, open to all
GET  /metrics                              metrics
GET  /connectors                           status of all connectors
GET  /connectors/{key}                     status of one
GET  /connectors/{key}/destinations        destinations of a source: circuit, last error, messages
GET  /connectors/{key}/history             records per second and lag of the last hour
POST /connectors/{key}/start, /stop, /restart
POST /sources/{key}/cdc/abandon-batch      give up the pending batch: its records are lost

Configurations and mappings are in `http.configuration`. All but health requires the bearer token, if one is set.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from prometheus_client import CollectorRegistry

from headrace_chassis import admin_http
from headrace_chassis.lifecycle import Health
from headrace_connectors.configuration.configurations import Apply, Configurations
from headrace_connectors.http.configuration import BODY_BYTES_MAX, ConfigurationCalls
from headrace_connectors.http.problems import authentication, problems
from headrace_connectors.observability.history import INTERVAL_SECONDS, History
from headrace_connectors.pipeline_file.models import HttpSettings
from headrace_connectors.runtime.connector import Connector
from headrace_connectors.runtime.supervisor import Supervisor
from headrace_settings import Address


@asynccontextmanager
async def serving(
    settings: HttpSettings,
    supervisor: Supervisor,
    configurations: Configurations,
    apply: Apply,
    history: History,
    *,
    health: Callable[[], Health],
    metrics: CollectorRegistry,
) -> AsyncIterator[Address | None]:
    """Serve for the duration of an ``async with`` block; yield the address actually bound.

    Raises:
        ListenError: The address cannot be bound.
    """
    address = settings.address
    if address is None:
        yield None
        return
    application = web.Application(middlewares=[authentication(settings), problems], client_max_size=BODY_BYTES_MAX)
    application.add_routes(admin_http.pages(health=health, metrics=metrics))
    application.add_routes(_Calls(supervisor, history).routes())
    application.add_routes(ConfigurationCalls(configurations, apply).routes())
    async with admin_http.listening(application, address, advice="; set http.address") as bound:
        yield bound


class _Calls:
    def __init__(self, supervisor: Supervisor, history: History) -> None:
        self._history = history
        self._supervisor = supervisor

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/connectors", self.connectors),
            web.get("/connectors/{key}", self.connector),
            web.get("/connectors/{key}/destinations", self.destinations),
            web.get("/connectors/{key}/history", self.history),
            web.post("/connectors/{key}/start", self.start),
            web.post("/connectors/{key}/stop", self.stop),
            web.post("/connectors/{key}/restart", self.restart),
            web.post("/sources/{key}/cdc/abandon-batch", self.abandon),
        ]

    async def connectors(self, _request: web.Request) -> web.Response:
        return web.json_response([self._document(one) for one in self._supervisor.connectors])

    async def connector(self, request: web.Request) -> web.Response:
        return web.json_response(self._document(self._found(request)))

    async def destinations(self, request: web.Request) -> web.Response:
        return web.json_response(self._found(request).destinations())

    async def history(self, request: web.Request) -> web.Response:
        samples = self._history.samples(self._found(request).key)
        return web.json_response({"interval_seconds": INTERVAL_SECONDS, "samples": [one.document() for one in samples]})

    async def start(self, request: web.Request) -> web.Response:
        found = self._found(request)
        found.start()
        return web.json_response(self._document(found))

    async def stop(self, request: web.Request) -> web.Response:
        found = self._found(request)
        await found.stop()
        return web.json_response(self._document(found))

    async def restart(self, request: web.Request) -> web.Response:
        found = self._found(request)
        await found.stop()
        found.start()
        return web.json_response(self._document(found))

    async def abandon(self, request: web.Request) -> web.Response:
        found = self._found(request)
        position = await found.abandon()
        return web.json_response({"abandoned": position, **self._document(found)})

    def _document(self, connector: Connector) -> dict[str, Any]:
        return {**connector.document(), **self._history.newest(connector.key)}

    def _found(self, request: web.Request) -> Connector:
        key = request.match_info["key"]
        found = self._supervisor.find(key)
        if found is None:
            known = ", ".join(one.key for one in self._supervisor.connectors)
            raise web.HTTPNotFound(text=f"there is no connector {key!r}; there are: {known}")
        return found
