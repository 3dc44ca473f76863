"""A thin client of the push API."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import struct
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from tests.apis.http.api import Api, b64

WAIT_SECONDS = 20
JSON = "headrace.v1.json"
BINARY = "headrace.v1.binary"
PLENTY = {"messages": 100_000, "bytes": 10_000_000}

_MESSAGES = struct.Struct("<B3xIIIIIQQQ")


class Refusal(Exception):
    """Error response to a request."""

    def __init__(self, answer: dict[str, Any]) -> None:
        super().__init__(answer)
        self.code: int = answer["code"]
        self.field: str | None = answer["field"]
        self.reason: str = answer["reason"]


class Closed(Exception):
    """The server has closed the connection."""

    def __init__(self, code: int | None) -> None:
        super().__init__(code)
        self.code = code


@dataclass
class Browser:
    """One connection. Messages that are not responses are kept in `events` until a test reads them."""

    socket: aiohttp.ClientWebSocketResponse
    subprotocol: str
    events: deque[dict[str, Any]] = field(default_factory=deque)
    ids: Any = field(default_factory=lambda: itertools.count(1))

    async def send(self, **message: Any) -> None:
        await self.socket.send_json(message)

    async def read(self) -> dict[str, Any]:
        """Read the next message of any type; binary messages are converted to the form of the others."""
        message = await self.socket.receive(WAIT_SECONDS)
        if message.type is aiohttp.WSMsgType.TEXT:
            return dict(json.loads(message.data))
        if message.type is aiohttp.WSMsgType.BINARY:
            assert self.subprotocol == BINARY
            return decoded(message.data)
        # Use the code of the server's close frame. The library reports 1006 if its own close frame came too late.
        raise Closed(message.data if message.type is aiohttp.WSMsgType.CLOSE else self.socket.close_code)

    async def ask(self, kind: str, **fields: Any) -> dict[str, Any]:
        """Send a request and return its response."""
        number = next(self.ids)
        await self.send(type=kind, id=number, **fields)
        return await self.answer(number)

    async def answer(self, number: int) -> dict[str, Any]:
        while True:
            message = await self.read()
            if message["type"] == "error" and message["id"] == number:
                raise Refusal(message)
            if message["type"] == "ok" and message["id"] == number:
                return message
            self.events.append(message)

    async def event(self, *kinds: str) -> dict[str, Any]:
        """The next event of these types; any other event except a heartbeat is a failure."""
        async with asyncio.timeout(WAIT_SECONDS):
            while True:
                message = self.events.popleft() if self.events else await self.read()
                if message["type"] != "heartbeat" or "heartbeat" in kinds:
                    assert message["type"] in kinds, message
                    return message

    async def closed(self) -> int | None:
        """The server's close code; preceding messages are skipped."""
        try:
            while True:
                await self.read()
        except Closed as end:
            return end.code

    async def login(self, token: str | None) -> dict[str, Any]:
        return await self.ask("login", token=token)

    async def subscribe(
        self, stream: str | int, topic: str | int = "t", number: int = 1, **more: Any
    ) -> dict[str, Any]:
        """Subscribe to one topic; fields of the topic are recognised by name."""
        of_topic = {name: more.pop(name) for name in ("partitions", "start", "positions") if name in more}
        more.setdefault("credit", PLENTY)
        topics = [{"stream": stream, "topic": topic, **of_topic}]
        return await self.ask("subscribe", subscription=number, topics=topics, **more)

    async def messages(self, count: int) -> list[dict[str, Any]]:
        """The next messages, from one or several frames."""
        found: list[dict[str, Any]] = []
        while len(found) < count:
            found += (await self.event("messages"))["messages"]
        assert len(found) == count, found
        return found

    async def payloads(self, count: int) -> list[bytes]:
        return [base64.b64decode(message["payload"]) for message in await self.messages(count)]

    async def silence(self, seconds: float = 0.3) -> None:
        """Verify that only heartbeats arrive for some time."""
        assert not [event for event in self.events if event["type"] != "heartbeat"], self.events
        try:
            async with asyncio.timeout(seconds):
                while True:
                    message = await self.read()
                    assert message["type"] == "heartbeat", message
        except TimeoutError:
            pass


def decoded(frame: bytes) -> dict[str, Any]:
    kind, subscription, stream, topic, partition, count, incarnation, purges, next_offset = _MESSAGES.unpack_from(frame)
    assert kind == 1
    messages, position = [], _MESSAGES.size
    while position < len(frame):
        _, low, high, offset, timestamp, origin, headers_bytes, payload_bytes, zero = struct.unpack_from(
            "<QQQQQQIIQ", frame, position
        )
        assert zero == 0
        position += 64
        payload = frame[position : position + payload_bytes]
        headers = frame[position + payload_bytes : position + payload_bytes + headers_bytes]
        position += payload_bytes + headers_bytes
        messages.append(
            {
                "offset": offset,
                "timestamp": timestamp,
                "origin_timestamp": origin,
                "id": str(high << 64 | low),
                "headers": headers,
                "payload": b64(payload),
            }
        )
    assert len(messages) == count
    return {
        "type": "messages",
        "subscription": subscription,
        "stream_id": stream,
        "topic_id": topic,
        "partition_id": partition,
        "epoch": f"{incarnation}.{purges}",
        "next_offset": next_offset,
        "messages": messages,
    }


@asynccontextmanager
async def connected(api: Api, subprotocol: str = JSON, **headers: str) -> AsyncIterator[Browser]:
    """Open an unauthenticated connection."""
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    async with api.session.ws_connect(api.url + "/ws", protocols=[subprotocol], headers=sent, max_msg_size=0) as socket:
        assert socket.protocol == subprotocol
        yield Browser(socket, subprotocol)


@asynccontextmanager
async def logged_in(api: Api, subprotocol: str = JSON) -> AsyncIterator[Browser]:
    """Open a connection authenticated as the user of an HTTP client."""
    async with connected(api, subprotocol) as browser:
        await browser.login(api.token)
        yield browser


async def connections_are(root: Api, count: int) -> None:
    """Wait until the server has this number of connections: a slot is released shortly after a connection ends."""
    async with asyncio.timeout(20):
        while f"headrace_push_connections {count}.0" not in (await root("GET", "/metrics")).body.decode():
            await asyncio.sleep(0.02)
