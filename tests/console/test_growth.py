"""Rates of the plots, as the console computes them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

PROGRAM = """
import { growth } from "%s/web/console/src/growth.ts";
const samples = JSON.parse(process.argv.at(-1)).map(([at, count]) => ({ at, count }));
console.log(JSON.stringify(growth(samples, ({ count }) => count, 25)));
"""


def growth(*samples: tuple[float, int]) -> list[float | None]:
    program = PROGRAM % ROOT.as_posix()
    node = ROOT / ".venv/bin/node"
    command = [node, "--input-type=module", "--eval", program, "--", json.dumps(samples)]
    found: list[float | None] = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    return found


def test_a_constant_load_has_a_constant_rate_whenever_it_is_sampled() -> None:
    """The newest sample of the server and the first of the page are milliseconds apart, with equal counts."""
    rates = growth((0, 0), (10, 2000), (20, 4000), (20.004, 4000), (25.004, 5000))
    assert rates[0] is None
    # A sample that is too close to the one before is compared with an earlier one.
    assert rates[1:] == pytest.approx([200, 200, 2000 / 10.004, 1000 / 5], rel=1e-3)


def test_gaps_and_deletions_are_no_growth() -> None:
    assert growth((0, 100), (30, 400), (40, 300), (41, 301)) == [None, None, 0, 1]
