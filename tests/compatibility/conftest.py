"""Connections to the server that a module's tests share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.compatibility.raw import RawConnection
from tests.compatibility.websocket import WebSocketConnection
from tests.server_process import ServerProcess

Connect = Callable[[], RawConnection]
Door = tuple[type[RawConnection], str]
"""How to connect, and where."""


@pytest.fixture
def transport(request: pytest.FixtureRequest) -> str:
    """What connections are made by: `tcp`, unless the module says that it shows something of every transport."""
    return str(getattr(request, "param", "tcp"))


@pytest.fixture
def door(shared_server: ServerProcess, transport: str) -> Door:
    """How to connect, and where."""
    if transport == "websocket":
        return WebSocketConnection, shared_server.websocket_address
    return RawConnection, shared_server.address


@pytest.fixture
def connect(door: Door) -> Iterator[Connect]:
    """Open connections that are not logged in."""
    connection, address = door
    with ExitStack() as stack:
        yield lambda: stack.enter_context(connection(address))


@pytest.fixture
def root(door: Door) -> Iterator[RawConnection]:
    """A connection of the root user."""
    connection, address = door
    with connection.as_root(address) as root:
        yield root
