"""Servers for tests; what they wrote is shown when a test fails."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.server_process import ServerProcess

TWO_SHARDS = {"SYSTEM_SHARDING_CPU_ALLOCATION": "all", "SYSTEM_MEMORY_POOL_SIZE": "1 GiB"}
"""One shard per CPU, so that requests are handed over between shards wherever there is more than one."""

StartServer = Callable[..., ServerProcess]

_SHOWN = "shown"
_SERVERS = pytest.StashKey[list[ServerProcess]]()


def ended_well(server: ServerProcess) -> None:
    """Stop what still runs; neither a panic nor a traceback may have gone unnoticed."""
    if server.is_running:
        assert server.stop() == 0, server.log_tail()
    log = server.log.read_text(encoding="utf-8", errors="replace")
    for word in ("panicked at", "Traceback (most recent call last)"):
        assert word not in log, server.log_tail()


@pytest.fixture
def start_server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StartServer]:
    """Start servers: `start_server(settings)`; each call has a data folder of its own."""
    servers = request.node.stash.setdefault(_SERVERS, [])
    with ExitStack() as stack:

        def start(settings: dict[str, str] | None = None) -> ServerProcess:
            server = ServerProcess(tmp_path / f"data-{len(servers)}", TWO_SHARDS | (settings or {}))
            servers.append(server)
            stack.callback(ended_well, server)
            return server.start()

        yield start


@pytest.fixture
def server(start_server: StartServer) -> ServerProcess:
    """A server of the test's own."""
    return start_server()


@pytest.fixture(scope="module")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """One server for the tests of a module, which therefore keep to names of their own."""
    server = ServerProcess(tmp_path_factory.mktemp("shared") / "data", TWO_SHARDS)
    with server:
        yield server
    ended_well(server)


@pytest.fixture
def stream(request: pytest.FixtureRequest) -> str:
    """A name that belongs to one test of the module."""
    name = str(request.node.name)
    return name if len(name) <= 255 else name[:200] + hashlib.sha256(name.encode()).hexdigest()[:16]


@pytest.fixture
def show(request: pytest.FixtureRequest) -> Iterator[list[str]]:
    """Lines for whoever reads the log, whatever becomes of the test: figures, and the seed that repeats it."""
    lines: list[str] = []
    yield lines
    request.node.user_properties.append((_SHOWN, "\n".join(lines)))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print at the end what tests have to show, which workers could not do by themselves."""
    reports = [report for found in terminalreporter.stats.values() for report in found]
    for report in reports:
        if isinstance(report, pytest.TestReport) and report.when == "teardown":
            for name, lines in report.user_properties:
                if name == _SHOWN:
                    terminalreporter.write_line(f"{report.nodeid}:")
                    terminalreporter.write_line(str(lines))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        shared = getattr(item, "funcargs", {}).get("shared_server")
        for server in [*item.stash.get(_SERVERS, []), *([shared] if shared else [])]:
            report.sections.append((f"log of the server on {server.data}", server.log_tail()))
    return report
