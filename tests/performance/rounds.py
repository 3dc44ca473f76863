"""The order in which candidates take turns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

T = TypeVar("T")

Turn = Callable[[], Mapping[str, T]]
"""One candidate's part of a round: what it measured, by name."""


def alternate(turns: Mapping[str, Turn[T]], rounds: int, started: Callable[[str], None]) -> dict[str, list[T]]:
    """Let every candidate have its turn in every round.

    The first round is discarded: it touches memory that nothing has touched before, fills pools and caches. Every
    second round runs backwards, so that nobody always works in the wake of the same other.

    Args:
        turns: By candidate.
        rounds: That count.
        started: Told what begins.
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
