import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.performance.loads.measurement import Measurement, from_report
from tests.performance.results.metrics import (
    Goal,
    Metric,
    at_least,
    at_most,
    differences,
    each,
    median,
    ratios,
)


def measurement(requests: int = 1000, payload_bytes: int = 500_000_000, **changes: float) -> Measurement:
    values = {"wall_seconds": 2.0, "cpu_seconds": 0.25, "client_cpu_seconds": 0.5} | changes
    return Measurement(requests=requests, payload_bytes=payload_bytes, **values)


def test_units_of_a_measurement() -> None:
    run = measurement(p50_micros=1500.0)
    assert run.mb_per_second == 250.0
    assert run.requests_per_second == 500.0
    assert run.cpu_seconds_per_gb == 0.5
    assert run.client_cpu_seconds_per_gb == 1.0
    assert run.cpu_micros_per_request == 250.0
    assert run.p50_millis == 1.5
    assert run.p99_millis is None


def test_a_loop_of_our_own_has_no_client() -> None:
    run = Measurement(requests=1, payload_bytes=1, wall_seconds=1.0, cpu_seconds=1.0)
    assert run.client_cpu_seconds_per_gb is None


def test_a_report_of_a_load_generator() -> None:
    group = {
        "requests": 10,
        "payload_bytes": 1_000_000,
        "wall_seconds": 0.5,
        "latency": {"p50_micros": 100.0, "p99_micros": 900.0},
    }
    run = from_report(group, {"user_seconds": 0.25, "system_seconds": 0.5}, {"user_seconds": 1.0, "system_seconds": 0})
    assert (run.cpu_seconds, run.client_cpu_seconds) == (0.75, 1.0)
    assert (run.p50_micros, run.p99_micros) == (100.0, 900.0)


def test_the_median_is_what_counts() -> None:
    metric = Metric("share", (0.9, 0.1, 0.8, 0.2, 0.7), "", at_least(0.7))
    assert (metric.value, metric.lowest, metric.highest) == (0.7, 0.1, 0.9)
    assert metric.is_reached is True
    assert Metric("share", (0.7, 0.6), "", at_least(0.66)).value == pytest.approx(0.65)


@pytest.mark.parametrize(
    ("goal", "value", "reached"),
    [
        (at_least(0.75), 0.75, True),
        (at_least(0.75), 0.749, False),
        (at_most(0.45), 0.45, True),
        (at_most(0.45), -0.1, True),
        (at_most(0.45), 0.451, False),
        (at_most(1.0), math.inf, False),
    ],
)
def test_goals(goal: Goal, value: float, reached: bool) -> None:
    assert Metric("x", (value,), "", goal).is_reached is reached


def test_a_metric_without_a_goal_reaches_nothing() -> None:
    assert Metric("x", (1.0,)).is_reached is None


def test_ratios_are_taken_round_by_round() -> None:
    # A disturbance of the whole second round leaves its ratio unchanged.
    assert ratios((500.0, 50.0), (1000.0, 100.0)) == (0.5, 0.5)
    assert ratios((1.0,), (0.0,)) == (math.inf,)
    assert differences((0.9, 0.5), (0.5, 0.25)) == pytest.approx((0.4, 0.25))


def test_rounds_that_do_not_match_are_refused() -> None:
    with pytest.raises(ValueError, match="shorter"):
        ratios((1.0, 2.0), (1.0,))
    with pytest.raises(ValueError, match="shorter"):
        differences((1.0, 2.0), (1.0,))


def test_medians_of_runs() -> None:
    runs = [measurement(wall_seconds=seconds) for seconds in (1.0, 4.0, 2.0)]
    assert median(runs, lambda run: run.mb_per_second) == 250.0
    assert median(runs, lambda run: run.p50_millis) is None
    assert each(runs, lambda run: run.wall_seconds) == (1.0, 4.0, 2.0)


@given(st.lists(st.floats(min_value=0.001, max_value=1000), min_size=1), st.floats(min_value=0.001, max_value=1000))
def test_the_median_of_ratios_to_oneself_and_scaled(values: list[float], factor: float) -> None:
    assert Metric("x", ratios(values, values)).value == 1.0
    assert Metric("x", ratios([value * factor for value in values], values)).value == pytest.approx(factor)
