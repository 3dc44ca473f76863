"""Wrong credentials are counted by address."""

from headrace_connectors.guesses import ATTEMPTS_MAX, INTERVAL_SECONDS, Guesses

DAY_SECONDS = 86_400


class Clock:
    def __init__(self):
        self.seconds = 1000.0

    def __call__(self):
        return self.seconds


def tried(guesses, address, *, is_right=False, is_given=True):
    return guesses.refused_for_seconds(address, is_given=is_given, is_right=is_right)


def test_attempts_come_back():
    clock = Clock()
    guesses = Guesses(clock)
    assert [tried(guesses, "203.0.113.1") for _ in range(ATTEMPTS_MAX)] == [0.0] * ATTEMPTS_MAX
    assert tried(guesses, "203.0.113.1", is_right=True) == INTERVAL_SECONDS
    assert tried(guesses, "203.0.113.2") == 0
    assert tried(guesses, "203.0.113.1", is_given=False) == 0
    clock.seconds += INTERVAL_SECONDS
    assert tried(guesses, "203.0.113.1") == 0
    assert tried(guesses, "203.0.113.1") == INTERVAL_SECONDS


def test_an_address_with_right_ones_has_no_limit_for_a_day():
    clock = Clock()
    guesses = Guesses(clock)
    assert tried(guesses, "203.0.113.1", is_right=True) == 0
    assert {tried(guesses, "203.0.113.1") for _ in range(3 * ATTEMPTS_MAX)} == {0.0}
    clock.seconds += DAY_SECONDS
    for _ in range(ATTEMPTS_MAX):
        tried(guesses, "203.0.113.1")
    assert tried(guesses, "203.0.113.1") > 0


def test_all_addresses_of_a_host_are_one():
    guesses = Guesses(Clock())
    assert [tried(guesses, f"2001:db8::{number:x}") for number in range(ATTEMPTS_MAX)] == [0.0] * ATTEMPTS_MAX
    assert tried(guesses, "2001:db8::ffff") > 0
    assert tried(guesses, "2001:db8:0:1::1") == 0
