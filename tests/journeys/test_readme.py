"""The five-minute tour works as it is typed."""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.embedded import Server

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server() as server:
        yield server


def typed(marker: str) -> str:
    """The fenced block of the README that contains `marker`."""
    blocks = re.findall(r"^```\w*\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL)
    (block,) = [block for block in blocks if marker in block]
    return block


def run_as_typed(script: str, server: Server) -> str:
    """Only the port differs from what a reader types: the usual one may be taken here."""
    result = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script.replace("127.0.0.1:8090", server.address)],
        cwd=ROOT,
        env=os.environ | {"HEADRACE_SERVER": server.address},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_the_official_client_and_then_the_command_line(server: Server) -> None:
    """GW-1: the official client works unmodified."""
    assert run_as_typed(typed("apache_iggy"), server).splitlines() == ["0 order 0", "1 order 1", "2 order 2"]
    shown = run_as_typed(typed("headrace poll"), server)
    assert "orders" in shown
    assert [line.split()[-1] for line in shown.splitlines() if re.match(r"0:\d+ ", line)] == ["998", "999", "1000"]


def test_the_embedded_server(server: Server) -> None:
    """USE-1: embedded with one call."""
    exec(compile(typed("from headrace.embedded import Server"), "README.md", "exec"), {})


def test_the_commands_of_the_readme_are_targets() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    assert set(re.findall(r"(?:^|`)make ([a-z-]+)", README, flags=re.MULTILINE)) <= targets
