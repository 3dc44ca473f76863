"""A cluster shared by all tests here; each test leaves it with all processes running."""

from __future__ import annotations

from collections.abc import Generator, Iterator

import pytest

from tests.cluster import Cluster


@pytest.fixture(scope="package")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three replicas, two nodes, two gateways."""
    with Cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def everything_runs(cluster: Cluster) -> None:
    """Start every process that the previous test has left stopped."""
    cluster.start()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the output of the processes when a test fails."""
    report = yield
    cluster = getattr(item, "funcargs", {}).get("cluster")
    if report.failed and isinstance(cluster, Cluster):
        report.sections += [(f"log of {process}", log) for process, log in cluster.logs().items()]
    return report
