"""Processes of a group that accepts changes."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.connectors.group.processes import Group
from tests.sdk.conftest import url_of
from tests.server_process import ServerProcess


@pytest.fixture
def group(shared_server: ServerProcess, tmp_path: Path, stream: str) -> Iterator[Group]:
    """A group without processes."""
    made = Group(tmp_path, url_of(shared_server.address), stream)
    yield made
    for process in made.processes:
        process.send_signal(signal.SIGCONT)
        process.kill()
        sys.stdout.write(f"---- {process.directory.name}\n{process.tail()}")
