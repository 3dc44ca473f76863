"""The sink for HTTP: bodies, and what follows from answers."""

from __future__ import annotations

import asyncio
import json
import random
from functools import partial

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from tests.connectors.standalone import received

from headrace_connectors.contract import ConnectorError, InvalidRecord, Place, Unavailable
from headrace_connectors.pipeline_file.models import RetrySettings
from headrace_connectors.runtime.attempts import Attempts
from headrace_connectors.runtime.status import Status
from headrace_connectors.sinks.http import HttpSink, HttpSinkSettings

PLACE = Place("s", "t", 3)


messages = partial(received.messages, first=7, place=PLACE, at=1_000_000, key=b"k")


@pytest.fixture
async def server():
    """A server that records requests, and answers as its list says, or 204."""
    requests, answers = [], []

    async def handle(request):
        requests.append((dict(request.headers), await request.read()))
        return answers.pop(0) if answers else web.Response(status=204)

    application = web.Application()
    application.router.add_post("/in", handle)
    async with TestServer(application) as server:
        server.requests, server.answers = requests, answers
        yield server


@pytest.fixture
def sink_of(server, opened):
    """Make a sink for the server."""

    async def make(**settings):
        return await opened(HttpSink(HttpSinkSettings.model_validate({"url": str(server.make_url("/in")), **settings})))

    return make


async def test_a_batch_is_an_array(sink_of, server):
    sink = await sink_of(token="secret", headers={"X-Team": "a"})
    await sink.write(messages({"id": 1}, [2], None))
    ((headers, body),) = server.requests
    assert json.loads(body) == [{"id": 1}, [2], None]
    assert (headers["Authorization"], headers["X-Team"], headers["Content-Type"]) == (
        "Bearer secret",
        "a",
        "application/json",
    )


async def test_lines_with_places(sink_of, server):
    sink = await sink_of(format="json_lines", content="messages")
    await sink.write(messages(1, 2))
    ((headers, body),) = server.requests
    assert headers["Content-Type"] == "application/x-ndjson"
    first = {"stream": "s", "topic": "t", "partition": 3, "offset": 7, "key": "k", "payload": 1}
    assert [json.loads(line) for line in body.splitlines()] == [
        {**first, "timestamp": "1970-01-01T00:00:01Z"},
        {**first, "timestamp": "1970-01-01T00:00:01Z", "offset": 8, "payload": 2},
    ]


async def test_a_repeated_batch_has_the_same_key(sink_of, server):
    sink = await sink_of()
    for batch in (messages(1, 2), messages(1, 2), messages(1)):
        await sink.write(batch)
    first, second, third = (headers["Idempotency-Key"] for headers, _ in server.requests)
    assert first == second != third


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        *((status, InvalidRecord) for status in (400, 413, 415, 422)),
        *((status, Unavailable) for status in (408, 425, 429, 500, 502, 503)),
        *((status, ConnectorError) for status in (301, 401, 403, 404)),
    ],
)
async def test_answers_lead_to_failures(sink_of, server, status, kind):
    sink = await sink_of()
    server.answers.append(web.Response(status=status, text="the  reason"))
    with pytest.raises(ConnectorError, match=f"answered {status}: the reason") as caught:
        await sink.write(messages(1))
    assert type(caught.value) is kind


@pytest.mark.parametrize("status", [400, 403, 503, None])
async def test_failures_name_no_secret_of_the_address(sink_of, server, status):
    address = server.make_url("/in")
    secret = address.with_user("anna").with_password("hunter2").with_query(token="hunter3")
    sink = await sink_of(url=str(secret))
    if status is None:
        await server.close()
    else:
        server.answers.append(web.Response(status=status))
    with pytest.raises(ConnectorError) as caught:
        await sink.write(messages(1))
    assert str(caught.value).startswith(f"{address} ")
    assert "hunter" not in str(caught.value)


async def test_retry_after_is_passed_on(sink_of, server):
    sink = await sink_of()
    server.answers.append(web.Response(status=503, headers={"Retry-After": "17"}))
    with pytest.raises(Unavailable) as caught:
        await sink.write(messages(1))
    assert caught.value.retry_after == 17


async def test_a_pause_is_not_shorter_than_asked_for(monkeypatch):
    waited = []

    async def wait_for(work, seconds):
        work.close()
        waited.append(seconds)

    monkeypatch.setattr(asyncio, "wait_for", wait_for)
    attempts = Attempts("a", RetrySettings(backoff_max="1 s"), Status(), asyncio.Event(), random.Random(1))
    for asked in (None, 17.0, 1e9):
        await attempts.failed(Unavailable("away", retry_after=asked))
    assert waited[0] < 1
    assert waited[1:] == [17.0, 3600.0]


async def test_a_server_that_is_not_there_is_unavailable(sink_of, server):
    sink = await sink_of()
    await server.close()
    with pytest.raises(Unavailable, match="is not reached"):
        await sink.write(messages(1))


async def test_a_payload_without_a_form_is_named(sink_of, server):
    sink = await sink_of()
    with pytest.raises(InvalidRecord) as caught:
        await sink.write(messages(1, object()))
    assert caught.value.index == 1
    assert server.requests == []
