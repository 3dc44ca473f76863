"""Places of connections at a gRPC port: who leaves, and who stays."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, closing, suppress

from headrace_chassis.grpc.places import Places
from headrace_chassis.grpc.server import serving
from headrace_settings import Address

COUNT_MAX = 16
ANYWHERE = Address.parse("127.0.0.1:0")
KEPT = 2
"""Connections of one address without a login that stay while places are short."""


@asynccontextmanager
async def listening() -> AsyncIterator[tuple[Places, Address]]:
    """Serve with places that are looked after by the test alone."""
    places = Places(COUNT_MAX, "grpc.max_connections")
    async with serving(ANYWHERE, lambda _: None, names=(), options=places.options) as served:
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
        with suppress(ConnectionError):
            while await asyncio.get_running_loop().sock_recv(connection, 65_536):
                pass


async def test_who_has_not_logged_in_leaves() -> None:
    """The oldest ones of the address with most of them; a user keeps the connection, and another address its own."""
    with ExitStack() as stack:
        async with listening() as (places, address):

            async def opened(source: str) -> tuple[socket.socket, str]:
                connection = stack.enter_context(closing(connected(address, source)))
                peer = await accepted(connection)
                # Each is in a list of its own, so their order is known.
                places.make_room(address.port)
                return connection, peer

            known, peer = await opened("127.0.0.2")
            places.has_logged_in(peer, 7)
            other, _ = await opened("127.0.0.3")
            unknown = [(await opened("127.0.0.2"))[0] for _ in range(COUNT_MAX - 2)]
            await has_left(unknown[0])
            assert is_open(unknown[-1])
            assert is_open(known)
            assert is_open(other)


async def test_a_user_keeps_half() -> None:
    """Connections of one user beyond half of all places count as those of the address."""
    with ExitStack() as stack:
        async with listening() as (places, address):

            async def opened() -> tuple[socket.socket, str]:
                connection = stack.enter_context(closing(connected(address, "127.0.0.2")))
                return connection, await accepted(connection)

            # Not yet short of places.
            connections = []
            for _ in range(COUNT_MAX * 7 // 8 - 1):
                connection, peer = await opened()
                assert not places.make_room(address.port)
                places.has_logged_in(peer, 7)
                connections.append(connection)
            late, _ = await opened()
            assert places.make_room(address.port)
            stay = COUNT_MAX // 2 + KEPT - 1
            for connection in connections[:-stay]:
                await has_left(connection)
            assert is_open(late)
            assert sum(map(is_open, connections)) == stay


async def test_a_server_looks_after_its_places() -> None:
    places = Places(COUNT_MAX, "grpc.max_connections")
    with ExitStack() as stack:
        async with serving(ANYWHERE, lambda _: None, names=(), places=places) as served:
            address = served.address
            sockets = [stack.enter_context(closing(connected(address, "127.0.0.2"))) for _ in range(COUNT_MAX - 1)]
            leaving = [asyncio.create_task(has_left(connection)) for connection in sockets]
            _, stay = await asyncio.wait(leaving, timeout=30, return_when=asyncio.FIRST_COMPLETED)
            assert len(stay) < len(leaving)
            for task in stay:
                task.cancel()
            await asyncio.wait(leaving)
