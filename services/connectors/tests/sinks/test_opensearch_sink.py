"""The sink `opensearch`: messages that are refused before anything is sent."""

from __future__ import annotations

import json

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from tests.connectors.standalone import received

from headrace_connectors.contract import InvalidRecord, Place
from headrace_connectors.sinks.opensearch import OpenSearchSink, OpenSearchSinkSettings


@pytest.fixture
async def server():
    """A server that stores all documents, and keeps their ids."""
    ids = []

    async def store(request):
        lines = (await request.read()).splitlines()
        ids.extend(json.loads(line)["index"]["_id"] for line in lines[::2])
        return web.json_response({"items": [{"index": {"status": 201}} for _ in lines[::2]]})

    async def greet(request):
        return web.json_response({})

    application = web.Application()
    application.router.add_post("/_bulk", store)
    application.router.add_get("/", greet)
    async with TestServer(application) as server:
        server.ids = ids
        yield server


@pytest.fixture
def sink_of(server, opened):
    """Make a sink for the server."""

    async def make(**settings):
        return await opened(
            OpenSearchSink(OpenSearchSinkSettings(url=str(server.make_url("/")), index="a", **settings))
        )

    return make


async def test_an_id_that_is_too_long_is_refused_for_its_message_alone(sink_of, server):
    sink = await sink_of(id_field="id")
    fits, longer = "ü" * 256, "ü" * 256 + "x"
    with pytest.raises(InvalidRecord, match=r"^the id ü{50}\.\.\. has 513 bytes.* set id_field to a shorter") as caught:
        await sink.write(received.messages({"id": fits}, {"id": longer}))
    assert caught.value.index == 1
    await sink.write(received.messages({"id": fits}))
    assert server.ids == [fits]


async def test_long_names_of_stream_and_topic_make_an_id_too_long(sink_of, server):
    sink = await sink_of()
    with pytest.raises(InvalidRecord, match="the id sss"):
        await sink.write(received.messages({}, place=Place("s" * 255, "t" * 255, 0)))
    assert server.ids == []
