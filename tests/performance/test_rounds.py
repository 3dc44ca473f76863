from collections.abc import Mapping

from tests.performance.rounds import Turn, alternate


def test_candidates_alternate_and_the_first_round_is_discarded() -> None:
    order: list[str] = []

    def turn(name: str) -> Turn[int]:
        def measure() -> Mapping[str, int]:
            order.append(name)
            return {name: len(order)}

        return measure

    reported: list[str] = []
    samples = alternate({"a": turn("a"), "b": turn("b")}, 3, reported.append)
    assert order == ["a", "b", "b", "a", "a", "b", "b", "a"]
    # Runs 1 and 2 belong to the discarded first round.
    assert samples == {"b": [3, 6, 7], "a": [4, 5, 8]}
    assert reported[0] == "a, first round"
    assert reported[-1] == "a, round 3 of 3"


def test_a_turn_may_measure_several_things() -> None:
    samples = alternate({"x": lambda: {"produce": 1, "consume": 2}}, 2, lambda _: None)
    assert samples == {"produce": [1, 1], "consume": [2, 2]}
