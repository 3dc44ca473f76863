from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import aiohttp
import pytest

from tests.apis.http.api import Api
from tests.cluster import Cluster, Settings

# Small and quick settings, so that waits are short.
GATEWAY: Settings = {
    "system.memory_pool.size": "64 MiB",
    "system.memory_pool.small": True,
    "system.sharding.cpu_allocation": "1",
    "http.metrics.login_required": True,
    # A gateway that is paused for longer loses its members for ever.
    "consumer_group.gateway_timeout": "10 s",
    "consumer_group.rebalancing_check_interval": "500 ms",
    "links.unsent_timeout": "5 s",
}
NODE: Settings = {
    "system.memory_pool.size": "64 MiB",
    "system.memory_pool.small": True,
    "system.sharding.cpu_allocation": "1",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three replicas, two partition nodes, two gateways."""
    directory: Path = tmp_path_factory.mktemp("cluster")
    with Cluster(directory, node_settings=NODE, gateway_settings=GATEWAY) as running:
        yield running


@pytest.fixture
async def apis(cluster: Cluster) -> AsyncIterator[list[Api]]:
    """Unauthenticated HTTP clients, one per gateway."""
    async with aiohttp.ClientSession() as session:
        yield [Api(session, f"http://{gateway.listeners.http}") for gateway in cluster.gateways]


@pytest.fixture
async def roots(apis: list[Api]) -> list[Api]:
    """HTTP clients logged in as root, one per gateway."""
    return [await api.login() for api in apis]


@pytest.fixture
async def root(roots: list[Api]) -> Api:
    """HTTP client of the first gateway, logged in as root."""
    return roots[0]
