"""The horizon, the time up to which the shards know every commit, never exceeds that of their catalog version."""

from hypothesis import given
from hypothesis import strategies as st

from headrace_node import Horizon


def test_it_passes_when_the_shards_have_the_version() -> None:
    passed: list[int] = []
    horizon = Horizon(passed.append)
    horizon.known(5, 100)
    assert passed == []
    horizon.reached(4)
    assert passed == []
    horizon.reached(5)
    assert passed == [100]
    horizon.reached(6)
    # An older state, and one that is already in use.
    horizon.known(4, 90)
    horizon.known(6, 150)
    assert passed == [100, 150]
    assert horizon.micros == 150


def test_it_is_reached_although_there_is_always_a_later_one() -> None:
    passed: list[int] = []
    horizon = Horizon(passed.append)
    for version in range(1, 50):
        horizon.known(version + 10, version * 100)
        horizon.reached(version)
    assert len(passed) > 3


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 30)), max_size=60))
def test_it_is_the_time_of_a_version_that_they_have(steps: list[tuple[bool, int]]) -> None:
    """Version n has all changes up to time 10 n."""
    passed: list[int] = []
    horizon = Horizon(passed.append)
    version = 0
    for is_known, number in steps:
        if is_known:
            horizon.known(number, 10 * number)
        else:
            version = max(version, number)
            horizon.reached(version)
        assert horizon.micros <= 10 * version
    assert passed == sorted(set(passed))
