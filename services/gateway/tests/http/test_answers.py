"""Answers: counted until their clients have taken them, cut to a size, and given up with clients that do not read."""

import asyncio
import json
import socket
import struct
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from tests.compatibility.protocol import frames

from headrace_gateway.http import answers
from headrace_gateway.http.polls import cut
from headrace_gateway.http.server import _RequestHandler
from headrace_node.connections.sessions import Response
from headrace_proto.errors import Status

POLL = "/streams/s/topics/t/messages?partition_id=0&kind=first&count=100"
LARGE = 200_000


def polled(*payloads):
    messages = b"".join(frames.message(payload, message_id=n + 1, offset=n) for n, payload in enumerate(payloads))
    return bytes(16) + struct.pack("<IQI", 3, max(0, len(payloads) - 1), len(payloads)) + messages


class Node:
    """Answers polls, and records what else it is asked."""

    def __init__(self, *payloads):
        self.payload = polled(*payloads)
        self.stored = []

    async def call(self, _user_id, code, payload=b"", *, admit=None):
        if code == 121:
            self.stored.append(struct.unpack("<Q", payload[-8:])[0])
            return Response(Status.OK, b"")
        if len(self.payload) > 64 * 1024 and admit is not None:
            admit(len(self.payload))
        return Response(Status.OK, self.payload)


@asynccontextmanager
async def served(application):
    """Serve as the server does; yield the address."""
    runner = web.AppRunner(application.build())
    await runner.setup()
    loop = asyncio.get_running_loop()
    listener = socket.create_server(("127.0.0.1", 0))
    # The operating system takes little for a client that does not read.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    listening = await loop.create_server(
        lambda: _RequestHandler(runner.server, loop=loop, access_log=None), sock=listener
    )
    try:
        yield listening.sockets[0].getsockname()
    finally:
        listening.close()
        await runner.cleanup()


@asynccontextmanager
async def asked(address, user=1, path=POLL):
    """Send a request over a connection that takes little unless it is read."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.settimeout(0)
    await asyncio.get_running_loop().sock_connect(connection, address)
    reader, writer = await asyncio.open_connection(sock=connection, limit=2**24)
    reader._transport.pause_reading()
    writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {user}\r\n\r\n".encode())
    try:
        yield reader
    finally:
        writer.transport.abort()


async def answer(reader):
    reader._transport.resume_reading()
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    return int(head.split()[1]), await reader.readexactly(length)


async def until(condition):
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.005)


def serving(application, node):
    object.__setattr__(application._services, "sessions", node)
    return served(application)


async def test_unread_answers_are_counted(application):
    """Regression: only bodies of requests were counted, and each unread poll took its memory twice and more."""
    memory = application.memory
    async with serving(application, Node(*[bytes(LARGE)] * 4)) as address:
        async with asked(address) as first:
            await until(lambda: memory.used_bytes > 1_050_000 and memory.used_bytes < 1_150_000)
            async with asked(address) as second:
                status, body = await answer(second)
                assert (status, json.loads(body)["id"]) == (503, 503), "one user has half of the memory"
            async with asked(address, user=2) as other:
                assert (await answer(other))[0] == 200
            status, body = await answer(first)
            assert (status, len(json.loads(body)["messages"])) == (200, 4)
        await until(lambda: memory.used_bytes == 0)


async def test_clients_that_do_not_read_are_disconnected(application, monkeypatch):
    monkeypatch.setattr(answers, "PIECE_SECONDS", 0.2)
    async with serving(application, Node(*[bytes(LARGE)] * 5)) as address, asked(address) as silent:
        await until(lambda: application.memory.used_bytes > 0)
        await until(lambda: application.memory.used_bytes == 0)
        silent._transport.resume_reading()
        with pytest.raises(ConnectionError):
            await silent.read()


async def test_offsets_of_answers_that_are_refused_or_cut_are_not_stored(application):
    node = Node(*[bytes(LARGE)] * 60)
    async with serving(application, node) as address:
        with application.memory.held_by(1) as used:
            used.resize(1_000_000)
            async with asked(address, path=POLL + "&auto_commit=true") as refused:
                assert (await answer(refused))[0] == 503
        assert node.stored == []
        async with asked(address, path=POLL + "&auto_commit=true") as read:
            status, body = await answer(read)
        found = json.loads(body)["messages"]
        assert status == 200
        assert 35 < len(found) < 45, "8 MiB of them"
        assert node.stored == [len(found) - 1]


async def test_small_answers_are_not_refused(application):
    async with serving(application, Node(b"x")) as address:
        with application.memory.held_by(1) as one, application.memory.held_by(2) as other:
            one.resize(2**21)
            other.resize(2**21)
            async with asked(address) as small:
                assert (await answer(small))[0] == 200


@pytest.mark.parametrize(
    ("size_max", "left"), [(10_000, 3), (3 * 164, 3), (3 * 164 - 1, 2), (164, 1), (163, 1), (1, 1)]
)
def test_cut_polls(size_max, left):
    whole = polled(*[bytes(100)] * 3)
    found = cut(whole, size_max)
    assert found[:28] == whole[:28]
    assert found[28:32] == struct.pack("<I", left)
    assert found[32:] == whole[32 : 32 + left * 164]


async def test_a_poll_of_nothing_is_not_cut():
    assert cut(polled(), 1) == polled()
