"""Places of connections at a gRPC port: who leaves, and who stays."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, closing

from headrace_chassis.grpc.places import Places
from headrace_chassis.grpc.server import serving
from headrace_settings import Address

COUNT_MAX = 16
KEPT = 2
"""Connections of one address without a login that stay while places are short."""


@asynccontextmanager
async def listening() -> AsyncIterator[tuple[Places, Address]]:
    places = Places(COUNT_MAX, "grpc.max_connections")
    anywhere = Address.parse("127.0.0.1:0")
    async with serving(anywhere, lambda _: None, names=(), places=places) as served:
        yield places, served.address


def connected(address: Address, source: str) -> socket.socket:
    connection = socket.create_connection((str(address.ip), address.port), 20, (source, 0))
    connection.settimeout(0)
    return connection


def is_open(connection: socket.socket) -> bool:
    try:
        while connection.recv(65_536):
            pass
    except BlockingIOError:
        return True
    except ConnectionError:
        pass
    return False


async def accepted(connection: socket.socket) -> str:
    """Wait until the library has greeted a connection; return the peer in its notation."""
    async with asyncio.timeout(30):
        assert await asyncio.get_running_loop().sock_recv(connection, 1)
    host, port = connection.getsockname()
    return f"ipv4:{host}:{port}"


async def has_left(connection: socket.socket) -> None:
    async with asyncio.timeout(30):
        while is_open(connection):
            await asyncio.sleep(0.01)


async def test_who_has_not_logged_in_leaves() -> None:
    """The oldest ones of the address with most of them; a user keeps the connection, and another address its own."""
    with ExitStack() as stack:
        async with listening() as (places, address):

            def opened(source: str) -> socket.socket:
                return stack.enter_context(closing(connected(address, source)))

            known, other = opened("127.0.0.2"), opened("127.0.0.3")
            places.has_logged_in(await accepted(known), 7)
            unknown = [opened("127.0.0.2") for _ in range(COUNT_MAX - 2)]
            await has_left(unknown[0])
            assert is_open(unknown[-1])
            assert is_open(known)
            assert is_open(other)


async def test_a_user_keeps_half() -> None:
    """Connections of one user beyond half of all places count as those of the address."""
    with ExitStack() as stack:
        async with listening() as (places, address):

            def opened() -> socket.socket:
                return stack.enter_context(closing(connected(address, "127.0.0.2")))

            # Not yet short of places.
            connections = [opened() for _ in range(COUNT_MAX * 7 // 8 - 1)]
            for connection in connections:
                places.has_logged_in(await accepted(connection), 7)
            late = opened()
            await has_left(connections[0])
            assert is_open(late)
            async with asyncio.timeout(30):
                while sum(map(is_open, connections)) > COUNT_MAX // 2 + KEPT - 1:
                    await asyncio.sleep(0.01)
            assert sum(map(is_open, connections)) == COUNT_MAX // 2 + KEPT - 1
