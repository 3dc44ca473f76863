"""CON-88: sources in processes of their own write exactly once."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.connectors.exactly_once.conftest import LEASE, Rows
from tests.connectors.process import Connectors, is_suspended, until

ROOT = Path(__file__).resolve().parents[3]
POINTS = ("before-transaction-3", "after-transaction-2")


def armed(directory: Path, point: str) -> dict[str, str]:
    """Variables with which the first process of a connector runs into a fault point."""
    return at_first_start(
        directory,
        f"    sys.path.insert(0, {str(ROOT)!r})\n"
        f"    from tests.connectors.faults import POINTS\n    POINTS[{point!r}]()\n",
    )


def at_first_start(directory: Path, lines: str) -> dict[str, str]:
    """Variables with which the first process of a connector runs lines of Python before all else."""
    (directory / "sitecustomize.py").write_text(
        f"import os, sys\nmarker = {str(directory / 'reached')!r}\n"
        "if 'headrace_connectors.runtime.isolation.child' in sys.orig_argv and not os.path.exists(marker):\n"
        f"    open(marker, 'w').close()\n{lines}",
        encoding="utf-8",
    )
    return {"PYTHONPATH": str(directory)}


@pytest.mark.long(but=1)
@pytest.mark.parametrize("point", POINTS)
def test_its_process_is_killed_at_a_step_and_nothing_is_twice(
    rows: Rows, connectors: Connectors, tmp_path: Path, point: str
) -> None:
    """CON-88: the parent saves its states and starts it again."""
    connectors.run(rows.pipeline(isolation="process"), environment=armed(tmp_path, point))
    until(rows.has_slot)

    rows.insert_until(lambda: connectors.status("a")["restarts_count"] > 0)
    assert (tmp_path / "reached").exists()
    # The next process may have an error of its own by now.
    assert any("SIGKILL" in error["message"] for error in connectors.status("a")["errors"])
    rows.stored_once(rows.insert(3))
    # The parent is killed as well, and another one goes on.
    connectors.kill()
    rows.insert(3)
    connectors.run()
    rows.stored_once(rows.insert(3))


@pytest.mark.long
def test_its_process_may_start_more_slowly_than_a_lease_lasts(
    rows: Rows, connectors: Connectors, tmp_path: Path
) -> None:
    """CON-88: the lease is renewed meanwhile, and the process goes by the renewed one."""
    slow = at_first_start(tmp_path, "    import time\n    time.sleep(7)\n")
    connectors.run(rows.pipeline(lease="6 s", isolation="process"), environment=slow)
    until(rows.has_slot)
    rows.stored_once(rows.insert(3))
    assert (tmp_path / "reached").exists()
    assert connectors.status("a")["restarts_count"] == 0


@pytest.mark.long
def test_both_processes_are_suspended_and_nothing_is_twice(
    rows: Rows, pair: tuple[Connectors, Connectors], tmp_path: Path
) -> None:
    """CON-88: as a machine that sleeps. The process of the source wakes first, and has lost its lease."""
    one, two = pair
    # Long enough for the first process of the source: the next one would not run into the fault point.
    pipeline = rows.pipeline(lease="12 s", isolation="process")
    one.run(pipeline, environment=armed(tmp_path, "stopped-before-transaction-2"))
    worker: int = until(lambda: one.status("a").get("process_id") or 0)
    until(rows.has_slot)

    rows.insert_until(lambda: is_suspended(worker))
    one.send_signal(signal.SIGSTOP)
    two.run(rows.pipeline(lease=LEASE, isolation="process"))
    two.becomes("a", "running")
    rows.stored_once(rows.insert(3))
    os.kill(worker, signal.SIGCONT)
    rows.stored_once(rows.insert(3))
    one.send_signal(signal.SIGCONT)
    one.becomes("a", "standby")
    rows.stored_once(rows.insert(3))
    two.stop()
    one.becomes("a", "running")
    rows.stored_once(rows.insert(3))
