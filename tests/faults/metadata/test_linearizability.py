"""Tests of the history checker: it accepts every history of an atomic key and rejects all others."""

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.faults.metadata.history import Operation, State
from tests.faults.metadata.linearizability import is_linearizable

START = State("start", locked=False)


def write(value: str, invoked: float, returned: float = float("inf")) -> Operation:
    return Operation("write", invoked, returned, value=value)


def read(value: str, invoked: float, returned: float, *, locked: bool = False) -> Operation:
    return Operation("read", invoked, returned, seen=State(value, locked))


def lock(invoked: float, returned: float = float("inf"), *, succeeded: bool = True) -> Operation:
    return Operation("lock", invoked, returned, succeeded=succeeded)


def unlock(invoked: float, returned: float = float("inf"), *, succeeded: bool = True) -> Operation:
    return Operation("unlock", invoked, returned, succeeded=succeeded)


@pytest.mark.parametrize(
    "operations",
    [
        [],
        [write("a", 0, 1), read("a", 2, 3)],
        # Overlapping calls: the read may precede or follow the write.
        [write("a", 0, 5), read("start", 1, 2)],
        [write("a", 0, 5), read("a", 1, 2)],
        [write("a", 0, 5), write("b", 0, 5), read("a", 1, 2), read("b", 3, 4)],
        # Unknown outcome: the write may take effect never, at once, or much later.
        [write("a", 0), read("start", 5, 6)],
        [write("a", 0), read("start", 5, 6), read("a", 7, 8)],
        [lock(0, 1), lock(2, 3, succeeded=False), unlock(4, 5), unlock(6, 7, succeeded=False)],
        [lock(0), lock(1, 2, succeeded=False), read("start", 3, 4, locked=True)],
        [lock(0), unlock(0), lock(1, 2, succeeded=False), lock(3, 4)],
    ],
)
def test_possible_histories(operations: list[Operation]) -> None:
    assert is_linearizable(operations, START)


@pytest.mark.parametrize(
    "operations",
    [
        # An acknowledged write is lost.
        [write("a", 0, 1), read("start", 2, 3)],
        # A read returns an old value after a new one.
        [write("a", 0, 5), read("a", 1, 2), read("start", 3, 4)],
        [write("a", 0), read("a", 5, 6), read("start", 7, 8)],
        # A read returns a value before its write, or one never written.
        [read("a", 0, 1), write("a", 2, 3)],
        [read("b", 0, 1)],
        # A write takes effect twice.
        [write("a", 0, 1), write("b", 2, 3), read("b", 4, 5), read("a", 6, 7)],
        [lock(0, 1), lock(2, 3)],
        [lock(0), lock(1, 2), lock(3, 4)],
        [lock(0, 1), unlock(2, 3), read("start", 4, 5, locked=True)],
    ],
)
def test_impossible_histories(operations: list[Operation]) -> None:
    assert not is_linearizable(operations, START)


def atomic_history(seed: int, clients: int = 4, count: int = 60) -> list[Operation]:
    """Generate a history of clients of one atomic key, with overlapping calls and calls without a response."""
    numbers = random.Random(seed)
    state, operations = START, []
    free_at = [0.0] * clients
    for number in range(count):
        client = min(range(clients), key=free_at.__getitem__)
        invoked = free_at[client] + numbers.random() / 10
        happened = max(invoked, max((o.invoked for o in operations), default=0.0)) + 1e-6
        returned = happened + numbers.random()
        free_at[client] = returned
        kind = numbers.choice(["write", "lock", "unlock", "read"])
        if kind != "read" and numbers.random() < 0.15:
            # Half of the calls without a response take effect.
            if numbers.random() < 0.5:
                state = State(f"v{number}", state.locked) if kind == "write" else State(state.value, kind == "lock")
            operations.append(Operation(kind, invoked, value=f"v{number}"))
        elif kind == "write":
            state = State(f"v{number}", state.locked)
            operations.append(write(f"v{number}", invoked, returned))
        elif kind == "read":
            operations.append(Operation("read", invoked, returned, seen=state))
        else:
            wanted = kind == "lock"
            operations.append(Operation(kind, invoked, returned, succeeded=state.locked != wanted))
            state = State(state.value, wanted)
    return operations


@given(st.integers(0, 2**32))
def test_what_an_atomic_key_answers_passes(seed: int) -> None:
    assert is_linearizable(atomic_history(seed), START)


@given(st.integers(0, 2**32))
def test_a_read_of_a_value_from_long_ago_is_found(seed: int) -> None:
    operations = atomic_history(seed)
    reads = [o for o in operations if o.kind == "read"]
    if not reads:
        return
    last = reads[-1]
    settled = [o for o in operations if o.kind == "write" and o.returned < last.invoked]
    if len(settled) < 2:
        return
    settled.sort(key=lambda o: o.returned)
    first, later = settled[0], settled[-1]
    if later.invoked <= first.returned or last.seen is None or last.seen.value == first.value:
        return
    broken = [o for o in operations if o is not last]
    broken.append(replace(last, seen=State(first.value, last.seen.locked)))
    assert not is_linearizable(broken, START)


def test_a_long_history_with_many_open_calls_is_checked_quickly() -> None:
    assert is_linearizable(atomic_history(1, clients=16, count=3000), START)
