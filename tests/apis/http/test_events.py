"""Waiting for messages: long polls and server-sent events (GW-4, GW-7)."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from tests.apis.http.api import Api, batch, payloads, rights
from tests.apis.http.conftest import Reach
from tests.conftest import StartServer

WAIT_SECONDS = 20


class Events:
    """Server-sent events of one response."""

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self.answer = answer

    async def next(self) -> dict[str, str]:
        """The next event, without comments; empty at the end."""
        event: dict[str, str] = {}
        while line := await asyncio.wait_for(self.answer.content.readline(), WAIT_SECONDS):
            text = line.decode().rstrip("\n")
            if not text and event:
                return event
            name, _, value = text.partition(": ")
            if name:
                event[name] = value
        return event

    async def payload(self) -> bytes:
        """Payload of the message of the next event."""
        event = await self.next()
        message: dict[str, Any] = json.loads(event["data"])
        assert int(event["id"]) == int(message["header"]["offset"])
        return base64.b64decode(message["payload"])


@asynccontextmanager
async def watching(api: Api, path: str, **headers: str) -> AsyncIterator[Events]:
    sent = {"Authorization": f"Bearer {api.token}"} | {name.replace("_", "-"): value for name, value in headers.items()}
    async with api.session.get(api.url + path, headers=sent) as answer:
        assert answer.status == 200, await answer.text()
        assert answer.headers["Content-Type"] == "text/event-stream"
        assert answer.headers["X-Request-Id"]
        yield Events(answer)


async def test_a_poll_waits_for_messages(root: Api) -> None:
    path = (await root.create_topic("waited-for")) + "/messages"
    waiting = asyncio.ensure_future(root.ok("GET", f"{path}?wait_ms=20000"))
    await asyncio.sleep(0.2)
    assert not waiting.done()
    await root.ok("POST", path, batch(b"at last"))
    assert payloads(await waiting) == [b"at last"]
    started = time.monotonic()
    assert (await root.ok("GET", f"{path}?value=1&wait_ms=300"))["count"] == 0
    assert time.monotonic() - started >= 0.29
    started = time.monotonic()
    assert payloads(await root.ok("GET", f"{path}?wait_ms=300&min_bytes=1000")) == [b"at last"]
    assert time.monotonic() - started >= 0.29
    assert (await root("GET", f"{path}?wait_ms=60001")).status == 400


async def test_a_member_waits_for_messages(root: Api) -> None:
    topic = await root.create_topic("group-waits", partitions=2)
    await root.ok("POST", f"{topic}/consumer-groups", {"name": "g"})
    member = (await root.ok("POST", f"{topic}/consumer-groups/g/members"))["member"]
    path = f"{topic}/consumer-groups/g/members/{member}/messages"
    for partition in range(2):
        waiting = asyncio.ensure_future(root.ok("GET", f"{path}?wait_ms=20000&auto_commit=true"))
        await asyncio.sleep(0.1)
        await root.ok("POST", f"{topic}/messages", batch(b"%d" % partition, partition=partition))
        polled = await waiting
        assert (polled["partition_id"], payloads(polled)) == (partition, [b"%d" % partition])


async def test_events_come_as_messages_do(root: Api) -> None:
    topic = await root.create_topic("watched")
    await root.ok("POST", f"{topic}/messages", batch(b"0", b"1"))
    async with watching(root, f"{topic}/events?kind=first") as all_, watching(root, f"{topic}/events") as new:
        assert [await all_.payload() for _ in range(2)] == [b"0", b"1"]
        for number in range(2, 6):
            await root.ok("POST", f"{topic}/messages", batch(b"%d" % number))
            assert await all_.payload() == await new.payload() == b"%d" % number
    async with watching(root, f"{topic}/events?kind=last&count=2&numbers=text") as last:
        assert [await last.payload() for _ in range(2)] == [b"4", b"5"]


async def test_a_reader_that_comes_back_misses_nothing(root: Api) -> None:
    topic = await root.create_topic("resumed")
    path = f"{topic}/events?kind=first&count=3"
    await root.ok("POST", f"{topic}/messages", batch(*(b"%d" % number for number in range(10))))
    seen, last = [], None
    while len(seen) < 12:
        headers = {} if last is None else {"Last_Event_ID": last}
        async with watching(root, path, **headers) as events:
            for _ in range(2):
                event = await events.next()
                last = event["id"]
                seen.append(int(last))
        if len(seen) == 10:
            await root.ok("POST", f"{topic}/messages", batch(b"10", b"11"))
    assert seen == list(range(12))
    for wrong in ("x", "-1", "1.5", str(2**64 - 1), "9" * 5000):
        answer = await root("GET", path, headers={"Last-Event-ID": wrong})
        assert answer.status == 400


async def test_stored_offsets(root: Api) -> None:
    topic = await root.create_topic("committed")
    await root.ok("POST", f"{topic}/messages", batch(b"0", b"1", b"2"))
    path = f"{topic}/events?kind=next&auto_commit=true&consumer_id=me"
    async with watching(root, path) as events:
        assert [await events.payload() for _ in range(3)] == [b"0", b"1", b"2"]
        # An offset is stored after its message was sent, so the message may be here first.
        async with asyncio.timeout(WAIT_SECONDS):
            while (stored := await root("GET", f"{topic}/consumer-offsets?consumer_id=me")).status == 404:
                await asyncio.sleep(0.01)
    assert stored.data["stored_offset"] == 2
    await root.ok("POST", f"{topic}/messages", batch(b"3"))
    async with watching(root, path) as events:
        assert await events.payload() == b"3"


async def test_refusals_have_a_status(root: Api) -> None:
    topic = await root.create_topic("unwatched")
    guest = await root.create_user("cannot-watch", rights())
    for path, status in ((f"{topic}/events", 403), ("/streams/unwatched/topics/x/events", 403)):
        assert (await guest("GET", path)).status in {status, 404}
    assert (await root("GET", f"{topic}/events?partition_id=7")).code == 3007
    assert (await root("GET", f"{topic}/events?kind=sometimes")).status == 400


@pytest.mark.parametrize("end", ["topic", "right", "user"])
async def test_what_ends_ends_the_events(root: Api, end: str) -> None:
    topic = await root.create_topic(f"ending-{end}")
    name = f"reader-{end}"
    reader = await root.create_user(name, rights("poll_messages", "read_topics"))
    async with watching(reader, f"{topic}/events?kind=first") as events:
        await root.ok("POST", f"{topic}/messages", batch(b"x"))
        assert await events.payload() == b"x"
        if end == "topic":
            await root.ok("DELETE", topic)
        elif end == "right":
            await root.ok("PUT", f"/users/{name}/permissions", {"permissions": rights()})
        else:
            await root.ok("DELETE", f"/users/{name}")
        event = await events.next()
        assert event["event"] == "error"
        codes = {"topic": {1009, 2010, 3007}, "right": {41}, "user": {40}}
        assert json.loads(event["data"])["id"] in codes[end]
        assert await events.next() == {}


async def test_those_who_wait_are_counted_and_end_with_the_server(start_server: StartServer, reach: Reach) -> None:
    server = start_server({"HTTP_MAX_WAITS": "4"})
    root = await reach(server).login()
    topic = await root.create_topic("counted")
    waiting = asyncio.ensure_future(root("GET", f"{topic}/messages?wait_ms=60000"))
    async with watching(root, f"{topic}/events") as events:
        # The waiting request may arrive after the first of these.
        async with asyncio.timeout(WAIT_SECONDS):
            while (full := await root("GET", f"{topic}/messages?wait_ms=1")).status == 200:
                pass
        assert (full.status, full.headers["Retry-After"]) == (429, "1")
        assert (await root("GET", f"{topic}/messages")).status == 200
        started = time.monotonic()
        stopped = asyncio.create_task(asyncio.to_thread(server.stop))
        assert await events.next() == {}
        assert (await waiting).status == 503
        assert await stopped == 0
        # Well before the timeout of the waiting request.
        assert time.monotonic() - started < 15


async def test_a_client_that_leaves_makes_room(start_server: StartServer, reach: Reach) -> None:
    root = await reach(start_server({"HTTP_MAX_WAITS": "1"})).login()
    topic = await root.create_topic("left")
    for _ in range(3):
        async with watching(root, f"{topic}/events"):
            pass
        deadline = time.monotonic() + WAIT_SECONDS
        while (await root("GET", f"{topic}/messages?wait_ms=1")).status == 429:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.1)
