"""Connections to the server that a module's tests share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.compatibility.raw import RawConnection
from tests.server_process import ServerProcess

Connect = Callable[[], RawConnection]


@pytest.fixture
def connect(shared_server: ServerProcess) -> Iterator[Connect]:
    """Open connections that are not logged in."""
    with ExitStack() as stack:
        yield lambda: stack.enter_context(RawConnection(shared_server.address))


@pytest.fixture
def root(shared_server: ServerProcess) -> Iterator[RawConnection]:
    """A connection of the root user."""
    with RawConnection.as_root(shared_server.address) as connection:
        yield connection


@pytest.fixture
def stream(request: pytest.FixtureRequest) -> str:
    """A name that belongs to one test of the module."""
    return str(request.node.name)[:255]
