"""Circuit breakers."""

from headrace_connectors.admission.breaker import Breaker, BreakerState


def test_consecutive_failures_open_it():
    breaker = Breaker(3, cool_down=30)
    for _ in range(2):
        breaker.failed(0)
    breaker.succeeded()
    for _ in range(2):
        breaker.failed(0)
    assert breaker.admits(0)
    breaker.failed(0)
    assert not breaker.admits(29.9)
    assert breaker.state(29.9) is BreakerState.OPEN


def test_one_attempt_after_the_cool_down_decides():
    breaker = Breaker(1, cool_down=30)
    breaker.failed(0)
    assert breaker.state(30) is BreakerState.HALF_OPEN
    breaker.failed(30)
    assert breaker.state(59.9) is BreakerState.OPEN
    assert breaker.admits(60)
    breaker.succeeded()
    assert breaker.state(60) is BreakerState.CLOSED
