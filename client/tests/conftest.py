"""Fixtures of all tests in this directory."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# In this import mode a test directory is not on the path by itself.
sys.path.insert(0, str(Path(__file__).parent))

from command_shell import Shell

from headrace.embedded import Server


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
