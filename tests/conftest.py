"""Servers for tests; the log of a server is printed when its test fails."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.server_process import ServerProcess

TWO_SHARDS = {"SYSTEM_SHARDING_CPU_ALLOCATION": "all", "SYSTEM_MEMORY_POOL_SIZE": "1 GiB"}
"""One shard per CPU, so that requests cross shards on any machine with more than one CPU."""

StartServer = Callable[..., ServerProcess]

_SHOWN = "shown"
_SERVERS = pytest.StashKey[list[ServerProcess]]()


def ended_well(server: ServerProcess) -> None:
    """Stop the server if it still runs, and fail if its log has a panic or a traceback."""
    if server.is_running:
        assert server.stop() == 0, server.log_tail()
    log = server.log.read_text(encoding="utf-8", errors="replace")
    for word in ("panicked at", "Traceback (most recent call last)"):
        assert word not in log, server.log_tail()


@pytest.fixture
def start_server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StartServer]:
    """Start servers: `start_server(settings)`; each call has its own data directory."""
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
    """A server for one test."""
    return start_server()


@pytest.fixture(scope="module")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """One server shared by the tests of a module, each of which uses its own names."""
    server = ServerProcess(tmp_path_factory.mktemp("shared") / "data", TWO_SHARDS)
    with server:
        yield server
    ended_well(server)


@pytest.fixture
def stream(request: pytest.FixtureRequest) -> str:
    """A stream name unique to one test of the module."""
    name = str(request.node.name)
    return name if len(name) <= 255 else name[:200] + hashlib.sha256(name.encode()).hexdigest()[:16]


@pytest.fixture
def show(request: pytest.FixtureRequest) -> Iterator[list[str]]:
    """Lines that are printed whether the test passes or fails: measurements, and the seed that repeats the run."""
    lines: list[str] = []
    yield lines
    request.node.user_properties.append((_SHOWN, "\n".join(lines)))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the lines that tests have collected, which xdist workers cannot print themselves."""
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
