"""CON-23: the small version of ``python -m tests.connectors.soak``."""

from __future__ import annotations

import os
from pathlib import Path

from tests.connectors.soak.run import Run


def test_nothing_is_missing_and_nothing_is_twice_while_everything_is_killed(tmp_path: Path) -> None:
    """Changes of 20 tables through 20 topics to a copy and to files."""
    seed = int(os.environ.get("TEST_SEED", "7"))
    outcome = Run(tmp_path, seed, 3000, 5, print, transaction_max=100).run()
    assert outcome.problems == []
    assert outcome.changes >= 3000
    assert sum(outcome.kills.values()) == 5
