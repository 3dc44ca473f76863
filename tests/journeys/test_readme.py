"""The five-minute tour of the README works as written."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.ports import free_port
from tests.server_process import ServerProcess

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
# Without what a `make` around this run was given: it would be for what a reader types, too.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name not in {"ARGS", "MAKEFLAGS", "MAKELEVEL"}}
LAST_OF_A_THOUSAND = ["998", "999", "1000"]


def typed(marker: str) -> str:
    """The fenced block of the README that contains `marker`."""
    blocks: list[str] = re.findall(r"^```\w*\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL)
    (block,) = [block for block in blocks if marker in block]
    return block


def run_as_typed(script: str, address: str) -> str:
    """Only the address differs from what a reader types: the usual port may be taken here."""
    result = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script.replace("127.0.0.1:8090", address)],
        cwd=ROOT,
        env=ENVIRONMENT | {"HEADRACE_SERVER": address},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@contextmanager
def made_up(script: str, data: Path, address: str) -> Iterator[str]:
    """`make up` in a terminal of its own, until Ctrl-C; gives the address really bound."""
    config = data / "runtime/current_config.toml"
    config.unlink(missing_ok=True)
    settings = {
        "HEADRACE_SYSTEM_PATH": str(data),
        "HEADRACE_TCP_ADDRESS": address,
        "HEADRACE_GRPC_ADDRESS": "127.0.0.1:0",
        "HEADRACE_PIPELINES_ADDRESS": "127.0.0.1:0",
        "HEADRACE_HTTP_ADDRESS": "127.0.0.1:0",
        "HEADRACE_WEBSOCKET_ADDRESS": "127.0.0.1:0",
        "HEADRACE_QUIC_ADDRESS": "127.0.0.1:0",
    }
    terminal = data.with_suffix(".terminal")
    with terminal.open("wb") as output:
        process = subprocess.Popen(
            # Setup has been done before this test; a build would disturb other tests.
            ["bash", "-euo", "pipefail", "-c", script.replace("make up", "make -o setup-up up")],
            cwd=ROOT,
            env=ENVIRONMENT | settings,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        deadline = time.monotonic() + 120
        while "Press Ctrl-C to stop" not in terminal.read_text():
            assert process.poll() is None, terminal.read_text()
            assert time.monotonic() < deadline, terminal.read_text()
            time.sleep(0.02)
        bound: str = tomllib.loads(config.read_text())["tcp"]["address"]
        yield bound
        os.killpg(process.pid, signal.SIGINT)
        process.wait(60)
        shown = terminal.read_text()
        for expected in ("is up after", bound, str(data), "driver", "stopped"):
            assert expected in shown, shown
        assert "Traceback" not in shown, shown
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def polled_lines(shown: str) -> list[str]:
    """The last word of every line that shows a message."""
    return [line.split()[-1] for line in shown.splitlines() if re.match(r"0:\d+ ", line)]


@pytest.mark.long
def test_the_tour(tmp_path: Path) -> None:
    """Start, the official client, the command line, stop, start again: everything is still there."""
    data = tmp_path / "local_data"
    commands = typed("headrace poll")
    chosen = f"127.0.0.1:{free_port()}"
    with made_up(typed("--with-default-root-credentials"), data, chosen) as address:
        assert address == chosen
        assert run_as_typed(typed("apache_iggy"), address).splitlines() == ["0 order 0", "1 order 1", "2 order 2"]
        shown = run_as_typed(commands, address)
        assert "orders" in shown
        assert polled_lines(shown) == LAST_OF_A_THOUSAND
    with made_up("make up", data, address) as same_address:
        assert same_address == address
        without_sending = "\n".join(line for line in commands.splitlines() if "headrace send" not in line)
        assert polled_lines(run_as_typed(without_sending, address)) == LAST_OF_A_THOUSAND


@pytest.mark.long
def test_a_password_is_generated_and_shown_once(tmp_path: Path) -> None:
    """Without the option of the tour, the password is known only from the output of the first start."""
    data = tmp_path / "local_data"
    passwords = []
    for _ in range(2):
        with made_up("make up", data, "127.0.0.1:0") as address:
            shown = data.with_suffix(".terminal").read_text()
            passwords += re.findall(r"^  password +(\w{20,40})", shown, flags=re.MULTILINE)
            command = f"HEADRACE_USERNAME=iggy HEADRACE_PASSWORD={passwords[0]} .venv/bin/headrace stats"
            run_as_typed(command, address)
    assert len(passwords) == 1


def test_the_python_client(server: ServerProcess) -> None:
    script = typed('headrace.connect("headrace://')
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", script.replace("127.0.0.1:8090", server.address)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == [f"{number} b'customer-7' b'order {number}'" for number in range(3)]


@pytest.mark.long
def test_the_embedded_server() -> None:
    """USE-1: a server within a program, with one call."""
    script = typed("from headrace_embedded import Server")
    subprocess.run([sys.executable, "-W", "error", "-c", script], cwd=ROOT, check=True, timeout=60)


@pytest.mark.parametrize("command", ["headrace config check", "headrace config show"])
def test_commands_of_the_text(server: ServerProcess, command: str) -> None:
    """The commands in the text exist."""
    assert f"`{command}`" in README
    run_as_typed(f".venv/bin/{command}", server.address)


def test_the_commands_of_the_readme_are_targets() -> None:
    """Every `make` of the README is a target of the Makefile."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    assert set(re.findall(r"(?:^|`)make ([a-z-]+)", README, flags=re.MULTILINE)) <= targets
