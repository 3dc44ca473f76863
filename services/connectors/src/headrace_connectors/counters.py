"""Counters of a source, and of a sink."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

CREATE_SECONDS = (0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 10.0)
"""Upper bounds of the histogram of the time that a destination took to create."""


@dataclass(slots=True)
class Counters:
    """Counters of one source in this run; none is by destination, so that a wild routing cannot multiply them."""

    routed: int = 0
    """Records that were stored."""
    refused: Counter[str] = field(default_factory=Counter)
    """Records that were refused, by reason."""
    unmatched: Counter[str] = field(default_factory=Counter)
    """Records without a destination, by what happened to them."""
    invalid: int = 0
    """Records that could not be routed, transformed or encoded."""
    create_buckets: list[int] = field(default_factory=lambda: [0] * (len(CREATE_SECONDS) + 1))
    create_seconds: float = 0.0

    def created(self, seconds: float) -> None:
        """Record the time that a destination took to look up or create."""
        index = next((i for i, bound in enumerate(CREATE_SECONDS) if seconds <= bound), len(CREATE_SECONDS))
        self.create_buckets[index] += 1
        self.create_seconds += seconds


@dataclass(slots=True)
class SinkCounters:
    """Counters of one sink in this run."""

    written: int = 0
    """Records that were written and flushed."""
    invalid: int = 0
    """Messages that could not be decoded, transformed or written."""
    dead_letters: int = 0
    """Messages that went to the dead-letter topic."""
