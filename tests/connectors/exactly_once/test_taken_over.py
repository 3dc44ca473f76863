"""CON-87: a source that writes exactly once is taken over in the middle of a batch."""

from __future__ import annotations

import signal

import pytest

from tests.connectors.exactly_once.conftest import Rows, is_suspended
from tests.connectors.process import Connectors, until

Pair = tuple[Connectors, Connectors]
POINTS = (
    "stopped-before-saving",
    "stopped-before-transaction-1",
    "stopped-after-transaction-1",
    "stopped-before-third-saving",
    "stopped-before-transaction-2",
    "stopped-after-transaction-2",
)
READING = {"replication": "", "functions": 'method = "functions"\n', "test_decoding": 'decoder = "test_decoding"\n'}


def taken_over(rows: Rows, pair: Pair) -> None:
    """Suspend the first process at its fault point, wait for the second one, and wake the first."""
    one, two = pair
    until(rows.has_slot)

    rows.insert_until(lambda: is_suspended(one.pid))
    two.run(one.file.read_text(encoding="utf-8").partition('[runtime]\nstate_directory = "state"\n')[2])
    until(lambda: two.status("a")["state"] == "running")
    rows.stored_once(rows.insert(3))
    one.send_signal(signal.SIGCONT)
    one.becomes("a", "standby")
    rows.stored_once(rows.insert(3))
    assert two.status("a")["state"] == "running"
    # The state has not gone back either.
    two.kill()
    one.becomes("a", "running")
    rows.stored_once(rows.insert(3))


@pytest.mark.parametrize("point", POINTS)
def test_a_suspended_process_is_fenced_and_nothing_is_twice(rows: Rows, pair: Pair, point: str) -> None:
    """CON-87: the holder is suspended at a step of its first batch or of its second one, and wakes later."""
    pair[0].run(rows.pipeline(is_shared=True), fault=[point], is_waiting=False)
    taken_over(rows, pair)


@pytest.mark.parametrize("reading", ["functions", "test_decoding"])
def test_a_suspended_process_is_fenced_whatever_way_it_reads(rows: Rows, pair: Pair, reading: str) -> None:
    """CON-87: no connection holds the slot, so the two may read at the same time."""
    pipeline = rows.pipeline(is_shared=True, more=READING[reading])
    pair[0].run(pipeline, fault=["stopped-before-transaction-2"], is_waiting=False)
    taken_over(rows, pair)
