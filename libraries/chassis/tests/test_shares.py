"""Places that users share."""

import pytest

from headrace_chassis.shares import Shares


@pytest.mark.parametrize(
    ("count_max", "expected"),
    [(0, [0, 0, 0]), (1, [1, 0, 0]), (2, [1, 1, 0]), (3, [1, 1, 1]), (16, [8, 4, 2]), (1000, [500, 250, 125])],
)
def test_one_user_has_half_of_what_the_others_leave(count_max, expected):
    places = Shares(count_max)
    assert [sum(places.take(user) for _ in range(count_max + 1)) for user in "abc"] == expected
    assert places.count == sum(expected)
    if expected[-1]:
        places.give_back("c")
        assert places.take("c")
        assert not places.take("c")


def test_one_user_has_no_more_than_the_maximum_of_each():
    places = Shares(100, each_max=10)
    assert [sum(places.take(user) for _ in range(101)) for user in "abc"] == [10, 10, 10]
    assert places.holds("a")
    for _ in range(10):
        places.give_back("a")
    assert not places.holds("a")
