"""Clients of both flavours."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.sdk.flavours import FLAVOURS, Flavour
from tests.server_process import PASSWORD, USERNAME, ServerProcess


def url_of(address: str) -> str:
    """Return the URL of a server, with root's credentials."""
    return f"headrace://{USERNAME}:{PASSWORD}@{address}"


@pytest.fixture(params=FLAVOURS, ids=repr)
def flavour(request: pytest.FixtureRequest) -> Flavour:
    found: Flavour = request.param
    return found


@pytest.fixture
def url(shared_server: ServerProcess) -> str:
    return url_of(shared_server.address)


@pytest.fixture
async def client(flavour: Flavour, url: str, stream: str) -> AsyncIterator[Any]:
    """A client of one flavour; the stream of the test exists, with a topic `t` of two partitions."""
    async with flavour.connect(url) as client:
        await client.create_stream(stream)
        await client.create_topic(stream, "t", partitions=2)
        yield client
        await client.delete_stream(stream)
