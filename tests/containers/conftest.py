"""One cluster for all tests; what it wrote is shown when one fails."""

from __future__ import annotations

import time
import uuid
from collections.abc import Generator, Iterator

import pytest

from tests.containers.cluster import Containers
from tests.containers.load import Entrance

_CLUSTER = pytest.StashKey[Containers]()
STOP_SECONDS = 30.0
"""Maximum time until everything is stopped: each service before those that it uses."""


@pytest.fixture(scope="session")
def containers(request: pytest.FixtureRequest) -> Iterator[Containers]:
    """One cluster for the whole session, with whichever settings a module wants."""
    containers = Containers()
    request.config.stash[_CLUSTER] = containers
    containers.destroy()  # what an interrupted run has left behind
    try:
        containers.up()
        yield containers
        containers.assert_quiet()
    finally:
        del request.config.stash[_CLUSTER]
        began = time.monotonic()
        containers.destroy()
    assert time.monotonic() - began < STOP_SECONDS


@pytest.fixture(scope="module")
def cluster(containers: Containers) -> Containers:
    """Everything of `compose.yaml` as it stands there, healthy."""
    containers.up()
    return containers


@pytest.fixture(scope="session")
def entrance(containers: Containers) -> Entrance:
    """The balancer, as root."""
    return Entrance(containers.listeners.tcp, "iggy", containers.password())


@pytest.fixture
def name() -> str:
    """A unique name."""
    return f"c-{uuid.uuid4().hex[:12]}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed and (cluster := item.config.stash.get(_CLUSTER, None)) is not None:
        report.sections.append(("logs of the containers", cluster.logs()))
    return report
