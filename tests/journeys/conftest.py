"""Deployments in which the journeys run one after the other; with addresses given, only there."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Protocol, TypeVar

import pytest

from tests.cluster import Cluster
from tests.conftest import TWO_SHARDS, ended_well
from tests.encryption.links import LinkFiles
from tests.journeys.deployment.api_clients import Api, BinaryApi
from tests.journeys.deployment.place import Account, Gateway, Place, given
from tests.server_process import ServerProcess

AnyApi = TypeVar("AnyApi", bound=Api)

GIVEN = given()
SHAPES = ["addresses"] if GIVEN else ["embedded", "processes"]


class At(Protocol):
    """Connects to an API of a gateway, as root by default."""

    def __call__(self, api: type[AnyApi], gateway: Gateway, account: Account = ...) -> AnyApi:
        """Return a client that is closed at the end of the test."""


@pytest.fixture(scope="session", params=SHAPES)
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """All processes of one deployment; objects created in it have unique names."""
    if GIVEN is not None:
        yield GIVEN
        return
    shape = {"embedded": embedded, "processes": processes}[request.param]
    with shape(tmp_path_factory.mktemp(request.param)) as place:
        yield place


@contextmanager
def embedded(directory: Path) -> Iterator[Place]:
    """The embedded server: one gateway."""
    server = ServerProcess(directory / "data", TWO_SHARDS)
    with server:
        yield Place(
            [Gateway.of(server)],
            restart=server.restart,
            logs=lambda: {"the embedded server": server.log_tail()},
        )
    ended_well(server)


@contextmanager
def processes(directory: Path) -> Iterator[Place]:
    """The services, each in a process of its own: two gateways, whose links with the nodes are encrypted."""
    files = LinkFiles(directory / "certificates")
    with Cluster(directory, node_settings=files.node_settings, gateway_settings=files.gateway_settings) as cluster:
        yield cluster.place


@pytest.fixture
def restart(place: Place) -> Callable[[], None]:
    """Restart all services. Such tests are deselected where a restart is not possible."""
    assert place.restart is not None
    return place.restart


@pytest.fixture
def name() -> str:
    """A unique name, even in a deployment with earlier data."""
    return f"j-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def at(place: Place) -> Iterator[At]:
    """Connect clients of any API."""
    with ExitStack() as stack:

        def stand(api: type[AnyApi], gateway: Gateway, account: Account = place.root) -> AnyApi:
            return stack.enter_context(api(gateway, account))

        yield stand


@pytest.fixture
def root(place: Place) -> Iterator[BinaryApi]:
    """Root's client of the binary protocol at the first gateway."""
    with BinaryApi(place.here, place.root) as api:
        yield api


@pytest.fixture
def stream(root: BinaryApi, name: str) -> str:
    """A stream with a topic `t` of four partitions."""
    root.connection.create_topic(name, partitions=4)
    return name


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what restarts everything where that cannot be done."""
    if GIVEN is None or GIVEN.restart is not None:
        return
    left_out = [item for item in items if "restart" in getattr(item, "fixturenames", ())]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show what the processes wrote when a journey fails."""
    report = yield
    place = getattr(item, "funcargs", {}).get("place")
    if report.failed and isinstance(place, Place):
        report.sections += [(f"log of {process}", log) for process, log in place.logs().items()]
    return report
