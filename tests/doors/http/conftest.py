from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import aiohttp
import pytest

from tests.doors.http.api import Api
from tests.server_process import ServerProcess

Reach = Callable[[ServerProcess], Api]


@pytest.fixture
async def reach() -> AsyncIterator[Reach]:
    """A client of a server that a test starts by itself."""
    async with aiohttp.ClientSession() as session:
        yield lambda server: Api(session, server.http_url)


@pytest.fixture
def nobody(reach: Reach, shared_server: ServerProcess) -> Api:
    """A client of the module's server without a login."""
    return reach(shared_server)


@pytest.fixture
async def root(nobody: Api) -> Api:
    """A client of the module's server who may do everything."""
    return await nobody.login()
