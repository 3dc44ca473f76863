"""Numbers of the case `rivals`."""

from tests.performance.rivals.case import metrics


def test_loads_that_do_the_same_are_listed_together_and_compared() -> None:
    samples = {
        "consume headrace, 100 B: rate": [3.0],
        "consume headrace, 100 B: cpu": [0.2],
        "produce headrace, 100 B: rate": [2.0],
        "produce headrace, 100 B: cpu": [0.5],
        "produce confluent-kafka, 100 B: rate": [1.0],
        "produce confluent-kafka, 100 B: cpu": [1.5],
        "waiting headrace: p50_millis": [0.3],
    }
    found = metrics(samples, ["produce headrace", "consume headrace", "waiting headrace", "produce confluent-kafka"])
    assert [metric.name for metric in found] == [
        "produce headrace, 100 B",
        "produce headrace, 100 B: CPU",
        "produce confluent-kafka, 100 B",
        "produce confluent-kafka, 100 B: CPU",
        "consume headrace, 100 B",
        "consume headrace, 100 B: CPU",
        "waiting headrace: p50",
        "produce headrace, 100 B: messages per CPU second, confluent-kafka = 1",
    ]
    assert (found[-1].value, found[-1].is_reached) == (3.0, True)
    assert found[-2].is_reached


def test_without_the_others_nothing_is_compared() -> None:
    samples = {"produce headrace, 100 B: rate": [2.0], "produce headrace, 100 B: cpu": [0.5]}
    assert len(metrics(samples, ["produce headrace"])) == 2
