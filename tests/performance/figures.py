"""Figures of several rounds, and the goals that they are held against."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from tests.performance.measurement import Measurement


class Bound(StrEnum):
    """Which side of a goal is the good one."""

    AT_LEAST = ">="
    AT_MOST = "<="


@dataclass(frozen=True, slots=True)
class Goal:
    """What is to be reached."""

    bound: Bound
    value: float

    def is_reached(self, value: float) -> bool:
        """Whether `value` is on the good side."""
        return value >= self.value if self.bound is Bound.AT_LEAST else value <= self.value


def at_least(value: float) -> Goal:
    """`value` or more."""
    return Goal(Bound.AT_LEAST, value)


def at_most(value: float) -> Goal:
    """`value` or less."""
    return Goal(Bound.AT_MOST, value)


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure with a value of each round."""

    name: str
    values: tuple[float, ...]
    unit: str = ""
    """Empty for a ratio."""
    goal: Goal | None = None

    @property
    def value(self) -> float:
        """The median, which is what counts."""
        return statistics.median(self.values)

    @property
    def lowest(self) -> float:
        """Of all rounds."""
        return min(self.values)

    @property
    def highest(self) -> float:
        """Of all rounds."""
        return max(self.values)

    @property
    def is_reached(self) -> bool | None:
        """Whether the median reaches the goal; nothing without one."""
        return self.goal.is_reached(self.value) if self.goal else None


def each(measurements: Sequence[Measurement], pick: Callable[[Measurement], float]) -> tuple[float, ...]:
    """One figure of every round."""
    return tuple(pick(measurement) for measurement in measurements)


def median(measurements: Sequence[Measurement], pick: Callable[[Measurement], float | None]) -> float | None:
    """The median of a figure; nothing where it does not exist."""
    values = [value for measurement in measurements if (value := pick(measurement)) is not None]
    return statistics.median(values) if values else None


def ratios(numerators: Sequence[float], denominators: Sequence[float]) -> tuple[float, ...]:
    """Round by round, because what disturbs a round disturbs both.

    A denominator of 0 is a measurement too short to be one; the ratio is infinite then.
    """
    pairs = zip(numerators, denominators, strict=True)
    return tuple(numerator / denominator if denominator else float("inf") for numerator, denominator in pairs)


def differences(minuends: Sequence[float], subtrahends: Sequence[float]) -> tuple[float, ...]:
    """Round by round."""
    return tuple(minuend - subtrahend for minuend, subtrahend in zip(minuends, subtrahends, strict=True))
