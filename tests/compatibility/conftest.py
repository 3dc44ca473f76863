"""Connections to the server that the tests of a module share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.compatibility.protocol.raw import RawConnection
from tests.compatibility.protocol.websocket import WebSocketConnection
from tests.server_process import ServerProcess

Connect = Callable[[], RawConnection]
Listener = tuple[type[RawConnection], str]
"""Connection class and address."""


@pytest.fixture
def transport(request: pytest.FixtureRequest) -> str:
    """Transport of the connections: `tcp`, unless the module is parametrized over all transports."""
    return str(getattr(request, "param", "tcp"))


@pytest.fixture
def listener(shared_server: ServerProcess, transport: str) -> Listener:
    """Connection class and address of the selected transport."""
    if transport == "websocket":
        return WebSocketConnection, shared_server.websocket_address
    return RawConnection, shared_server.address


@pytest.fixture
def connect(listener: Listener) -> Iterator[Connect]:
    """Open unauthenticated connections."""
    connection, address = listener
    with ExitStack() as stack:
        yield lambda: stack.enter_context(connection(address))


@pytest.fixture
def root(listener: Listener) -> Iterator[RawConnection]:
    """Connection logged in as root."""
    connection, address = listener
    with connection.as_root(address) as root:
        yield root
