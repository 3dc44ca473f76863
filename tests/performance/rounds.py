"""The order in which candidates take turns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

T = TypeVar("T")

Turn = Callable[[], Mapping[str, T]]
"""One candidate's part of a round; returns its measurements by name."""


def alternate(turns: Mapping[str, Turn[T]], rounds: int, started: Callable[[str], None]) -> dict[str, list[T]]:
    """Run every candidate in every round.

    The first round is discarded: it touches memory for the first time and fills pools and caches. Every second round
    runs in reverse order, so that no candidate always follows the same other.

    Args:
        turns: Turns by candidate.
        rounds: Number of rounds that count.
        started: Called with a description of each step.
    """
    samples: dict[str, list[T]] = {}
    for number, order in enumerate(_orders(list(turns), rounds + 1)):
        for candidate in order:
            started(f"{candidate}, round {number} of {rounds}" if number else f"{candidate}, first round")
            measured = turns[candidate]()
            if number:
                for name, value in measured.items():
                    samples.setdefault(name, []).append(value)
    return samples


def _orders(candidates: list[str], rounds: int) -> Iterator[list[str]]:
    for number in range(rounds):
        yield candidates if number % 2 == 0 else candidates[::-1]
