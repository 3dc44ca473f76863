"""A server, a database and the connectors between them."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import headrace
from tests.connectors.process import Connectors
from tests.postgresql import database, database_url, postgresql_server
from tests.sdk.conftest import url_of
from tests.sdk.proxy import Proxy
from tests.server_process import ServerProcess

__all__ = ["database", "database_url", "postgresql_server"]

_numbers = itertools.count()


@pytest.fixture
def stream() -> str:
    """A stream name of this test alone."""
    return f"stream-{next(_numbers)}"


@pytest.fixture
def client(shared_server: ServerProcess) -> Iterator[headrace.Client]:
    """A client of the shared server; the streams of the test are deleted at the end."""
    with headrace.connect(url_of(shared_server.address)) as client:
        before = {stream.name for stream in client.streams()}
        yield client
        for stream in client.streams():
            if stream.name not in before:
                client.delete_stream(stream.name)


@pytest.fixture
def connectors(shared_server: ServerProcess, tmp_path: Path) -> Iterator[Connectors]:
    """Connectors of the shared server; not started."""
    process = Connectors(tmp_path, url_of(shared_server.address))
    yield process
    process.kill()
    sys.stdout.write(process.tail())


@pytest.fixture
def proxy(shared_server: ServerProcess, connectors: Connectors) -> Iterator[Proxy]:
    """A proxy between the connectors and the server."""
    with Proxy(shared_server.address) as proxy:
        connectors.server_url = url_of(proxy.address)
        yield proxy
