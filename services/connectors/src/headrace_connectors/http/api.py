"""HTTP interface of the connectors.

GET  /live, /health                        health, open to all
GET  /metrics                              metrics
GET  /connectors                           status of all connectors
GET  /connectors/{key}                     status of one
GET  /connectors/{key}/destinations        destinations of a source: circuit, last error, messages
POST /connectors/{key}/start, /stop, /restart
POST /sources/{key}/cdc/abandon-batch      give up the pending batch: its records are lost
GET  /mappings/{name}                      a mapping of the pipeline file, for the transform `route`

All but health requires the bearer token, if one is set.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

from aiohttp import web
from prometheus_client import CollectorRegistry

from headrace_chassis import admin_http
from headrace_chassis.lifecycle import Health
from headrace_connectors.contract import ConnectorError
from headrace_connectors.pipeline_file.models import HttpSettings
from headrace_connectors.pipeline_file.pipeline import Pipeline
from headrace_connectors.runtime.connector import Connector
from headrace_connectors.runtime.supervisor import Supervisor
from headrace_proto.cluster_token import is_one_of
from headrace_settings import Address

_OPEN: Final = ("/live", "/health")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serving(
    settings: HttpSettings,
    pipeline: Pipeline,
    supervisor: Supervisor,
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
    application = web.Application(middlewares=[_authentication(settings), _problems])
    application.add_routes(admin_http.pages(health=health, metrics=metrics))
    application.add_routes(_Calls(pipeline, supervisor).routes())
    async with admin_http.listening(application, address, advice="; set http.address") as bound:
        yield bound


def _authentication(settings: HttpSettings) -> Any:
    known = () if settings.token is None else (f"Bearer {settings.token.reveal()}",)

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        if not known or request.path in _OPEN:
            return await handler(request)
        if not is_one_of(request.headers.get("Authorization", ""), known):
            return _problem(401, "unauthorized", "the header Authorization has not the token of `http.token`")
        return await handler(request)

    return check


@web.middleware
async def _problems(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except ConnectorError as error:
        return _problem(409, error.code, str(error))
    except web.HTTPException as error:
        return _problem(error.status, "http", error.text or error.reason)


def _problem(status: int, code: str, detail: str) -> web.Response:
    body = {"status": status, "code": code, "detail": detail}
    return web.json_response(body, status=status, content_type="application/problem+json")


class _Calls:
    def __init__(self, pipeline: Pipeline, supervisor: Supervisor) -> None:
        self._pipeline = pipeline
        self._supervisor = supervisor

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/connectors", self.connectors),
            web.get("/connectors/{key}", self.connector),
            web.get("/connectors/{key}/destinations", self.destinations),
            web.post("/connectors/{key}/start", self.start),
            web.post("/connectors/{key}/stop", self.stop),
            web.post("/connectors/{key}/restart", self.restart),
            web.post("/sources/{key}/cdc/abandon-batch", self.abandon),
            web.get("/mappings/{name}", self.mapping),
        ]

    async def connectors(self, _request: web.Request) -> web.Response:
        return web.json_response([one.document() for one in self._supervisor.connectors])

    async def connector(self, request: web.Request) -> web.Response:
        return web.json_response(self._found(request).document())

    async def destinations(self, request: web.Request) -> web.Response:
        return web.json_response(self._found(request).destinations())

    async def start(self, request: web.Request) -> web.Response:
        found = self._found(request)
        found.start()
        return web.json_response(found.document())

    async def stop(self, request: web.Request) -> web.Response:
        found = self._found(request)
        await found.stop()
        return web.json_response(found.document())

    async def restart(self, request: web.Request) -> web.Response:
        found = self._found(request)
        await found.stop()
        found.start()
        return web.json_response(found.document())

    async def abandon(self, request: web.Request) -> web.Response:
        found = self._found(request)
        position = await found.abandon()
        return web.json_response({"abandoned": position, **found.document()})

    async def mapping(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        mapping = self._pipeline.mappings.get(name)
        if mapping is None:
            known = ", ".join(sorted(self._pipeline.mappings)) or "none"
            raise web.HTTPNotFound(text=f"there is no mapping {name!r} in {self._pipeline.file}; there are: {known}")
        return web.json_response({value: {"stream": one.stream, "topic": one.topic} for value, one in mapping.items()})

    def _found(self, request: web.Request) -> Connector:
        key = request.match_info["key"]
        found = self._supervisor.find(key)
        if found is None:
            known = ", ".join(one.key for one in self._supervisor.connectors)
            raise web.HTTPNotFound(text=f"there is no connector {key!r}; there are: {known}")
        return found
