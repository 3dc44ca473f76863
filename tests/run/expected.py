"""Sizes of the suites, as a run on two idle cores has recorded them: what the first line of a run announces."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Final, TypedDict

from tests.run.running import Run
from tests.run.suites import Tier

FILE: Final = Path(__file__).with_name("expected.json")
TOLERANCE: Final = 0.1
"""Share by which the number of tests may differ before a run asks for a new record."""


class Size(TypedDict):
    """Size of a suite."""

    tests: int
    seconds: int


Sizes = dict[str, Size]


def read(tier: Tier) -> Sizes:
    """Return the recorded sizes by suite; empty if nothing is recorded."""
    recorded: dict[str, Sizes] = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
    return recorded.get(tier, {})


def record(tier: Tier, runs: Iterable[Run]) -> None:
    """Replace the sizes of the suites that have run."""
    recorded: dict[str, Sizes] = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
    sizes = recorded.setdefault(tier, {})
    for run in runs:
        sizes[run.suite.name] = {"tests": run.counts().finished, "seconds": round(run.seconds)}
    FILE.write_text(json.dumps(recorded, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def outdated(sizes: Sizes, runs: Iterable[Run]) -> list[str]:
    """Return the suites whose number of tests is no longer the recorded one."""
    found = []
    for run in runs:
        size, tests = sizes.get(run.suite.name), run.counts().finished
        if size is None or abs(size["tests"] - tests) > TOLERANCE * max(size["tests"], 20):
            found.append(run.suite.name)
    return found
