"""Answers that do not come from OpenSearch itself, but from what stands before it."""

from __future__ import annotations

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from tests.connectors.standalone import received

from headrace_connectors.contract import ConnectorError, Unavailable
from headrace_connectors.search.server import SearchServer
from headrace_connectors.sinks.opensearch import OpenSearchSink, OpenSearchSinkSettings
from headrace_connectors.sources.influxdb.query.server import InfluxServer
from headrace_connectors.sources.influxdb.query.settings import InfluxQuerySettings
from headrace_connectors.sources.opensearch import OpenSearchSource, OpenSearchSourceSettings

PAGES = [b"<html>maintenance</html>", b'"\xff"', b"[" * 2000, b"[]", b'{"message": "soon"}']


@pytest.fixture
async def server():
    """A server that answers each request with the next one of its bodies, or else with its last one."""
    bodies = []

    async def handle(request):
        await request.read()
        return web.Response(body=bodies.pop(0) if len(bodies) > 1 else bodies[0])

    application = web.Application()
    application.router.add_route("*", "/{path:.*}", handle)
    async with TestServer(application) as server:
        server.bodies = bodies
        yield server


@pytest.fixture
async def source(server):
    settings = {"url": str(server.make_url("/")), "index": "a", "cursor_field": "n", "poll_interval": "1 ms"}
    source = OpenSearchSource(OpenSearchSourceSettings.model_validate(settings))
    yield source
    await source.close()


@pytest.mark.parametrize("page", PAGES)
async def test_a_source_waits_for_the_server(source, server, page):
    server.bodies[:] = [page]
    with pytest.raises(Unavailable, match="the answer has no fields"):
        await source.open(None)
    await source.close()
    server.bodies[:] = [b'{"fields": {"n": {"long": {}}}}', page]
    await source.open(None)
    with pytest.raises(Unavailable, match="the answer has no hits"):
        await source.poll()
    with pytest.raises(Unavailable, match="the answer has no hits"):
        await source.lag()


@pytest.mark.parametrize("page", PAGES)
async def test_a_sink_waits_for_the_server(server, page):
    server.bodies[:] = [page]
    sink = OpenSearchSink(OpenSearchSinkSettings(url=str(server.make_url("/")), index="a"))
    await sink.open()
    try:
        with pytest.raises(Unavailable, match="the answer has no items"):
            await sink.write(received.messages({"n": 1}))
    finally:
        await sink.close()


async def test_no_body_follows_a_redirect():
    """A redirect names a server that the settings do not name."""
    taken = []

    async def redirect(request):
        raise web.HTTPTemporaryRedirect(server.make_url("/elsewhere"))

    async def take(request):
        taken.append(await request.read())
        return web.json_response({})

    application = web.Application()
    application.router.add_route("*", "/elsewhere", take)
    application.router.add_route("*", "/{path:.*}", redirect)
    async with TestServer(application) as server:
        url = str(server.make_url("/"))
        search = SearchServer(OpenSearchSinkSettings(url=url, index="a"))
        influx = InfluxServer(InfluxQuerySettings(url=url, database="a"))
        await search.open()
        await influx.open()
        try:
            with pytest.raises(ConnectorError, match=r"answered 307, a redirect: correct settings\.url"):
                await search.ask("POST", "/_bulk", b"{}\n")
            with pytest.raises(ConnectorError, match=r"answered 307, a redirect: correct settings\.url"):
                async with influx.answer("/query", data={"q": "SELECT 1"}):
                    pass
        finally:
            await search.close()
            await influx.close()
    assert taken == []


@pytest.mark.parametrize(
    "opened",
    [
        SearchServer(OpenSearchSinkSettings(url="http://127.0.0.1:1", index="a")),
        InfluxServer(InfluxQuerySettings(url="http://127.0.0.1:1", database="a")),
    ],
)
async def test_connections_of_an_earlier_attempt_are_closed(opened, monkeypatch):
    session, made = aiohttp.ClientSession, []

    def recorded(**settings):
        made.append(session(**settings))
        return made[-1]

    monkeypatch.setattr(aiohttp, "ClientSession", recorded)
    await opened.open()
    await opened.open()
    assert [one.closed for one in made] == [True, False]
    await opened.close()
    assert made[1].closed


async def asked_of_search(url):
    """Ask a server of OpenSearch."""
    server = SearchServer(OpenSearchSinkSettings(url=url, index="a"))
    await server.open()
    try:
        await server.ask("GET", "/")
    finally:
        await server.close()


async def asked_of_influx(url):
    """Ask a server of InfluxDB."""
    server = InfluxServer(InfluxQuerySettings(url=url, database="a"))
    await server.open()
    try:
        async with server.answer("/query"):
            pass
    finally:
        await server.close()


@pytest.mark.parametrize("asked", [asked_of_search, asked_of_influx])
@pytest.mark.parametrize("status", [401, 503, None])
async def test_failures_name_no_secret_of_the_address(asked, status):
    async def refuse(request):
        del request
        return web.Response(status=status)

    application = web.Application()
    application.router.add_route("*", "/{path:.*}", refuse)
    async with TestServer(application) as server:
        address = server.make_url("/")
        if status is None:
            await server.close()
        with pytest.raises(ConnectorError) as caught:
            await asked(str(address.with_user("anna").with_password("hunter2")))
    assert str(caught.value).startswith(str(address).rstrip("/"))
    assert "hunter" not in str(caught.value)


@pytest.mark.parametrize("asked", [asked_of_search, asked_of_influx])
async def test_what_is_no_address_is_not_shown(asked):
    with pytest.raises(ConnectorError, match=r"^the address is no address: correct settings\.url$") as caught:
        await asked("http://anna:hunter2@[::1")
    assert not isinstance(caught.value, Unavailable)
