"""HTTP interface of the connectors.

GET  /live, /health                        health, open to all
GET  /metrics                              metrics
GET  /connectors                           status of all connectors
GET  /connectors/{key}                     status of one
GET  /connectors/{key}/destinations        destinations of a source: circuit, last error, messages
GET  /connectors/{key}/history             records per second and lag of the last hour
POST /connectors/{key}/start, /stop, /restart
POST /sources/{key}/cdc/abandon-batch      give up the pending batch: its records are lost
GET  /openapi.json                         description of all calls, open to all

Configurations and mappings are in `http.configuration`. All but health requires the bearer token, if one is set.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from prometheus_client import CollectorRegistry

from headrace_chassis import admin_http
from headrace_chassis.lifecycle import Health
from headrace_connectors.configuration.configurations import Apply, Configurations
from headrace_connectors.http.configuration import BODY_BYTES_MAX, ConfigurationCalls
from headrace_connectors.http.description import document
from headrace_connectors.http.endpoints import Endpoint, Handler
from headrace_connectors.http.models import AbandonAnswer, HealthAnswer
from headrace_connectors.http.problems import authentication, problems
from headrace_connectors.observability.history import INTERVAL_SECONDS, History
from headrace_connectors.pipeline_file.models import HttpSettings
from headrace_connectors.runtime.connector import Connector
from headrace_connectors.runtime.supervisor import Supervisor
from headrace_connectors_api import ConnectorAnswer, ConnectorHistoryAnswer, DestinationAnswer
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
    for endpoint in endpoints(supervisor, configurations, apply, history, health=health, metrics=metrics):
        if endpoint.method == "GET":
            # HEAD is answered, too.
            application.router.add_get(endpoint.path, endpoint.handler)
        else:
            application.router.add_route(endpoint.method, endpoint.path, endpoint.handler)
    async with admin_http.listening(application, address, advice="; set http.address") as bound:
        yield bound


def endpoints(
    supervisor: Supervisor,
    configurations: Configurations,
    apply: Apply,
    history: History,
    *,
    health: Callable[[], Health],
    metrics: CollectorRegistry,
) -> list[Endpoint]:
    """Return all endpoints. Arguments as of `serving`."""
    page = _Page()
    found = [
        *_admin(admin_http.pages(health=health, metrics=metrics)),
        *_Calls(supervisor, history).endpoints(),
        *ConfigurationCalls(configurations, apply).endpoints(),
        Endpoint(
            method="GET",
            path="/openapi.json",
            handler=page.description,
            name="get_description",
            answer=dict[str, Any],
            is_public=True,
        ),
    ]
    page.document = document(found)
    return found


def _admin(routes: Sequence[web.RouteDef]) -> list[Endpoint]:
    """Return the pages that all services have."""
    handlers = {route.path: route.handler for route in routes}
    return [
        Endpoint(
            method="GET",
            path="/live",
            handler=_titled(handlers["/live"], "Return the status of the process, while it runs."),
            name="get_live",
            answer=HealthAnswer,
            is_public=True,
        ),
        Endpoint(
            method="GET",
            path="/health",
            handler=_titled(handlers["/health"], "Return the status of the process; 200 if it is ready."),
            name="get_health",
            answer=HealthAnswer,
            other_answers={503: HealthAnswer},
            is_public=True,
        ),
        Endpoint(
            method="GET",
            path="/metrics",
            handler=_titled(handlers["/metrics"], "Return the metrics, in the text format of Prometheus."),
            name="get_metrics",
        ),
    ]


def _titled(handler: Any, text: str) -> Handler:
    async def titled(request: web.Request) -> web.StreamResponse:
        response: web.StreamResponse = await handler(request)
        return response

    titled.__doc__ = text
    return titled


class _Page:
    document: Mapping[str, Any] = {}

    async def description(self, _request: web.Request) -> web.Response:
        """Return this description."""
        return web.json_response(self.document)


class _Calls:
    def __init__(self, supervisor: Supervisor, history: History) -> None:
        self._history = history
        self._supervisor = supervisor

    def endpoints(self) -> list[Endpoint]:
        """Return the endpoints."""
        one = "/connectors/{key}"
        found = [
            Endpoint(
                method="GET",
                path="/connectors",
                handler=self.connectors,
                name="list_connectors",
                answer=list[ConnectorAnswer],
            )
        ]
        reading: list[tuple[str, Handler, str, Any, tuple[int, ...]]] = [
            (one, self.connector, "get_connector", ConnectorAnswer, ()),
            (f"{one}/destinations", self.destinations, "list_destinations", list[DestinationAnswer], (409,)),
            (f"{one}/history", self.history, "get_history", ConnectorHistoryAnswer, ()),
        ]
        for path, handler, name, answer, errors in reading:
            found.append(
                Endpoint(method="GET", path=path, handler=handler, name=name, answer=answer, errors=(404, *errors))
            )
        acting: list[tuple[str, Handler, str, Any]] = [
            (f"{one}/start", self.start, "start_connector", ConnectorAnswer),
            (f"{one}/stop", self.stop, "stop_connector", ConnectorAnswer),
            (f"{one}/restart", self.restart, "restart_connector", ConnectorAnswer),
            ("/sources/{key}/cdc/abandon-batch", self.abandon, "abandon_batch", AbandonAnswer),
        ]
        for path, handler, name, answer in acting:
            found.append(
                Endpoint(method="POST", path=path, handler=handler, name=name, answer=answer, errors=(404, 409))
            )
        return found

    async def connectors(self, _request: web.Request) -> web.Response:
        """List all connectors."""
        return web.json_response([self._document(one) for one in self._supervisor.connectors])

    async def connector(self, request: web.Request) -> web.Response:
        """Return a connector."""
        return web.json_response(self._document(self._found(request)))

    async def destinations(self, request: web.Request) -> web.Response:
        """List the topics that a source writes to in this run, with their circuit breakers."""
        return web.json_response(self._found(request).destinations())

    async def history(self, request: web.Request) -> web.Response:
        """Return records per second and lag of the last hour."""
        samples = self._history.samples(self._found(request).key)
        return web.json_response({"interval_seconds": INTERVAL_SECONDS, "samples": [one.document() for one in samples]})

    async def start(self, request: web.Request) -> web.Response:
        """Start a connector, unless it runs."""
        found = self._found(request)
        found.start()
        return web.json_response(self._document(found))

    async def stop(self, request: web.Request) -> web.Response:
        """Stop a connector; what is in flight ends."""
        found = self._found(request)
        await found.stop()
        return web.json_response(self._document(found))

    async def restart(self, request: web.Request) -> web.Response:
        """Stop a connector, and start it again."""
        found = self._found(request)
        await found.stop()
        found.start()
        return web.json_response(self._document(found))

    async def abandon(self, request: web.Request) -> web.Response:
        """Give up the pending batch of a source of changes: its records are lost."""
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
