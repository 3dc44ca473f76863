"""Health and metrics over HTTP: limits of connections."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress

import aiohttp
import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry

from headrace_chassis import admin_http
from headrace_chassis.lifecycle import Health
from headrace_settings import Address


def serving(**limits):
    registry = CollectorRegistry()
    address = Address.parse("127.0.0.1:0")
    return admin_http.serving(
        address, health=lambda: Health("ok", is_ready=True), metrics=registry, limits=admin_http.Limits(**limits)
    )


async def connected(address):
    return await asyncio.open_connection(str(address.ip), address.port)


async def is_closed(reader):
    with suppress(ConnectionError):
        return await asyncio.wait_for(reader.read(1), 20) == b""
    return True


async def test_connections_have_a_maximum():
    async with serving(connections=3) as address:
        held = [await connected(address) for _ in range(3)]
        reader, refused = await connected(address)
        assert await is_closed(reader)
        refused.close()
        held[0][1].close()
        await held[0][1].wait_closed()
        async with aiohttp.ClientSession(f"http://{address}") as session:
            while True:
                with suppress(aiohttp.ClientError):
                    async with session.get("/live") as answer:
                        assert answer.status == 200
                        break
        for _, writer in held[1:]:
            writer.close()


async def test_a_connection_without_a_request_is_closed():
    async with serving(first_request_seconds=1.0) as address:
        silent, one = await connected(address)
        slow, two = await connected(address)
        two.write(b"GET /live HTTP/1.1\r\nHost:")
        asked, other = await connected(address)
        other.write(b"GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert (await asked.readuntil(b"}")).startswith(b"HTTP/1.1 200")
        assert await is_closed(silent)
        assert await is_closed(slow)
        # One that has asked is kept.
        other.write(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert (await asked.readuntil(b"}")).startswith(b"HTTP/1.1 200")
        for writer in (one, two, other):
            writer.close()


@asynccontextmanager
async def echoing(**limits):
    async def echo(request):
        return web.Response(body=await request.read())

    async def known(request):
        return web.Response(status=401)

    application = web.Application()
    application.router.add_post("/", echo)
    application.router.add_post("/known", known)
    async with admin_http.listening(
        application, Address.parse("127.0.0.1:0"), limits=admin_http.Limits(**limits)
    ) as address:
        yield address


async def test_a_body_has_to_arrive_in_time(caplog):
    async with echoing(body_seconds=0.5) as address:
        reader, writer = await connected(address)
        writer.write(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n12345")
        assert (await reader.readuntil(b"in time")).startswith(b"HTTP/1.1 408")
        assert await is_closed(reader)
        writer.close()
        # A whole one has its answer.
        async with (
            aiohttp.ClientSession(f"http://{address}") as session,
            session.post("/", data=b"x" * 500_000) as answer,
        ):
            assert (answer.status, len(await answer.read())) == (200, 500_000)
    assert not caplog.records


@pytest.mark.parametrize(("path", "status"), [("/known", 401), ("/nothing", 404)])
async def test_who_is_refused_does_not_keep_a_connection(path, status):
    async with echoing() as address:
        reader, writer = await connected(address)
        writer.write(f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n".encode())
        answer = await asyncio.wait_for(reader.read(), 20)
        assert answer.startswith(f"HTTP/1.1 {status}".encode())
        writer.close()
