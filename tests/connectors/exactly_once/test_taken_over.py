"""CON-87: a source that writes exactly once is taken over in the middle of a batch."""

from __future__ import annotations

import signal

import pytest

from tests.connectors.exactly_once.conftest import LEASE, Rows
from tests.connectors.process import Connectors, is_suspended, until

HOLDER_LEASE = "3 s"
"""Lease that the second process waits for. The first one may lose it before: it goes on to its fault point."""
Pair = tuple[Connectors, Connectors]
POINTS = ("stopped-before-saving", "stopped-before-transaction-1", "stopped-after-transaction-2")
READING = {"replication": "", "functions": 'method = "functions"\n', "test_decoding": 'decoder = "test_decoding"\n'}


def taken_over(rows: Rows, pair: Pair, point: str, more: str = "") -> None:
    """Suspend the first process at its fault point, wait for the second one, and wake the first."""
    one, two = pair
    one.run(rows.pipeline(lease=HOLDER_LEASE, more=more), fault=[point], is_waiting=False)
    until(rows.has_slot)

    rows.insert_until(lambda: is_suspended(one.pid))
    two.run(rows.pipeline(lease=LEASE, more=more))
    two.becomes("a", "running")
    rows.stored_once(rows.insert(3))
    one.send_signal(signal.SIGCONT)
    one.becomes("a", "standby")
    rows.stored_once(rows.insert(3))
    two.becomes("a", "running")
    # The state has not gone back either.
    two.stop()
    one.becomes("a", "running")
    rows.stored_once(rows.insert(3))


@pytest.mark.long(but=1)
@pytest.mark.parametrize("point", POINTS)
def test_a_suspended_process_is_fenced_and_nothing_is_twice(rows: Rows, pair: Pair, point: str) -> None:
    """CON-87: the holder is suspended at a step of its first batch or of its second one, and wakes later."""
    taken_over(rows, pair, point)


@pytest.mark.long
@pytest.mark.parametrize("reading", ["functions", "test_decoding"])
def test_a_suspended_process_is_fenced_whatever_way_it_reads(rows: Rows, pair: Pair, reading: str) -> None:
    """CON-87: no connection holds the slot, so the two may read at the same time."""
    taken_over(rows, pair, "stopped-before-transaction-2", READING[reading])
