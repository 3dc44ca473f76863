"""The same containers where io_uring is blocked, as it is by default in current engines."""

from __future__ import annotations

import pytest

from tests.containers.cluster import GATEWAYS, NODES, SERVICES, Containers, variables
from tests.containers.load import Entrance, Load
from tests.containers.test_confinement import rings
from tests.containers.test_kills import die
from tests.containers.test_use import test_the_journeys as journeys


@pytest.fixture(scope="module")
def blocked(containers: Containers) -> Containers:
    """The cluster on the same data, without io_uring."""
    containers.up(variables("fallback.env"))
    return containers


@pytest.mark.parametrize("service", SERVICES)
def test_the_calls_are_refused(blocked: Containers, service: str) -> None:
    asking = "import ctypes, os; c = ctypes.CDLL(None, use_errno=True); c.syscall(425, 1, 0); print(ctypes.get_errno())"
    assert blocked.inside(service, f"python -c '{asking}'").strip() == "1", "EPERM"
    assert rings(blocked, service) == 0


def test_the_journeys(blocked: Containers, entrance: Entrance) -> None:
    """All of them, on the fallback driver."""
    journeys(blocked, entrance)


def test_a_node_and_a_gateway_die(blocked: Containers, entrance: Entrance, name: str) -> None:
    load = Load(entrance, name, seed=5)
    with load.running():
        for service in (NODES[0], GATEWAYS[0]):
            die(blocked, service)
            load.wait_progress()
    load.check()
