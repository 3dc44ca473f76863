"""Health and metrics over HTTP: limits of connections."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import aiohttp
from prometheus_client import CollectorRegistry

from headrace_chassis import admin_http
from headrace_chassis.lifecycle import Health
from headrace_settings import Address


def serving():
    registry = CollectorRegistry()
    address = Address.parse("127.0.0.1:0")
    return admin_http.serving(address, health=lambda: Health("ok", is_ready=True), metrics=registry)


async def connected(address):
    return await asyncio.open_connection(str(address.ip), address.port)


async def is_closed(reader):
    with suppress(ConnectionError):
        return await asyncio.wait_for(reader.read(1), 20) == b""
    return True


async def test_connections_have_a_maximum(monkeypatch):
    monkeypatch.setattr(admin_http, "_CONNECTIONS_MAX", 3)
    async with serving() as address:
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


async def test_a_connection_without_a_request_is_closed(monkeypatch):
    monkeypatch.setattr(admin_http, "_FIRST_REQUEST_SECONDS", 1.0)
    async with serving() as address:
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
