"""Memory of requests in progress: bodies and their batches count until the partition has answered."""

import asyncio
import base64
import io
import json
from contextlib import asynccontextmanager
from types import SimpleNamespace

import aiohttp
import pytest
from aiohttp import web

from headrace_gateway.json_api.memory import BUDGET, Budget, Exhausted
from headrace_gateway.push import forms
from headrace_gateway.push.client import Client
from headrace_gateway.push.config import PushConfig
from headrace_gateway.push.metrics import PushMetrics
from headrace_proto.errors import Status

LINES = {"Content-Type": "application/x-ndjson"}
MESSAGES = "/streams/s/topics/t/messages"
# A batch of 810 KB, of a body of 20 KB.
SMALL_LINES = b"1\n" * 10_000


@asynccontextmanager
async def served(application):
    """Yield a function that sends lines as a user, and returns the status."""
    runner = web.AppRunner(application.build())
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0]
        async with aiohttp.ClientSession(f"http://{host}:{port}") as session:

            async def send(user, body=SMALL_LINES, headers=None):
                headers = LINES | {"Authorization": f"Bearer {user}"} | (headers or {})
                async with session.post(MESSAGES, data=io.BytesIO(body), headers=headers) as answer:
                    return answer.status

            yield send
    finally:
        await runner.cleanup()


async def until(condition):
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.001)


async def sent(send, sessions, user, count, **more):
    """Begin requests one after the other; return the statuses of those that are refused, and the others."""
    refused, waiting = [], []
    for _ in range(count):
        asked = sessions.asked
        request = asyncio.create_task(send(user, **more))
        await until(lambda request=request, asked=asked: request.done() or sessions.asked > asked)
        if request.done():
            refused.append(request.result())
        else:
            waiting.append(request)
    return refused, waiting


async def test_batches_that_wait_are_counted(application, sessions):
    """Regression: 300 bodies of 2 MB of short lines were batches of 24 GB, of which nothing was counted."""
    async with served(application) as send:
        refused, waiting = await sent(send, sessions, 1, 12)
        assert len(waiting) == 2, "one user has half of the memory"
        assert set(refused) == {503}
        refused, of_others = await sent(send, sessions, 2, 12)
        assert len(of_others) == 2
        assert set(refused) == {503}
        assert 4 * 800_000 < application.memory.used_bytes < 4 * 840_000
        sessions.gate.set()
        assert await asyncio.gather(*waiting, *of_others) == [201] * 4
        assert application.memory.used_bytes == 0
        assert await send(1) == 201


async def test_a_permitted_request_that_is_alone_is_possible(application, sessions):
    """The batch of the largest body takes 81 MB of a budget of 4 MiB."""
    largest = b"1\n" * 1_000_000
    async with served(application) as send:
        refused, waiting = await sent(send, sessions, 1, 1, body=largest)
        assert not refused
        assert application.memory.used_bytes > 80_000_000
        assert await send(2) == 503
        sessions.gate.set()
        assert await waiting[0] == 201
        assert await send(2, largest) == 201
        assert application.memory.used_bytes == 0


async def test_memory_is_given_back_after_refusals(application, sessions):
    sessions.gate.set()
    async with served(application) as send:
        assert await send(1, b'{"no json\n') == 400
        assert await send(1, b"[]", {"Content-Type": "text/plain"}) == 415
        assert await send(1, headers={"Idempotency-Key": "k" * 256}) == 400
        assert await send(1, headers={"Idempotency-Key": "key"}) == 201
        assert application.memory.used_bytes == 0


def test_one_user_has_half():
    budget = Budget(1000)
    with budget.held_by("a") as first, budget.held_by("a") as second, budget.held_by("b") as other:
        first.resize(5000)
        with pytest.raises(Exhausted):
            other.resize(1)
        first.resize(300)
        second.resize(200)
        with pytest.raises(Exhausted):
            second.grow(1)
        other.grow(500)
        with pytest.raises(Exhausted):
            first.resize(301)
        assert budget.used_bytes == 1000
        second.resize(0)
        first.resize(301)
        assert budget.used_bytes == 801
    assert budget.used_bytes == 0


class RecordedSocket:
    def __init__(self):
        self.sent = []

    async def send_text(self, text):
        self.sent.append(json.loads(text))


@pytest.fixture
def clients(sessions):
    """Create clients of `/ws`, each with its socket; their budget is `BUDGET`."""
    services = SimpleNamespace(
        config=PushConfig(), sessions=sessions, metrics=PushMetrics(), topics=None, clock=lambda: 0
    )

    def create():
        socket = RecordedSocket()
        return Client(7, services, None, socket, is_binary=True), socket

    given = BUDGET.set(Budget(4_000_000))
    yield create
    BUDGET.reset(given)


def produce():
    messages = [{"payload": base64.b64encode(b"1").decode()}] * 10_000
    return forms.decode(json.dumps({"type": "produce", "id": 1, "stream": "s", "topic": "t", "messages": messages}))


@pytest.mark.parametrize("is_binary", [False, True])
async def test_batches_over_the_websocket_are_counted(clients, sessions, is_binary):
    budget, request = BUDGET.get(), produce()
    running, refusals = [], []
    for _ in range(8):
        client, socket = clients()
        asked = sessions.asked
        work = client.append(1, bytes(800_000)) if is_binary else client.execute(request)
        running.append(asyncio.create_task(work))
        await until(lambda asked=asked: running[-1].done() or sessions.asked > asked)
        if running[-1].done():
            await running.pop()
            refusals += socket.sent
    assert len(running) == 2
    assert {refusal["code"] for refusal in refusals} == {Status.TOO_MANY_WAITS}
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
    assert budget.used_bytes == 0
