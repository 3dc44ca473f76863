from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import aiohttp
import pytest

from tests.apis.http.api import Api
from tests.server_process import ServerProcess

Reach = Callable[[ServerProcess], Api]


@pytest.fixture
async def reach() -> AsyncIterator[Reach]:
    """Create clients of servers that a test starts itself."""
    async with aiohttp.ClientSession() as session:
        yield lambda server: Api(session, server.http_url)


@pytest.fixture
def anonymous(reach: Reach, shared_server: ServerProcess) -> Api:
    """An unauthenticated client of the module's server."""
    return reach(shared_server)


@pytest.fixture
async def root(anonymous: Api) -> Api:
    """A client of the module's server logged in as root."""
    return await anonymous.login()
