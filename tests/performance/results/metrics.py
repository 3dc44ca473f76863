"""Numbers of several rounds, and the goals for them."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from tests.performance.loads.measurement import Measurement


class Bound(StrEnum):
    """Side of a goal on which it is reached."""

    AT_LEAST = ">="
    AT_MOST = "<="


@dataclass(frozen=True, slots=True)
class Goal:
    """A required bound of a number."""

    bound: Bound
    value: float

    def is_reached(self, value: float) -> bool:
        """Return whether `value` reaches the goal."""
        return value >= self.value if self.bound is Bound.AT_LEAST else value <= self.value


def at_least(value: float) -> Goal:
    """`value` or more."""
    return Goal(Bound.AT_LEAST, value)


def at_most(value: float) -> Goal:
    """`value` or less."""
    return Goal(Bound.AT_MOST, value)


@dataclass(frozen=True, slots=True)
class Metric:
    """One number with a value of each round."""

    name: str
    values: tuple[float, ...]
    unit: str = ""
    """Unit; empty for a ratio."""
    goal: Goal | None = None

    @property
    def value(self) -> float:
        """Return the median, which is compared with the goal."""
        return statistics.median(self.values)

    @property
    def lowest(self) -> float:
        """Return the minimum of all rounds."""
        return min(self.values)

    @property
    def highest(self) -> float:
        """Return the maximum of all rounds."""
        return max(self.values)

    @property
    def is_reached(self) -> bool | None:
        """Return whether the median reaches the goal, or `None` without a goal."""
        return self.goal.is_reached(self.value) if self.goal else None


def each(measurements: Sequence[Measurement], pick: Callable[[Measurement], float]) -> tuple[float, ...]:
    """Return one number of every round."""
    return tuple(pick(measurement) for measurement in measurements)


def median(measurements: Sequence[Measurement], pick: Callable[[Measurement], float | None]) -> float | None:
    """Return the median of a number, or `None` if it was not measured."""
    values = [value for measurement in measurements if (value := pick(measurement)) is not None]
    return statistics.median(values) if values else None


def ratios(numerators: Sequence[float], denominators: Sequence[float]) -> tuple[float, ...]:
    """Divide round by round, because a disturbance of a round affects both values.

    A denominator of 0 means that the measurement was too short; the ratio is infinite then.
    """
    pairs = zip(numerators, denominators, strict=True)
    return tuple(numerator / denominator if denominator else float("inf") for numerator, denominator in pairs)


def differences(minuends: Sequence[float], subtrahends: Sequence[float]) -> tuple[float, ...]:
    """Subtract round by round."""
    return tuple(minuend - subtrahend for minuend, subtrahend in zip(minuends, subtrahends, strict=True))
