"""Tests of the audit: it detects planted losses, duplicates and reorderings."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.faults.audit import check_promises
from tests.faults.workload import Gate, Producer

Logs = list[list[bytes]]


def promised() -> tuple[Logs, list[Producer]]:
    """Return two partitions with acknowledged messages of two producers, and a part of a batch in flight."""
    first, second = (Producer(number, Gate(""), seed=0, partition=None) for number in range(2))
    first.acknowledged = [range(3), range(8, 10)]
    first.unanswered = [range(3, 8)]
    second.acknowledged = [range(2)]
    logs = [[b"0 0", b"0 1", b"0 2", b"1 0", b"1 1"], [b"0 3", b"0 4", b"0 8", b"0 9"]]
    return logs, [first, second]


def test_kept_promises() -> None:
    """A correct state is accepted, whatever became of the batch in flight."""
    logs, producers = promised()
    check_promises(logs, producers)
    logs[1][:2] = [b"0 %d" % number for number in range(3, 8)]
    check_promises(logs, producers)
    logs[1][:5] = []
    check_promises(logs, producers)


def _lose(logs: Logs) -> None:
    del logs[0][4]


def _duplicate(logs: Logs) -> None:
    logs[1].append(b"1 0")


def _duplicate_in_flight(logs: Logs) -> None:
    logs[0].append(b"0 3")


def _swap(logs: Logs) -> None:
    logs[0][0:2] = reversed(logs[0][0:2])


def _split(logs: Logs) -> None:
    logs[1].insert(3, b"1 1")
    del logs[0][4]


def _invent(logs: Logs) -> None:
    logs[0].append(b"1 2")


def _keep_only_the_end_of_what_was_in_flight(logs: Logs) -> None:
    logs[1][:2] = [b"0 7"]


@pytest.mark.parametrize(
    "plant",
    [_lose, _duplicate, _duplicate_in_flight, _swap, _split, _invent, _keep_only_the_end_of_what_was_in_flight],
)
def test_broken_promises(plant: Callable[[Logs], None]) -> None:
    """The audit rejects each planted error."""
    logs, producers = promised()
    plant(logs)
    with pytest.raises(AssertionError):
        check_promises(logs, producers)
