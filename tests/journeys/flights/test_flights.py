"""The demonstration, from its command line: all flights there and back, also through kills (LOG-9, LOG-10, LOG-15)."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.journeys.flights import demo
from tests.journeys.flights.passes import PASSES_COUNT
from tests.journeys.flights.rows import ROWS_COUNT, read_flights
from tests.server_process import ServerProcess

ROOT = Path(__file__).resolve().parents[3]


def demonstrate(*arguments: str) -> tuple[int, str]:
    """Run it as `make demo` does; returns its exit status and what it printed."""
    result = subprocess.run(
        [sys.executable, "-m", "tests.journeys.flights.demo", *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=240,
        check=False,
    )
    sys.stdout.write(result.stdout)  # shown when the test fails
    return result.returncode, result.stdout


def test_every_row_has_a_place() -> None:
    """336,776 rows, 16 carriers in alphabetical order, each row in its carrier's partition."""
    table = read_flights()
    assert table.rows_count == ROWS_COUNT
    assert table.carriers == tuple(sorted(table.carriers))
    assert len(table.carriers) == 16
    for carrier, rows in zip(table.carriers, table.rows, strict=True):
        assert {row.split(b",")[9].decode() for row in rows} == {carrier}


@pytest.mark.long(but=1)
@pytest.mark.parametrize("transport", ["websocket", "quic"])
def test_a_part_of_the_table_over(transport: str) -> None:
    """GW-2, GW-3: the same through the official client's other transports."""
    status, printed = demonstrate("--transport", transport, "--rows", "60000")
    assert status == 0
    assert "60,000 flights sent, and 4 times read back byte for byte and in order." in printed


@pytest.mark.long
def test_the_whole_table_through_kills() -> None:
    """Sent once and read back in four ways: no acknowledged message lost, none stored twice; the seed is printed."""
    status, printed = demonstrate("--kill", "4")
    assert status == 0
    assert printed.count(f"{ROWS_COUNT}/{ROWS_COUNT}") == PASSES_COUNT
    assert re.search(r"^send .*\d", printed, flags=re.MULTILINE)
    assert "336,776 flights sent, and 4 times read back byte for byte and in order." in printed
    assert re.search(r"killed 4 times \(--seed \d+\)", printed)
    assert "killed 4 times; of the batches in flight" in printed


def test_a_server_that_runs_already(server: ServerProcess) -> None:
    """A running server is used, and its data is kept."""
    for _ in range(2):
        status, _ = demonstrate("--server", server.address, "--rows", "2000", "--connections", "2", "--batch", "7")
        assert status == 0
    assert len(list((server.data / "streams").iterdir())) >= 1


def test_a_loss_is_noticed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The proof that the demonstration proves something: `memory` promises less, and a kill shows it."""
    start = ServerProcess.start

    def start_forgetful(self: ServerProcess, *, timeout_seconds: float = 60.0) -> ServerProcess:
        self.settings["DURABILITY"] = "memory"
        return start(self, timeout_seconds=timeout_seconds)

    monkeypatch.setattr(ServerProcess, "start", start_forgetful)
    assert demo.main(["--kill", "4", "--seed", "1"]) == 1
    assert re.search(r"not as it was sent: partition \d+ \(\w\w\): ", capsys.readouterr().out)


def test_only_a_server_of_its_own_is_killed(capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong use of the options ends with status 2 and says what to do."""
    with pytest.raises(SystemExit, match="2"):
        demo.parse(["--server", "127.0.0.1:8090", "--kill"])
    assert "leave out --server or --kill" in capsys.readouterr().err
