"""Fixtures for pytest, which finds them by itself once the package is installed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from headrace.sdk.client import Client
    from headrace.testing.server import LocalServer


@pytest.fixture(scope="session")
def headrace_server() -> Iterator[LocalServer]:
    """A real server for the whole test run, with temporary data; it starts with its first use."""
    # Programs that have nothing to do with Headrace pay nothing for the plugin.
    from headrace.testing.server import LocalServer  # noqa: PLC0415

    with LocalServer() as server:
        yield server


@pytest.fixture
def headrace_client(headrace_server: LocalServer) -> Iterator[Client]:
    """A client for one test, logged in as root."""
    from headrace.sdk.client import connect  # noqa: PLC0415

    with connect(headrace_server.url) as client:
        yield client


@pytest.fixture
def headrace_topic(headrace_server: LocalServer) -> tuple[str, str]:
    """Stream and name of a new topic with one partition, which no other test uses."""
    return headrace_server.fresh_topic()
