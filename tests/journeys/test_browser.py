"""The repository's own client for browsers, by its own tests in Node, against whatever there is (GW-5)."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.journeys.conftest import SHAPES
from tests.journeys.deployment.place import Place

CLIENT = Path(__file__).resolve().parents[2] / "web/client"
NODE = Path(__file__).resolve().parents[2] / ".venv/bin/node"


@pytest.mark.long(but=1)
# It sees only a gateway: two of them, with nodes behind them, are the deployment that has more.
@pytest.mark.parametrize("place", SHAPES[-1:], indirect=True)
def test_the_client_for_browsers(place: Place) -> None:
    """Messages, filters, credit, acknowledging, breaks of the connection, tokens that end."""
    environment = os.environ | {
        "HEADRACE_URL": f"http://{place.there.http}",
        "HEADRACE_USER": place.root.username,
        "HEADRACE_PASSWORD": place.root.password,
    }
    command = [NODE, "--test", "--test-timeout=200000", "tests/messages.test.ts", "tests/connections.test.ts"]
    done = subprocess.run(
        command, cwd=CLIENT, env=environment, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, f"{done.stdout[-20_000:]}\n{done.stderr[-5000:]}"
