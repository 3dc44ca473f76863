"""The JavaScript client of the push, by its own tests in Node (GW-5)."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.server_process import ServerProcess

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.long
def test_the_javascript_client(shared_server: ServerProcess) -> None:
    environment = os.environ | {"HEADRACE_URL": shared_server.http_url}
    command = [ROOT / ".venv/bin/node", "--test", "--test-timeout=200000", "tests/*.test.ts"]
    done = subprocess.run(
        command, cwd=ROOT / "web/client", env=environment, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, f"{done.stdout[-20_000:]}\n{done.stderr[-5000:]}"
