"""SPK-1: distribution of a limit over backlogs."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pyspark_headrace.read.admission import TriggerDelay, shared_out


@given(st.integers(1, 10_000), st.dictionaries(st.integers(0, 50), st.integers(0, 10**12), max_size=30))
def test_shares(limit: int, backlog: dict[int, int]) -> None:
    having = {key: amount for key, amount in backlog.items() if amount}
    shares = shared_out(limit, backlog)
    assert sum(shares.values()) == min(limit, sum(having.values()))
    assert all(0 < share <= having[key] for key, share in shares.items())
    if limit >= len(having):
        assert shares.keys() == having.keys()
    # In proportion: a larger backlog never gets less than a smaller one, apart from rounding.
    for one, its in shares.items():
        for other, share in shares.items():
            assert having[one] < having[other] or its >= share - 1


def test_nothing_and_everything() -> None:
    assert shared_out(5, {}) == {}
    assert shared_out(5, {"a": 0}) == {}
    assert shared_out(100, {"a": 3, "b": 0}) == {"a": 3}
    assert shared_out(10, {"a": 90, "b": 10}) == {"a": 9, "b": 1}
    assert shared_out(1, {"a": 90, "b": 100}) == {"b": 1}


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_trigger_delay() -> None:
    clock = Clock()
    delay = TriggerDelay(10, 1000, clock)
    assert not delay.is_over(0)
    assert not delay.is_over(9)
    assert delay.is_over(10)
    clock.now = 0.9
    assert not delay.is_over(9)
    clock.now = 1.0
    assert delay.is_over(1)
    # The delay restarts with each micro-batch.
    clock.now = 1.9
    assert not delay.is_over(1)
    clock.now = 5.0
    assert not delay.is_over(0)
    assert delay.is_over(1)


def test_without_a_minimum_no_caller_waits() -> None:
    delay = TriggerDelay(None, 1000, Clock())
    assert delay.is_over(1)
    assert delay.is_over(1)
    assert not delay.is_over(0)
