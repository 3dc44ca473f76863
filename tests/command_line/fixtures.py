"""Fixtures of tests that run commands: a server, and the commands with its address and a login."""

import os
from collections.abc import Iterator

import pytest

from headrace_embedded import Server
from tests.command_line.shell import Shell


@pytest.fixture(scope="session")
def driver() -> dict[str, str]:
    """Settings for an embedded server: the driver selected for this test run, if any."""
    chosen = os.environ.get("HEADRACE_RUNTIME_DRIVER")
    return {"runtime.driver": chosen} if chosen else {}


@pytest.fixture(scope="module")
def server(driver: dict[str, str]) -> Iterator[Server]:
    with Server(settings=driver) as server:
        yield server


@pytest.fixture
def headrace(server: Server) -> Shell:
    return Shell(server)


@pytest.fixture
def topic(headrace: Shell, request: pytest.FixtureRequest) -> Iterator[tuple[str, str]]:
    """A topic of two partitions in a stream with the test's name."""
    stream = request.node.name[:200]
    headrace("stream", "create", stream)
    headrace("topic", "create", stream, "t", "--partitions", "2")
    yield stream, "t"
    headrace("stream", "delete", stream, "--yes")
